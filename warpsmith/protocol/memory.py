"""Whether the shared memory of a block fits."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.protocol.rules import Rule, broken
from warpsmith.targets.family import Limits


def check_shared(kernel: Kernel, known: Mapping[str, int], limits: Limits) -> int:
    """Bytes of shared memory of one block.

    Raises:
        Broken: they are more than a block may have.
    """
    total = layout_of(kernel).total(known)
    if total > limits.block_shared:
        broken(
            Rule.SHARED,
            f"the block needs {total} bytes of shared memory",
            f"a block has at most {limits.block_shared}",
        )
    return total
