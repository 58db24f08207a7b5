"""Sizes and strides of every kind, and what the TMA unit cannot load."""

import random

import pytest

from tests.support.matmuls import linear
from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200


def drawn(count: int) -> list[tuple[int, int, int]]:
    """Sizes of which k is a multiple of 8; the others are whatever comes."""
    source = random.Random(5)
    return [
        (source.randint(1, 200), source.randint(1, 200), 8 * source.randint(1, 25))
        for _ in range(count)
    ]


@pytest.mark.few(3)
@pytest.mark.parametrize("size", [(1, 1, 8), (1, 97, 64), (97, 1, 64), (127, 129, 72), *drawn(6)])
def test_any_rows_and_columns(size: tuple[int, int, int]) -> None:
    m, n, k = size
    x, weight = values((m, k), 1), values((n, k), 2)
    with knobs.scope(device="sim"):
        (result,) = linear().execute([x, weight])
    close(result, wide(x) @ wide(weight).T, k)


@pytest.mark.few(2)
@pytest.mark.parametrize("k", [1, 60, 61, 64])
def test_any_depth_where_rows_are_padded(k: int) -> None:
    """Rows of k elements, each of which starts at a multiple of 16 bytes."""
    x, weight = values((70, 72), 3)[:, :k], values((90, 80), 4)[:, :k]
    if k == 1:  # a dimension of one element is none
        with FusionDefinition() as fd:
            a, b = (fd.define_tensor([-1, -1], [False, True], DataType.BFloat16) for _ in "ab")
            fd.add_output(fd.ops.linear(a, b))
        with knobs.scope(device="sim"):
            (result,) = fd.execute([x, weight])
    else:
        (result,) = run([x, weight], lambda ops, a, b: ops.linear(a, b))
    close(result, wide(x) @ wide(weight).T, k)


def padded(m: int, n: int, k: int, pitch: int, aligned: int = 16) -> str:
    """What the scheduler says of operands whose rows are `pitch` elements apart."""
    with FusionDefinition() as fd:
        x, weight = (fd.define_tensor([-1, -1], [False, True], DataType.BFloat16) for _ in "xw")
        fd.add_output(fd.ops.linear(x, weight))
    sizes = {"T0_size0": m, "T0_size1": k, "T1_size0": n, "T1_size1": k}
    values = {**sizes, "T0_stride0": pitch, "T1_stride0": pitch}
    candidate = select(fd.fusion, H200, refusals(fd.fusion, H200))
    return candidate.unsupported_sizes(
        Problem(values=values, alignment={"T1": aligned}, target=H200)
    )


def test_what_the_tma_unit_cannot_load_in_words() -> None:
    assert padded(64, 64, 60, 64) == ""
    assert padded(64, 64, 0, 0) == ""
    assert padded(64, 64, 60, 60).startswith("T0 has rows of 60 elements, 120 bytes, and the TMA")
    assert padded(1, 64, 60, 60).startswith("T0 has rows of 60 elements")
    assert padded(1, 64, 64, 0).startswith("T1 has the stride 0")
    assert padded(64, 64, 64, 0).startswith("T0 has the stride 0 along its dimension 0")
    assert "T1 has an address that is a multiple of 4 bytes" in padded(64, 64, 64, 64, aligned=4)
