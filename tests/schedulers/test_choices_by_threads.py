"""Products that threads multiply: which are refused, and what is chosen for the others."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.schedulers.test_matmul_by_threads import DOUBLE, FLOAT, MATRIX, matrices, problem
from tests.support.contractions import contraction
from tests.support.norms_backward import shifted
from tests.support.program import Program
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.ir.exprs import Matmul
from warpsmith.schedulers.matmul_by_threads import applicability, heuristic
from warpsmith.schedulers.matmul_by_threads.tiles import (
    DEEP,
    FLAT,
    MEDIUM,
    SHORT,
    SMALL,
    TALL,
    Tile,
    WarpTile,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200


def test_tiles_by_size() -> None:
    def tile(m: int, n: int, k: int, dtype: DataType = FLOAT) -> Tile:
        p = Program()
        p.output(matrices(p, dtype, sums=dtype))
        found = select(p.fusion, H200).choose(problem(m, n, k))[0]
        assert isinstance(found, heuristic.MatmulByThreadsParams)
        return found.tile

    assert tile(4096, 4096, 4096) == DEEP
    assert tile(1024, 1024, 1024).rows == 64  # 64 large tiles leave half of the device idle
    assert tile(4096, 4096, 4096, DataType.Int) == MEDIUM  # 64 sums would be 128 registers
    for rows, edge in ((4096, 64), (32, 32)):
        found = tile(rows, 4096, 4096, DOUBLE)
        assert isinstance(found, WarpTile)
        assert (found.rows, found.columns, found.atom) == (edge, edge, (8, 8, 4))
    assert tile(4, 4096, 4096, DOUBLE) == FLAT  # an instruction would be half empty
    assert tile(20, 4096, 4096) == SMALL
    assert (tile(1, 4096, 64), tile(4096, 3, 64), tile(2, 2, 64)) == (FLAT, TALL, SHORT)


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [((64, 64, 65536), 16, 264), ((1, 1, 10**6), 264, 264), ((2048, 4096, 65536), 1, 1)],
)
def test_blocks_share_few_results_of_long_sums(
    size: tuple[int, int, int], least: int, most: int
) -> None:
    p = Program()
    p.output(matrices(p))
    params, values = select(p.fusion, H200).choose(problem(*size))
    assert least <= values.get(SPLITS, 1) <= most
    assert params.shared is (most > 1)  # type: ignore[union-attr]


def test_what_operands_are_computed_of_has_registers() -> None:
    """Three tensors of floats for each, two tiles ahead, leave none for a second block; and a wide
    product computes its first operand again for each tile.
    """
    p = Program()
    a, b = p.input(FLOAT, MATRIX), p.input(FLOAT, MATRIX)
    beside = [p.input(FLOAT, MATRIX) for _ in range(4)]
    first = p.op("div", p.op("sub", a, beside[0]), beside[1])
    second = p.op("div", p.op("sub", b, beside[2]), beside[3])
    p.output(contraction(p, first, second, ((0, 2), (2, 1))))
    plain = Program()
    plain.output(matrices(plain))

    def sized(n: int) -> Problem:
        rows, columns = (520, 1955), (1955, n)
        shapes = (rows, columns, rows, rows, columns, columns)
        values = {f"T{i}_size{d}": s for i, shape in enumerate(shapes) for d, s in enumerate(shape)}
        return Problem(values=values, alignment={}, target=H200)

    params, _ = select(p.fusion, H200).choose(sized(520))
    assert (params.tile.sums, params.tile.blocks_per_sm) == ((8, 8), 1)  # type: ignore[union-attr]
    shares = [
        select(p.fusion, H200).us(sized(n)) / select(plain.fusion, H200).us(sized(n))
        for n in (64, 4096)
    ]
    assert 1 < shares[0] < shares[1], shares


def refused(grow: Callable[[Program, Any, Any], None]) -> str:
    p = Program()
    a, b = p.input(FLOAT, MATRIX), p.input(FLOAT, MATRIX)
    grow(p, a, b)
    return applicability.refusal(p.fusion)


def test_what_is_refused_in_words() -> None:
    def product(p: Program, a: Any, b: Any) -> Any:
        return contraction(p, a, b, ((0, 2), (2, 1)))

    def twice(p: Program, a: Any, b: Any) -> None:
        p.output(product(p, a, b), product(p, a, b))

    def beside(p: Program, a: Any, b: Any) -> None:
        hidden = p.op("exp", a)
        p.output(product(p, hidden, b), hidden)

    def again(p: Program, a: Any, b: Any) -> None:
        hidden = p.op("exp", a)
        p.output(p.op("add", product(p, hidden, b), hidden))

    def widened(p: Program, a: Any, b: Any) -> None:
        more = p.input(FLOAT, (None, None, None))
        p.output(p.op("add", p.broadcast(product(p, a, b), (True, False, False)), more))

    assert refused(lambda p, a, b: p.output(product(p, a, b)) and None) == ""
    assert refused(lambda p, a, b: p.output(p.op("exp", a)) and None) == "it has no matrix product"
    assert refused(twice) == "it has 2 matrix products"
    assert refused(lambda p, a, b: p.output(product(p, a, a)) and None) == (
        "its product has one tensor as both operands"
    )
    assert refused(beside) == "its output T2 does not depend on the product"
    assert refused(again) == "two dimensions of T3 come from one dimension of its inputs"
    assert refused(widened) == "T5 has a dimension that is no kept one of the product"
    assert refused(lambda p, a, b: p.output(p.reduce("sum", product(p, a, b), [0])) and None) == (
        "T3 is no pointwise work beside the product"
    )


def rows(kind: str) -> np.ndarray:
    """A matrix [64, 64] of halves, or with something that the TMA unit does not take."""
    made = np.random.default_rng(0).uniform(-1, 1, (64, 66)).astype(np.float16)
    if kind == "moved":
        flat = np.zeros(64 * 64 + 1, np.float16)[1:]
        flat[:] = made[:, :64].reshape(-1)
        return flat.reshape(64, 64)
    if kind == "strided":
        return made[:, :64]
    return np.ascontiguousarray(made[:, : 60 if kind == "short" else 64])


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("whole", ""),
        ("short", "rows of 60 elements, 120 bytes"),
        ("moved", "an address that is a multiple of 2 bytes"),
        ("strided", "rows of 66 elements, 132 bytes"),
    ],
)
def test_a_call_that_tma_cannot_copy_is_planned_again(kind: str, why: str) -> None:
    with warpsmith.FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [False, True], DataType.Half)
        w = fd.define_tensor([-1, -1], True, DataType.Half)
        fd.add_output(fd.ops.linear(x, w))
    a = rows(kind)
    b = np.ascontiguousarray(a[::-1])
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    wanted = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(result.astype(np.float64), wanted, atol=2e-2)
    words = fd.explain()
    assert f"scheduler   matmul{'_by_threads' if why else ''}\n" in words
    assert f"not matmul: T0 has {why}" in words or not why


def test_a_product_stays_as_precise_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristic, "_by_warps", lambda *args: None)
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.Float8_e4m3fn) for _ in range(2))
        fd.add_output(fd.ops.linear(a, b, dtype=DataType.Float, precision="fast"))
    refused = refusals(fd.fusion, H200, (("matmul", "it is not asked"),))
    candidate = select(fd.fusion, H200, refused)
    sizes = {"T0_size0": 9, "T0_size1": 40, "T1_size0": 30, "T1_size1": 40}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    scheduled = candidate.scheduled(params)
    (product,) = (op for op in scheduled.operations if isinstance(op, Matmul))
    assert candidate.scheduler == "matmul_by_threads"
    assert product.precision == "fast"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("k", "offset", "advised"),
    [
        (1028, 0, "rows of 1028 elements, 2056 bytes, and the TMA unit, which feeds tensor cores, "
        "takes multiples of 16: pad k to 1088, multiples of 64: tensor cores are "),
        (1024, 4, "takes multiples of 16: copy what the TMA unit is to load to where it can: "),
    ],
)  # fmt: skip
def test_what_keeps_a_product_from_tensor_cores(k: int, offset: int, advised: str) -> None:
    x, w = (shifted(np.zeros((rows, k), ml_dtypes.bfloat16), offset) for rows in (7, 4096))
    said = warpsmith.fuse(lambda x, w: warpsmith.ops.linear(x, w)).lower(x, w).compile().explain()
    assert "  scheduler   matmul_by_threads\n" in said
    (told,) = (line for line in said.splitlines() if line.startswith("  faster "))
    assert advised in told


@pytest.mark.usefixtures("uncompiled")
def test_floats_have_no_tensor_cores_to_be_kept_from() -> None:
    x, w = (np.zeros((rows, 4100), np.float32) for rows in (7, 4096))
    said = warpsmith.fuse(lambda x, w: warpsmith.ops.linear(x, w)).lower(x, w).compile().explain()
    assert "  faster " not in said
