"""Where shared buffers lie, and whether they fit: the twin of what codegen lays out."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.nodes import Buffer, Kernel
from warpsmith.protocol.rules import Break, Broken, Rule
from warpsmith.targets.family import Limits


def offsets(kernel: Kernel, known: Mapping[str, int]) -> tuple[tuple[Buffer, int], ...]:
    """Offset in bytes of each shared buffer: those that are given, then the most aligned first."""
    values, given = dict(known), dict(kernel.offsets)
    places: list[tuple[Buffer, int]] = []
    end = 0
    for buffer in kernel.shared:
        if buffer.name in given:
            start = given[buffer.name]
            places.append((buffer, start))
            end = max(end, start + evaluate(buffer.size, values) * buffer.dtype.size)
    rest = [buffer for buffer in kernel.shared if buffer.name not in given]
    for buffer in sorted(rest, key=lambda b: -b.alignment):
        start = _aligned(end, max(buffer.alignment, 16))
        places.append((buffer, start))
        end = start + evaluate(buffer.size, values) * buffer.dtype.size
    return tuple(places)


def shared_bytes(kernel: Kernel, known: Mapping[str, int]) -> int:
    """Bytes of shared memory of one block."""
    values = dict(known)
    ends = [at + evaluate(b.size, values) * b.dtype.size for b, at in offsets(kernel, known)]
    return _aligned(max(ends, default=0), 16)


def check_shared(kernel: Kernel, known: Mapping[str, int], limits: Limits) -> int:
    """Bytes of shared memory of one block.

    Raises:
        Broken: they are more than a block may have.
    """
    total = shared_bytes(kernel, known)
    if total > limits.block_shared:
        raise Broken(
            Break(
                rule=Rule.SHARED,
                got=f"the block needs {total} bytes of shared memory",
                wanted=f"a block has at most {limits.block_shared}",
            )
        )
    return total


def _aligned(offset: int, to: int) -> int:
    return -(-offset // to) * to
