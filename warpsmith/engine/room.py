"""Whether what a kernel keeps in shared memory fits a block, where calls decide how much it is."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.errors import ArgumentError
from warpsmith.ir import integers
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.targets.family import Limits


def check_room(kernel: Kernel, known: Mapping[str, int], limits: Limits) -> None:
    """Refuse a call for which stages of its length would not fit.

    Args:
        known: values of the launch's scalars, derived ones included.

    Raises:
        ArgumentError: WS0326; what is too much at any size lowering has refused.
    """
    sized = [b for b in kernel.shared if integers.constant(b.size) is None]
    if not sized:
        return
    needed = layout_of(kernel).total(known)
    if needed <= limits.block_shared:
        return
    values = dict(known)
    parts = ", ".join(f"{b.name} {evaluate(b.size, values) * b.dtype.size}" for b in sized)
    raise ArgumentError(
        f"a block of {kernel.name} would need {needed} bytes of shared memory for arrays of this "
        f"size ({parts}), and it may have {limits.block_shared}",
        code="WS0326",
        remedy="pass shorter rows, or schedule fewer stages or tiles of constant length",
    )
