"""Where things lie in shared memory, by arithmetic on whole bytes: the reference of the tests."""

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def swizzled(address: int, span: int) -> int:
    """The place of a byte in a pattern of `span` (32, 64 or 128; else none) bytes.

    Lines of 128 bytes are numbered from address 0; in line i, chunk c of 16 bytes changes places
    with chunk c xor i, both counted modulo the chunks of a span.
    """
    if span not in (32, 64, 128):
        return address
    chunks = span // 16
    line, within = divmod(address, 128)
    chunk, byte = divmod(within, 16)
    group, position = divmod(chunk, chunks)
    return 128 * line + 16 * (group * chunks + (position ^ line % chunks)) + byte


def swizzled_with_base(address: int, span: int, base: int) -> int:
    """The same where the pattern starts `base` lines of 128 bytes late."""
    return swizzled(address - 128 * base, span) + 128 * base


def k_major(line: int, byte: int, span: int, leading: int, stride: int) -> int:
    """The offset of byte `byte` of line `line`: k runs along bytes, lines along m or n."""
    group, within = divmod(line, 8)
    if span == 16:
        chunk, byte = divmod(byte, 16)
        return group * stride + chunk * leading + within * 16 + byte
    return group * stride + within * span + byte


def mn_major(line: int, k: int, span: int, leading: int, stride: int) -> int:
    """The offset of element (line, k) of two bytes: m or n runs along bytes."""
    atom, byte = divmod(2 * line, span)
    group, within = divmod(k, 8)
    if span == 16:
        return atom * stride + group * leading + within * 16 + byte
    return atom * leading + group * stride + within * span + byte


def put(memory: Bytes, at: int, value: Bytes) -> None:
    memory[at : at + len(value)] = value


def lay_out(
    memory: Bytes,
    start: int,
    matrix: npt.NDArray[np.generic],
    *,
    transposed: bool,
    span: int,
    leading: int,
    stride: int,
    base: int = 0,
) -> None:
    """Write a matrix of lines x k into shared memory, element by element."""
    size = matrix.dtype.itemsize
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, size)
    for line, k in np.ndindex(*matrix.shape):
        if transposed:
            offset = mn_major(line, k, span, leading, stride)
        else:
            offset = k_major(line, k * size, span, leading, stride)
        put(memory, swizzled_with_base(start + offset, span, base), raw[line, k])
