"""Reductions: sum and var_mean over rows, over columns and over everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.problem import ITEM_BYTES, Problem, type_named

SIZES = ((8192, 16384), (1048576, 64), (64, 1048576))
DTYPES = ("bfloat16", "float")
AXES = {"rows": (1,), "columns": (0,), "all": (0, 1)}
"""What is summed away: each row, each column, or everything."""


def problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite, in the order of its tables."""
    for dtype in DTYPES[:1] if quick else DTYPES:
        for over in AXES:
            for rows, columns in SIZES:
                yield total(over, rows, columns, dtype)
        for over in AXES:
            for rows, columns in SIZES:
                yield var_mean(over, rows, columns, dtype)


def total(over: str, rows: int, columns: int, dtype: str) -> Problem:
    """The sum over an axis, in the dtype of the input."""
    dims = AXES[over]

    def eager(x: Any) -> Any:
        return x.sum(dims)

    def fused(x: Any) -> Any:
        from warpsmith import ops

        return ops.sum(x, list(dims))

    def define(fd: Any, types: Any, x: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        summed = fd.ops.sum(wide, dims=list(dims), keepdim=False)
        fd.add_output(fd.ops.cast(summed, dtype=type_named(types, dtype)))

    return _problem(f"sum_{over}", rows, columns, dtype, (eager, fused, define), dims, outputs=1)


def var_mean(over: str, rows: int, columns: int, dtype: str) -> Problem:
    """Variance (unbiased) and mean over an axis."""
    dims = AXES[over]

    def eager(x: Any) -> Any:
        import torch

        return torch.var_mean(x, dims)

    def fused(x: Any) -> Any:
        from warpsmith import ops

        return ops.var_mean(x, list(dims))

    def define(fd: Any, types: Any, x: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        for out in fd.ops.var_mean(wide, dims=list(dims), correction=1, keepdim=False):
            fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    three = (eager, fused, define)
    return _problem(f"var_mean_{over}", rows, columns, dtype, three, dims, outputs=2)


def _problem(
    name: str,
    rows: int,
    columns: int,
    dtype: str,
    programs: tuple[Any, Any, Any],
    dims: tuple[int, ...],
    *,
    outputs: int,
) -> Problem:
    eager, fused, define = programs
    kept = 1
    for dim, extent in enumerate((rows, columns)):
        kept *= 1 if dim in dims else extent
    return Problem(
        suite="reduction",
        name=name,
        shapes=((rows, columns),),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=outputs * kept * ITEM_BYTES[dtype],
        ceiling="read",
    )
