"""What later regions alone read is computed there, where that moves no more bytes."""

from typing import Any

import numpy as np

import warpsmith
from tests.planner.test_plans import drawn, planned
from warpsmith import DataType, knobs, ops

ROWS, WIDE = 256, 128
X, BOTH, BACK = drawn(ROWS, 64), drawn(64, 2 * WIDE), drawn(WIDE, WIDE)


def silu(x: Any) -> Any:
    return x * ops.sigmoid(x)


def float_of(x: Any) -> Any:
    return ops.cast(x, DataType.Float)


def gated(x: Any, both: Any, back: Any) -> Any:
    """A convolution of two rows, and a product of it, which a gate meets behind a sum of rows."""
    made = ops.matmul(x, both)
    y, gate = made[:, :WIDE], made[:, WIDE:]
    y = ops.cast(silu(float_of(y) + float_of(ops.pad(y, [0, 0, 1, -1]))), DataType.BFloat16)
    seen = ops.cumsum(float_of(ops.matmul(y, back)), 0)
    return ops.cast(seen * silu(float_of(gate)), DataType.BFloat16)


def written(segments: Any) -> list[tuple[str, int]]:
    return [(s.candidate.scheduler, len(s.segment.writes)) for s in segments]


def test_a_gate_that_is_a_part_of_a_product_is_computed_where_it_is_used() -> None:
    kernels = written(planned(gated, X, BOTH, BACK))
    assert kernels == [("matmul", 1), ("pointwise", 1), ("matmul", 1), ("scan", 1)]


def test_it_is_right() -> None:
    fused = warpsmith.fuse(gated)
    found = fused(X, BOTH, BACK)
    with knobs.scope(device="reference"):
        wanted = fused(X, BOTH, BACK)
    far = np.abs(found.astype(np.float32) - wanted.astype(np.float32)).max()
    assert far <= 0.02 * np.abs(wanted.astype(np.float32)).max()


def exponentials(x: Any) -> Any:
    for _ in range(20):
        x = ops.sin(x) * 2.0
    return x


def of_saved(x: Any, w: Any, a: Any, b: Any) -> Any:
    """What is made of inputs in many steps, and meets a product behind a scan."""
    made = exponentials(float_of(a)) + float_of(b)
    return ops.cumsum(float_of(ops.matmul(x, w)), 0) * made, ops.sum(float_of(a), [0])


def of_five(x: Any, w: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    made = exponentials(sum(map(float_of, (a, b, c, d, e))))
    beside = [ops.sum(float_of(each), [0]) for each in (a, b, c, d, e)]
    return ops.cast(ops.cumsum(float_of(ops.matmul(x, w)), 0) * made, DataType.BFloat16), *beside


def test_what_is_made_of_few_bytes_is_not_stored() -> None:
    given = X, drawn(64, WIDE), *(drawn(ROWS, WIDE) for _ in range(2))
    assert written(planned(of_saved, *given)) == [("reduction", 1), ("matmul", 1), ("scan", 1)]


def test_what_is_made_of_many_that_are_read_in_any_case_is_stored() -> None:
    given = X, drawn(64, WIDE), *(drawn(ROWS, WIDE) for _ in range(5))
    kernels = planned(of_five, *given)
    scan = next(k for k in kernels if k.candidate and k.candidate.scheduler == "scan")
    assert len(scan.segment.reads) == 2


def used_twice(x: Any, down: Any, skip: Any) -> Any:
    """Rows of batches that a product reads as rows, and that a scan needs beside what it makes."""
    y = ops.cast(exponentials(float_of(x)), DataType.BFloat16)
    made = ops.reshape(ops.matmul(ops.reshape(y, [-1, WIDE]), down), [2, ROWS, WIDE])
    seen = ops.cumsum(float_of(made), 1)
    return ops.cast(seen + float_of(y) * float_of(ops.reshape(skip, [1, 1, -1])), DataType.BFloat16)


def test_a_value_that_is_scaled_behind_a_product_is_stored_in_one_shape() -> None:
    given = drawn(2, ROWS, WIDE), BACK, drawn(WIDE)
    kernels = written(planned(used_twice, *given))
    assert kernels == [("pointwise", 1), ("matmul", 1), ("scan", 1)]
