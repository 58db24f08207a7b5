"""Rules of what takes parts of dimensions, or adds to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.programs.bounds import Bounded
from tests.programs.program import Dim, Extent, Program
from tests.programs.rules.moves import moved
from tests.programs.values import Value, as_tensor, perhaps_stored, require


def narrow(program: Program, x: Any, dim: int, start: int, length: Extent) -> Value:
    tensor = as_tensor(x)
    extent, count = program.extent(tensor.dims[dim]), program.extent(length.dim)
    first = start + extent if start < 0 else start
    require(0 <= first <= first + count <= extent, "inside")
    dims = [*tensor.dims[:dim], length.dim, *tensor.dims[dim + 1 :]]
    return moved(
        perhaps_stored(tensor), dims, lambda v: np.take(v, np.arange(first, first + count), dim)
    )


def parted(program: Program, x: Any, count: Extent, dim: int) -> tuple[Value, ...]:
    """`chunk`: a dimension whose first size is the number of parts."""
    tensor = as_tensor(x)
    (name,) = count.dim
    require(program.is_static(count.dim) and tensor.dims[dim][:1] == (name,), "so many parts")
    parts, rest = program.extent(count.dim), tensor.dims[dim][1:]
    each = program.extent(rest)
    require(each > 0 or not program.is_static(tensor.dims[dim]), "nothing is one part")
    dims = [*tensor.dims[:dim], rest, *tensor.dims[dim + 1 :]]
    held = perhaps_stored(tensor)
    return tuple(
        moved(held, dims, lambda v, k=k: np.take(v, np.arange(k * each, k * each + each), dim))
        for k in range(parts)
    )


def unbind(program: Program, x: Any, dim: int) -> tuple[Value, ...]:
    tensor = as_tensor(x)
    require(program.is_static(tensor.dims[dim]) and tensor.dims[dim] != (), "known elements")
    dims = [each for d, each in enumerate(tensor.dims) if d != dim]
    held = perhaps_stored(tensor)
    return tuple(
        moved(held, dims, lambda v, k=k: np.take(v, k, dim))
        for k in range(program.extent(tensor.dims[dim]))
    )


def _tied(program: Program, x: Value, dim: int, extent: int) -> Dim:
    """The dimension of a size that has this extent, the first one of these."""
    names = [n for n in program.sizes if n.startswith("p") and program.extent((n,)) == extent]
    known = program.is_static(x.dims[dim])
    names = [n for n in names if program.sizes[n].fixed and program.sizes[n].static == known]
    require(bool(names), "a size of this extent")
    return (names[0],)


def pad(program: Program, x: Any, widths: Sequence[int], value: Any = 0) -> Value:
    """Widths of the last dimension, or of the last two; those below 0 cut off."""
    tensor = as_tensor(x)
    rank, dims = len(tensor.dims), list(tensor.dims)
    require(len(widths) % 2 == 0 and len(widths) <= 2 * rank, "two of each dimension")
    held = perhaps_stored(tensor).wide
    arrays = [held.value, held.error]
    for number in range(len(widths) // 2):
        d, ends = rank - 1 - number, widths[2 * number : 2 * number + 2]
        if any(ends):
            made = program.extent(tensor.dims[d]) + sum(ends)
            dims[d] = _tied(program, tensor, d, made)
            arrays = [_padded(v, d, ends, fill) for v, fill in zip(arrays, (value, 0), strict=True)]
    return Value(tensor.dtype, tuple(dims), Bounded(held.dtype, *arrays))


def _padded(v: np.ndarray, d: int, ends: Sequence[int], fill: Any) -> np.ndarray:
    """Elements before and behind those of a dimension, of which some are cut off."""
    around = [(abs(ends[0]), abs(ends[1])) if k == d else (0, 0) for k in range(v.ndim)]
    wide = np.pad(v, around, constant_values=np.asarray(fill).astype(v.dtype))
    first = abs(ends[0]) - ends[0]
    return np.take(wide, np.arange(first, first + v.shape[d] + sum(ends)), d)


def sliced(
    program: Program, x: Any, starts: Sequence[int], ends: Sequence[Any], steps: Sequence[int]
) -> Value:
    """Of one dimension or several; those that keep all of a dimension keep its name."""
    tensor = as_tensor(x)
    parts = tuple(slice(a, b, c) for a, b, c in zip(starts, ends, steps, strict=True))
    require(len(parts) == len(tensor.dims), "bounds of each dimension")
    dims = list(tensor.dims)
    for d, part in enumerate(parts):
        extent = program.extent(tensor.dims[d])
        if (part.start, part.stop, part.step) != (0, None, 1):
            dims[d] = _tied(program, tensor, d, len(range(extent)[part]))
    return moved(perhaps_stored(tensor), dims, lambda v: v[parts])
