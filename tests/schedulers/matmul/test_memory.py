"""How results leave a product, and which fusions have no tiles: decided, and said in words."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from warpsmith import DataType, FusionDefinition
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.matmul import applicability
from warpsmith.schedulers.matmul.heuristic import MatmulParams, candidates, choose, product_of
from warpsmith.schedulers.matmul.memory import Beside, beside, box_refusal
from warpsmith.schedulers.matmul.shape import shape_of
from warpsmith.schedulers.matmul.shared_stages import with_shared_stages
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200

BFLOAT = DataType.BFloat16


def program(body: Callable[..., Any], *shapes: list[int], **options: Any) -> FusionDefinition:
    """`body(ops, *inputs)` gives one tensor or several; inputs are contiguous by default."""
    with FusionDefinition() as fd:
        options.setdefault("contiguity", True)
        tensors = [fd.define_tensor(shape=s, dtype=BFLOAT, **options) for s in shapes]
        made = body(fd.ops, *tensors)
        for tensor in made if isinstance(made, tuple) else (made,):
            fd.add_output(tensor)
    return fd


def candidate(body: Callable[..., Any], *shapes: list[int]) -> Candidate:
    fusion = program(body, *shapes).fusion
    found = select(fusion, H200, refusals(fusion, H200))
    assert found.scheduler == "matmul"
    return found


def problem(m: int, n: int, k: int, **alignment: int) -> Problem:
    sizes = {"T0": (m, k), "T1": (n, k), "T2": (m, n)}
    values = {f"{t}_size{d}": s for t, shape in sizes.items() for d, s in enumerate(shape)}
    return Problem(values=values, alignment=alignment, target=H200)


def chosen(body: Callable[..., Any], sizes: Problem, inputs: int = 2) -> MatmulParams:
    return choose(candidate(body, *[[-1, -1]] * inputs).fusion, sizes)


def linear(ops: Any, x: Any, w: Any) -> Any:
    return ops.linear(x, w)


def floats(ops: Any, x: Any, w: Any) -> Any:
    return ops.cast(ops.linear(x, w), DataType.Float)


def with_a_copy(ops: Any, x: Any, w: Any) -> Any:
    made = ops.linear(x, w)
    return made, ops.cast(made, DataType.Float)


def with_residual(ops: Any, x: Any, w: Any, r: Any) -> Any:
    return ops.add(floats(ops, x, w), r)


def test_rows_of_chunks_are_as_long_as_a_swizzle_permutes() -> None:
    assert chosen(linear, problem(512, 4096, 64)).chunk == 64
    assert chosen(linear, problem(512, 4100, 64)).chunk == 136
    assert chosen(floats, problem(512, 4096, 64)).chunk == 32
    assert chosen(floats, problem(512, 4098, 64)).chunk == 32
    narrow = chosen(linear, problem(100, 64, 64))
    assert narrow.chunk == narrow.tile[1] < 64


def test_chunks_are_narrow_where_operands_would_have_few_stages() -> None:
    def widest(body: Callable[..., Any]) -> tuple[int, int]:
        n, fusion = 4096, candidate(body, *[[-1, -1]] * 3).fusion
        moved = beside(
            fusion, product_of(fusion), shape_of(product_of(fusion)), problem(4096, n, 64)
        )
        tried = candidates(4096, n, problem(4096, n, 64), moved=moved)
        return next((p.chunk, p.stages) for p in tried if p.tile[:2] == (128, 256))

    def linear_of_three(ops: Any, x: Any, w: Any, r: Any) -> Any:
        return ops.add(ops.linear(x, w), r)

    assert widest(linear_of_three) == (32, 4)
    assert widest(with_residual) == (16, 4)


def test_pairs_of_columns_are_accessed_at_once_where_they_are_aligned() -> None:
    assert chosen(linear, problem(512, 4101, 64)).pairs == ()
    (stored,) = chosen(linear, problem(512, 4100, 64)).by_rows
    assert stored[1] == 4
    assert len(chosen(with_residual, problem(512, 4102, 64), 3).pairs) == 1
    assert chosen(with_residual, problem(512, 4102, 64, T2=2), 3).pairs == ()


def test_what_moves_in_chunks() -> None:
    both = chosen(with_residual, problem(512, 4096, 64), 3)
    assert (both.loaded, len(both.staged), both.pairs) == (("T2",), 1, ("T2",))
    by_threads = chosen(with_residual, problem(512, 4096, 64, T2=8), 3)
    assert (by_threads.loaded, by_threads.staged) == ((), both.staged)
    assert len(chosen(with_a_copy, problem(512, 4096, 64)).staged) == 2


def test_why_results_are_not_staged_in_words() -> None:
    def said(body: Callable[..., Any], n: int = 64) -> str:
        fusion = candidate(body, [-1, -1], [-1, -1]).fusion
        (output,) = (output.value for output in fusion.outputs)
        return box_refusal(fusion, product_of(fusion), output, output, problem(64, n, 64))

    assert said(linear) == said(floats) == ""
    assert "rows of 120 bytes" in said(linear, 60)
    permuted = said(lambda ops, x, w: ops.permute(ops.linear(x, w), [1, 0]))
    assert "is not contiguous along n, with rows and batches in order" in permuted


@pytest.mark.parametrize(
    ("tiles", "size"),
    [
        ((64, 40), (512, 512, 512)),
        ((64, 16), (256, 256, 512)),
        ((128, 64), (1024, 1024, 1024)),
        ((64, 64), (64, 8192, 4096)),
        ((128, 256), (4096, 4096, 4096)),
    ],
)
def test_small_products_have_small_tiles(
    tiles: tuple[int, int], size: tuple[int, int, int]
) -> None:
    assert chosen(linear, problem(*size)).tile[:2] == tiles


def test_what_has_no_tiles_in_words() -> None:
    def said(body: Callable[..., Any], *shapes: list[int], **options: Any) -> str:
        return applicability.refusal(program(body, *shapes, **options).fusion, H200)

    def sums_beside(ops: Any, x: Any, w: Any) -> Any:
        return ops.linear(x, w), ops.relu(x)

    def matmul(ops: Any, x: Any, y: Any) -> Any:
        return ops.matmul(x, y)

    def folded(ops: Any, x: Any, w: Any) -> Any:
        made = ops.linear(x, w)
        return ops.add(made, ops.permute(made, [1, 0]))

    matrix = [-1, -1]
    assert said(linear, [1, -1], matrix) == "it has no matrix product"
    assert said(matmul, [-1, -1, 1, -1], [-1] * 3) == "its product has one row"
    assert said(matmul, [1, -1, -1], [-1, -1, 1]) == "its product has one column"
    assert "T1, an operand of its product, is not contiguous along k or n" in said(
        lambda ops, x, w: ops.einsum("bmk,knb->bmn", x, w),
        [-1, -1, -1],
        [-1, -1, -1],
    )
    other = said(sums_beside, matrix, matrix)
    assert other.endswith("has other dimensions than the product")
    assert "come from one dimension" in said(folded, matrix, matrix)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * 6, [False] * 5 + [True], BFLOAT)
        fd.add_output(fd.ops.linear(x, fd.define_tensor(matrix, True, BFLOAT)))
    assert (
        applicability.refusal(fd.fusion, H200)
        == "T0, an operand of its product, has 6 dimensions apart"
    )


def test_chunks_that_are_loaded_fill_the_memory_that_no_stage_of_operands_fits_into() -> None:
    """A residual's and a bias's: two at least, and all of a tile where there is room."""
    moved = Beside(
        loaded=("r", "b"), staged=("y",), out=2, planes=(2,), column=2, widest=2, pairs=("r", "b")
    )
    empty = Problem(values={}, alignment={}, target=H200)
    most = H200.family.limits.block_shared
    depths = set()
    for params in candidates(8192, 8192, empty, moved=moved, crowded=True):
        rows, columns, depth = params.tile
        if params.splits > 1 or not params.chunk:
            continue
        loads = rows * params.chunk * 2 + 128  # the bias's own 128 bytes hold up to 64 columns
        stores = (params.ping_pong or 1) * params.store_stages * rows * params.chunk * 2
        taken = params.stages * (rows + columns) * 2 * depth + params.load_stages * loads + stores
        assert taken + 1024 <= most
        whole = params.load_stages == max(columns // params.chunk, 2)
        assert whole or taken + 1024 + loads + 128 >= most
        depths.add(params.load_stages)
    assert {2, 4, 7} <= depths


def test_chunks_share_stages_where_groups_alone_share_a_tile() -> None:
    """Of a residual of the operands' type, whose chunks a stage holds; in as many stages."""
    moved = Beside(loaded=("r",), staged=("y",), out=2, planes=(2,), widest=2, like_operands=True)
    empty = Problem(values={}, alignment={}, target=H200)
    found = candidates(8192, 8192, empty, moved=moved, crowded=True)
    limits, most = H200.family.limits, H200.family.limits.block_shared
    shared = with_shared_stages(found, found.columns, 8192, moved, limits)
    one = [p for p in shared if not p.load_stages and p.chunk]
    assert {(128, 256), (192, 160), (256, 160)} <= {p.tile[:2] for p in one}
    for params in one:
        rows, columns, depth = params.tile
        assert (params.ping_pong, params.cluster, params.splits) == (0, (1, 1), 1)
        assert rows * params.chunk <= max(rows, columns) * depth
        assert columns > params.chunk
        taken = params.stages * (rows + columns) * 128
        assert taken + params.store_stages * rows * params.chunk * 2 + 1024 <= most
    where = {(p.tile, p.cluster, p.splits, p.ping_pong): p for p in shared}
    before = [(p, where.get((p.tile, p.cluster, p.splits, p.ping_pong))) for p in found]
    gone = [p for p, now in before if now is None]
    assert {p.cluster for p in gone} >= {(1, 2), (2, 1)}
    assert {(p.passes, p.tile) for p in gone} <= {(2, p.tile) for p in one}
    rest = [(a, b) for a, b in before if b and (b.load_stages or not b.chunk)]
    assert all(a == b for a, b in rest)
    assert {a.ping_pong for a, _ in rest} == {0, 2, 3}
    for other in (replace(moved, like_operands=False), replace(moved, loaded=("r", "b", "c"))):
        assert with_shared_stages(found, found.columns, 8192, other, limits) is found
    step = with_shared_stages(found, found.columns, 64, moved, limits)  # stays around the tile
    assert all(p.load_stages or not p.chunk or p.tile[2] < 64 for p in step)
