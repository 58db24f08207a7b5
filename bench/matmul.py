"""Matrix products of bfloat16, both operands contiguous along the summed dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.problem import ITEM_BYTES, Problem

SUITE = "matmul"

SIZES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 1024, 4096),
    (2048, 11008, 4096),
    (3648, 480, 8632),
    (4000, 4104, 4040),
)
"""Rows and columns of the result, and terms of each sum; the last two are multiples of no tile."""

QUICK_SIZES = ((4096, 4096, 4096),)


def problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite, in the order of its tables."""
    for m, n, k in QUICK_SIZES if quick else SIZES:
        yield linear(m, n, k, "bfloat16")


def linear(m: int, n: int, k: int, dtype: str) -> Problem:
    """`x [m, k] @ weight [n, k].T`."""

    def eager(x: Any, weight: Any) -> Any:
        import torch

        return torch.nn.functional.linear(x, weight)

    def fused(x: Any, weight: Any) -> Any:
        from warpsmith import ops

        return ops.linear(x, weight)

    def define(fd: Any, types: Any, x: Any, weight: Any) -> None:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))

    return Problem(
        suite=SUITE,
        name="linear",
        shapes=((m, k), (n, k)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=m * n * ITEM_BYTES[dtype],
        ceiling="tensor_cores",
        operations=2 * m * n * k,
        known_as=(m, n, k),
    )
