"""Products that threads multiply: that they are right, and what the kernels are like."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import warpsmith
from tests.support.contractions import contraction, run
from tests.support.launching import check_automatic, random_inputs
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector, For, If, Statement, Store
from warpsmith.kernel.products import LoadMatrix, MultiplyByWarp
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.matmul_by_threads import heuristic
from warpsmith.schedulers.matmul_by_threads.tiles import (
    FLAT,
    LARGE,
    MEDIUM,
    OF_WORDS,
    SHORT,
    SQUARE,
    TALL,
    WIDE,
    Tile,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

FLOAT, DOUBLE = DataType.Float, DataType.Double
SUMS = {DOUBLE: DOUBLE, DataType.Int8: DataType.Int32}
MATRIX = (None, None)
SHARED = MemoryType.shared


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32))
def test_random_products_are_right(seed: int) -> None:
    """Any order of dimensions, layout, alignment, type, broadcast, pointwise work and splits."""
    run(seed)


def test_a_product_of_vectors_is_a_number() -> None:
    """Without batches, rows and columns, which the meaning has to reshape to nothing."""
    run(164088497)


def matrices(p: Program, dtype: DataType = FLOAT, *, sums: DataType = FLOAT) -> Any:
    a, b = p.input(dtype, MATRIX), p.input(dtype, MATRIX)
    return contraction(p, a, b, ((0, 2), (2, 1)), sums)


SIZES = ((20, 30, 40), (1, 1, 1), (1, 100, 7), (100, 1, 7), (65, 70, 33), (3, 4, 700), (31, 37, 0))


@pytest.mark.few(3)
@pytest.mark.parametrize("size", [*SIZES, (0, 3, 4), (3, 0, 4)])
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
def test_products_of_every_class_are_right(size: tuple[int, int, int], dtype: DataType) -> None:
    m, n, k = size
    p = Program()
    p.output(matrices(p, dtype, sums=dtype))
    inputs = random_inputs(p.fusion, {"T0": (m, k), "T1": (k, n)})
    check_automatic(p.fusion, inputs, terms=4 * k + 4)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [FLOAT, DataType.Half])
@pytest.mark.parametrize("tile", [SHORT, FLAT, TALL, MEDIUM, *OF_WORDS])
@pytest.mark.parametrize("splits", [1, 3])
def test_every_tile_is_right(
    monkeypatch: pytest.MonkeyPatch, tile: Tile, splits: int, dtype: DataType
) -> None:
    """Also where it is not the one for the size; with an epilogue and the sums as results."""
    chosen = heuristic.choose
    monkeypatch.setattr(heuristic, "_by_warps", lambda *args: None)
    monkeypatch.setattr(heuristic, "_tiles", lambda *args: (tile,))
    monkeypatch.setattr(heuristic, "_fits_deep", lambda reads: True)
    monkeypatch.setattr(
        heuristic, "choose", lambda *args: replace(chosen(*args), shared=splits > 1)
    )
    check_epilogue(dtype, splits, 136 if tile.columns >= 64 else 40)


TALLEST = [tile for tile in OF_WORDS if tile.lines]
LAYOUTS = ("kk", "kn", "mk", "mn")


def only(monkeypatch: pytest.MonkeyPatch, tile: Tile) -> None:
    """Let one of the tiles of words be what is chosen."""
    monkeypatch.setattr(heuristic, "OF_WORDS", (tile,))
    monkeypatch.setattr(heuristic, "_fits_deep", lambda reads: True)


@pytest.mark.few(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tile", OF_WORDS)
@pytest.mark.parametrize("size", [(60, 132, 52), (61, 131, 41)])
def test_every_tile_of_words_is_right_in_every_layout(
    monkeypatch: pytest.MonkeyPatch, tile: Tile, layout: str, size: tuple[int, int, int]
) -> None:
    """By the TMA unit where rows begin at multiples of 16 bytes, else by `cp.async`."""
    only(monkeypatch, tile)
    m, n, k = size
    random = np.random.default_rng([m, n, k])
    a = random.integers(-8, 9, (m, k)).astype(np.float32)
    b = random.integers(-8, 9, (k, n)).astype(np.float32)
    a = np.asfortranarray(a) if layout[0] == "m" else a
    b = np.asfortranarray(b) if layout[1] == "k" else b
    with FusionDefinition() as fd:
        x, y = (fd.from_pytorch(each) for each in (a, b))
        fd.add_output(fd.ops.matmul(x, y))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    np.testing.assert_array_equal(result, a @ b)  # whole numbers: no sum is rounded
    assert fd.verify([a, b], schedules=2).verdict == "clean"
    assert ("by TMA" in fd.explain()) is (size[2] % 4 == 0 and (layout != "kk" or tile in TALLEST))


@pytest.mark.few(1)
@pytest.mark.parametrize("tile", [WIDE, LARGE, SQUARE])
@pytest.mark.parametrize("size", [(60, 132, 80), (61, 131, 41)])
def test_what_an_operand_is_computed_from_is_loaded_a_tile_ahead(
    monkeypatch: pytest.MonkeyPatch, tile: Tile, size: tuple[int, int, int]
) -> None:
    """To registers; what is one value for each row is not."""
    only(monkeypatch, tile)
    m, n, k = size
    whole = [torch.randint(-4, 5, shape) for shape in ((m, k), (m, k), (m, 1), (n, k))]
    given_ = [x.to(torch.bfloat16 if at < 2 else torch.float) for at, x in enumerate(whole)]

    @warpsmith.fuse
    def fused(a: Any, b: Any, scale: Any, weight: Any) -> Any:
        return ops.linear(ops.cast(ops.relu(a) * b, FLOAT) * scale, weight)

    with knobs.scope(device="sim"):
        result = fused(*given_)
        compiled = fused.lower(*given_).compile()
        assert compiled.verify(schedules=2).verdict == "clean"
    a, b, scale, weight = (x.float() for x in whole)
    assert torch.equal(result, a.relu() * b * scale @ weight.T)
    assert "1 kernel\n" in compiled.explain()
    assert re.search(r"\bT\d+: bfloat16\[\d+\] local", compiled.asm["kernel"])
    first = re.split(r"for i0b? <", compiled.asm["kernel"])[0]
    assert "= T0[" in first, "the first tile is loaded before the loop"


@pytest.mark.few(1)
@pytest.mark.parametrize("splits", [1, 3])
def test_results_of_lines_along_k_have_epilogues_and_joins(
    monkeypatch: pytest.MonkeyPatch, splits: int
) -> None:
    """Threads of these have their columns apart from each other, and in another order of loops."""
    p = Program()
    a, b = p.input(FLOAT, MATRIX), p.input(FLOAT, MATRIX)
    result = contraction(p, a, b, ((0, 2), (1, 2)), FLOAT)
    bias = p.broadcast(p.input(FLOAT, (None,)), (True, False))
    p.output(result, p.cast(p.op("relu", p.op("add", result, bias)), DataType.BFloat16))
    ranked = heuristic.ranked

    def wide(*args: Any) -> heuristic.MatmulByThreadsParams:
        chosen = next(params for params, _ in ranked(*args) if params.tile == WIDE)
        assert all(read.lines for read in chosen.reads)
        return replace(chosen, shared=splits > 1)

    monkeypatch.setattr(heuristic, "choose", wide)
    inputs = random_inputs(p.fusion, {"T0": (20, 72), "T1": (40, 72), "T3": (40,)})
    check_automatic(p.fusion, inputs, terms=288, splits=splits)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [DOUBLE, DataType.Half, DataType.Int8])
@pytest.mark.parametrize("m", [9, 70])
@pytest.mark.parametrize("splits", [1, 3])
def test_every_tile_of_warps_is_right(
    monkeypatch: pytest.MonkeyPatch, m: int, splits: int, dtype: DataType
) -> None:
    monkeypatch.setattr(heuristic, "shared_us", lambda *args: (splits, 0.0))
    kernel = check_epilogue(dtype, splits, 40, m)
    assert any(isinstance(s, MultiplyByWarp) for s in walk(kernel.body))
    assert any(isinstance(s, LoadMatrix) for s in walk(kernel.body)) is (dtype is not DOUBLE)


@pytest.mark.parametrize("k", [160, 480])
def test_tiles_of_warps_that_divide_k_are_shared_by_blocks(k: int) -> None:
    """Which is seen where k is of the definition; turns past the last one multiply zeros."""
    a, b = (np.random.default_rng(k).uniform(size=size) for size in ((126, k), (k, 7)))
    with FusionDefinition() as fd:
        x, y = (fd.from_pytorch(array, static_sizes=True) for array in (a, b))
        fd.add_output(fd.ops.matmul(x, y))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    np.testing.assert_allclose(result, a @ b, rtol=1e-13)
    assert fd.verify([a, b], schedules=2).verdict == "clean"


def check_epilogue(dtype: DataType, splits: int, n: int, m: int = 9) -> Kernel:
    p = Program()
    result = matrices(p, dtype, sums=SUMS.get(dtype, FLOAT))
    bias = p.broadcast(p.input(FLOAT, (None,)), (True, False))
    p.output(result, p.cast(p.op("relu", p.op("add", result, bias)), DataType.BFloat16))
    k = 72
    inputs = random_inputs(p.fusion, {"T0": (m, k), "T1": (k, n), "T3": (n,)})
    by_threads = (("matmul", "threads are to multiply"),)
    _, kernel = check_automatic(p.fusion, inputs, terms=4 * k, splits=splits, without=by_threads)
    assert (SPLITS in {symbol.name for symbol in kernel.scalars}) is (splits > 1)
    return kernel


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "both sides": (lambda a: ops.matmul(a, a), ((33, 33),)),
    "itself transposed": (lambda a: ops.matmul(a, ops.transpose(a)), ((33, 20),)),
    "read again": (lambda a: ops.matmul(a, a) + a, ((33, 33),)),
    "computed": (lambda a, b: ops.matmul(ops.tanh(a) * 2, ops.exp(b)), ((33, 20), (20, 17))),
    "scaled on both sides": (lambda a, b, c: ops.matmul(a, b * c) + c, ((9, 20), (20, 17), (17,))),
    "reshaped": (
        lambda a, b: ops.reshape(ops.matmul(ops.reshape(a, (33, 20)), b), (3, 11, 17)),
        ((33, 4, 5), (20, 17)),
    ),
    "batches broadcast": (ops.matmul, ((2, 1, 9, 20), (3, 20, 17))),
    "vectors of the definition": (ops.matmul, ((1, 700), (700, 1))),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_one_kernel_and_clean_under_several_schedules(name: str) -> None:
    function, shapes = PROGRAMS[name]
    torch.manual_seed(0)
    given_ = [torch.rand(shape) * 2 - 1 for shape in shapes]
    fused = warpsmith.fuse(function)
    with knobs.scope(device="sim"):
        result = fused(*given_)
        compiled = fused.lower(*given_).compile()
        assert compiled.verify(schedules=4).verdict == "clean"
    assert "1 kernel\n" in compiled.explain()
    wanted = PEERS[name](*(x.double() for x in given_))
    torch.testing.assert_close(result.double(), wanted, rtol=1e-4, atol=1e-4)


PEERS: dict[str, Callable[..., torch.Tensor]] = {
    "both sides": lambda a: a @ a,
    "itself transposed": lambda a: a @ a.T,
    "read again": lambda a: a @ a + a,
    "computed": lambda a, b: (a.tanh() * 2) @ b.exp(),
    "scaled on both sides": lambda a, b, c: a @ (b * c) + c,
    "reshaped": lambda a, b: (a.reshape(33, 20) @ b).reshape(3, 11, 17),
    "batches broadcast": torch.matmul,
    "vectors of the definition": torch.matmul,
}


def kernel_for(m: int, n: int, k: int, dtype: DataType = FLOAT) -> Kernel:
    """The kernel that a float product of these sizes gets; nothing is run."""
    p = Program()
    p.output(matrices(p, dtype, sums=dtype))
    candidate = select(p.fusion, H200)
    params, _ = candidate.choose(problem(m, n, k))
    return lowered(candidate.scheduled(params))


def problem(m: int, n: int, k: int) -> Problem:
    sizes = {"T0_size0": m, "T0_size1": k, "T1_size0": k, "T1_size1": n}
    return Problem(values=sizes, alignment={}, target=H200)


def conditions_around(statements: tuple[Statement, ...], depth: int = 0) -> set[int]:
    """How many conditions stand around each accumulation."""
    found: set[int] = set()
    for statement in statements:
        if isinstance(statement, Accumulate):
            found.add(depth)
        elif isinstance(statement, If):
            found |= conditions_around(statement.body, depth + 1)
        elif isinstance(statement, For):
            found |= conditions_around(statement.body, depth)
    return found


@pytest.mark.parametrize("size", [(2048, 2048, 2048), (99, 99, 99), (7, 9, 11), (1, 5, 70)])
def test_no_multiply_add_has_a_condition(size: tuple[int, int, int]) -> None:
    assert conditions_around(kernel_for(*size).body) == {0}


@pytest.mark.parametrize("inward", [True, False])
def test_words_that_are_no_results_come_ahead_without_registers(inward: bool) -> None:
    """By `cp.async`, which writes zeros past the ends, where the TMA unit cannot."""
    p = Program()
    a, b = p.input(FLOAT, MATRIX), p.input(FLOAT, MATRIX)
    p.output(contraction(p, a, b, ((0, 2), (1, 2) if inward else (2, 1)), FLOAT))
    sizes = {"T0_size0": 512, "T0_size1": 512, "T1_size0": 512, "T1_size1": 512}
    candidate = select(p.fusion, H200)
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    kernel = lowered(candidate.scheduled(params))
    copies = [s for s in walk(kernel.body) if isinstance(s, CopyVector) and s.asynchronous]
    assert {s.width for s in copies} == {1}  # a column of the tile is a line in shared memory
    assert any(isinstance(s, TileCopy) for s in walk(kernel.body)) is not inward
    assert all("T0_size1" in repr(s.inside) for s in copies)  # where the sums end
    assert not any(isinstance(s, Store) and s.buffer.memory is SHARED for s in walk(kernel.body))


def test_results_that_lie_transposed_are_stored_along_their_memory() -> None:
    p = Program()
    p.output(matrices(p), stride_order=(0, 1))
    params, _ = select(p.fusion, H200).choose(problem(64, 96, 32))
    assert params.swapped  # type: ignore[union-attr]
    assert p.fusion.outputs[0].value.name in params.vectorized  # type: ignore[union-attr]
    inputs = random_inputs(p.fusion, {"T0": (64, 32), "T1": (32, 96)})
    check_automatic(p.fusion, inputs, terms=128)


def test_sums_are_multiply_adds_in_their_own_type() -> None:
    kernel = kernel_for(4, 64, 64, DOUBLE)
    sums = [s for s in walk(kernel.body) if isinstance(s, Accumulate)]
    assert {(s.carry.name, s.carry.dtypes) for s in sums} == {("sum", (DOUBLE,))}


def test_narrow_elements_become_wide_ones_by_vectors() -> None:
    """Of as many elements as are moved at once when they are wide."""
    weight = np.random.default_rng(1).integers(-9, 9, (70, 64), np.int8)
    x = np.random.default_rng(2).uniform(-1, 1, (64, 70)).astype(np.float16).T  # none for TMA
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(array) for array in (x, weight))
        fd.add_output(fd.ops.linear(a, fd.ops.cast(b, DataType.Half)))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
        (launch,) = fd._ready(False).plan_for([x, weight]).launches
    assert {read.inward: read.vector for read in launch.params.reads} == {False: 2, True: 8}
    assert any(isinstance(s, CopyVector) for s in walk(launch.compiled.kernel.body))
    wanted = x.astype(np.float64) @ weight.astype(np.float64).T
    np.testing.assert_allclose(result.astype(np.float64), wanted, atol=0.2, rtol=1e-3)
