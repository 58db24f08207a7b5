"""Products that are scaled by blocks of k: every tile and cluster, and what their kernels are."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.scaled import E4, fusion_of, kernel_of, operands, program
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.ir.integers import ONE
from warpsmith.ir.scalar import Const, Expr, Symbol, evaluate
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.nodes import CopyVector, Let, Store
from warpsmith.kernel.pipelines import By
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.matmul import applicability, heuristic
from warpsmith.schedulers.matmul.blocks import Spread
from warpsmith.schedulers.matmul.candidates import candidates
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200


def with_params(monkeypatch: pytest.MonkeyPatch, **params: Any) -> None:
    chosen = heuristic.choose
    monkeypatch.setattr(
        heuristic, "choose", lambda *args: replace(chosen(*args), **({"cluster": (1, 1)} | params))
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kind", "tile", "cluster"),
    [
        ("blocks", (192, 128), (1, 1)),
        ("columns", (128, 128), (2, 1)),
        ("columns", (128, 64), (1, 2)),
        ("blocks", (64, 32), (2, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [DataType.Half, DataType.Float])
def test_tiles_that_blocks_go_round(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    tile: tuple[int, int],
    cluster: tuple[int, int],
    dtype: DataType,
) -> None:
    """Three blocks of k, of which the last is cut short, over stages that are used again."""
    staged = dtype is DataType.Half
    shape = {"chunk": 32 * staged, "store_stages": 2 * staged, "group": 1, "blocks": 2}
    with_params(monkeypatch, tile=(*tile, 128), stages=2, cluster=cluster, **shape)
    given, _ = operands(264, 200 if staged else 201, 336, kind)
    with knobs.scope(device="sim"):
        compiled = program(kind, dtype=dtype).lower(*given).compile()
        verification = compiled.verify(schedules=2)
    assert f"tile=({tile[0]}, {tile[1]}, 128)" in compiled.explain()
    assert verification.verdict == "clean", str(verification)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["blocks", "squares"])
def test_a_tile_that_groups_multiply_in_two_passes(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Of 200 rows the second pass of the second group has 8; k has three steps of two stages."""
    shape = {"passes": 2, "stages": 2, "chunk": 32, "store_stages": 2, "blocks": 1}
    with_params(monkeypatch, tile=(256, 128, 128), **shape)
    given, _ = operands(200, 72, 336, kind)
    with knobs.scope(device="sim"):
        compiled = program(kind, dtype=DataType.Half).lower(*given).compile()
        assert compiled.verify(schedules=1).verdict == "clean"
    assert "cooperative, 2 warp groups" in compiled.explain()


@pytest.mark.parametrize(
    ("tile", "passes", "kind"),
    [((128, 192), 1, "squares"), ((192, 128), 1, "blocks"), ((256, 128), 2, "squares")],
)
def test_tiles_that_are_staged_whole(
    monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int], passes: int, kind: str
) -> None:
    """A block has several, of 200 columns of a tile or two; k has three steps of two stages."""
    shape = {"passes": passes, "stages": 2, "chunk": 64, "store_stages": 1, "blocks": 1, "group": 1}
    with_params(monkeypatch, tile=(*tile, 128), **shape)
    given, _ = operands(136, 200, 336, kind)
    with knobs.scope(device="sim"):
        compiled = program(kind, dtype=DataType.BFloat16).lower(*given).compile()
        assert compiled.verify(schedules=1).verdict == "clean"
    assert f"tile=({tile[0]}, {tile[1]}, 128)" in compiled.explain()
    assert "store_stages=1" in compiled.explain()


def test_a_block_of_several_tiles_stages_each_whole() -> None:
    """What it stores leaves beside the next tile's products; so columns may be 192, and tall tiles
    give a stage away. A block of one tile stores a chunk while it stages the next one.
    """
    scales = (Spread(rows=True, share=128), Spread(rows=False, share=128))
    moved = Beside(staged=("T0",), out=2, widest=2)
    problem = Problem(values={}, alignment={}, target=H200)

    def found(m: int, n: int) -> dict[tuple[int, int], tuple[int, int, int]]:
        ways = candidates(m, n, problem, element=1, moved=moved, scales=scales, scaled=8)
        return {p.tile[:2]: (p.stages, p.store_stages, p.group) for p in ways}

    many = found(8192, 8192)
    assert (many[256, 128], many[128, 192]) == ((3, 1, 8), (4, 1, 16))
    assert (64, 128) in many
    assert (64, 192) not in many  # one group has no other that multiplies
    once = found(128, 7168)
    assert once[128, 128][1] == once[128, 64][1] == 2


def test_what_is_beside_a_scaled_product_comes_in_chunks() -> None:
    """A residual and a bias come ahead; scales the threads load."""
    given, scaled = operands(136, 144, 256, "blocks")
    beside = [torch.randn(136, 144).half(), torch.randn(144).half()]
    wanted = scaled + beside[0].double() + beside[1].double()

    def total(a: Any, b: Any, of_a: Any, of_b: Any, residual: Any, bias: Any) -> Any:
        blocks = {"block_a": (1, 128), "block_b": (128, 128)}
        made: Any = ops.scaled_matmul(
            a, ops.transpose(b), of_a, ops.transpose(of_b), precision="fast", **blocks
        )
        return ops.cast(made + residual + bias, DataType.Half)

    with knobs.scope(device="sim"):
        compiled = fuse(total).lower(*given, *beside).compile()
        result = torch.as_tensor(fuse(total)(*given, *beside))
        assert compiled.verify(schedules=2).verdict == "clean"
    assert "loaded=('T4', 'T5')" in compiled.explain()
    assert float((result.double() - wanted).abs().max()) < 0.1


def test_scales_come_in_shared_memory_and_sums_stay_in_registers() -> None:
    """Two idle warps of the loading warp group bring those of eight steps at once; who multiplies
    reads no scale in memory; adding up asks for no place."""
    kernel = kernel_of(fusion_of(), tile=(128, 128, 128), passes=1, stages=4)
    branches = {s.agent.name: s for s in kernel.body if isinstance(s, Branch)}
    agents = {name: (s.agent.first_warp, s.agent.threads) for name, s in branches.items()}
    assert agents == {"load": (0, ONE), "load_scales": (1, Const(64)), "compute": (4, Const(256))}
    assert kernel.launch.block == (Const(384), ONE, ONE)
    rings = {p.producer: (p.stages, p.by, p.consumers) for p in kernel.pipelines}
    assert rings["load_scales"] == (2, By.COPIES, ("compute",))
    inside = list(walk(branches["compute"].body))
    assert not [s for s in inside if isinstance(s, Store) and _loads(s, {"T2", "T3"})]
    (scales,) = [
        buffer for buffer in kernel.shared if buffer.size == Const(2 * 8 * 128)
    ]  # of 128 rows
    assert [s for s in inside if isinstance(s, Store) and _loads(s, {scales.name})]


@pytest.mark.parametrize("columns", [False, True])
def test_neighbouring_threads_copy_neighbours_in_memory(columns: bool) -> None:
    """Steps of k where a row's scales lie together, rows where a step's do."""
    kernel = kernel_of(fusion_of(columns=columns), tile=(128, 128, 128), passes=1, stages=4)
    copies = [s for s in walk(kernel.body) if isinstance(s, CopyVector) and s.source.name == "T2"]
    assert copies
    lets = {s.symbol.name: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    for copy in copies:
        first, second = (_at(copy.source_index, lets, thread) for thread in (4, 5))
        assert second - first == copy.width == 4


def _at(index: Expr, lets: dict[str, Expr], thread: int) -> int:
    """An index of one thread; what threads have in common is anything."""
    if not _differs(index, lets):
        return 1
    names = {each.name for each in index.walk() if isinstance(each, Symbol)} - {"block_x"}
    known = {name: _at(lets.get(name, ONE), lets, thread) for name in names}
    return evaluate(index, known | {"block_x": thread})


def _differs(index: Expr, lets: dict[str, Expr]) -> bool:
    names = {each.name for each in index.walk() if isinstance(each, Symbol)}
    return "block_x" in names or any(_differs(lets[name], lets) for name in names & lets.keys())


def _loads(store: Store, names: set[str]) -> bool:
    return any(getattr(getattr(e, "buffer", None), "name", "") in names for e in store.value.walk())


def test_what_is_not_multiplied_so_says_why() -> None:
    said = {
        "": fusion_of(),
        "64 elements of k share a scale, and a tile has 128 bytes of them": fusion_of(64),
    }
    for reason, fd in said.items():
        assert applicability.refusal(fd.fusion, H200) == reason


def test_integers_are_scaled_before_they_are_multiplied() -> None:
    """Sums of a block of them are no floats; threads multiply what was scaled."""
    given, _ = operands(20, 36, 256, "blocks")
    a, b = (torch.randint(-9, 9, t.shape, dtype=torch.int8) for t in given[:2])
    with knobs.scope(device="sim"):
        compiled = program("blocks", "exact").lower(a, b, *given[2:]).compile()
    assert compiled.verify(schedules=1).verdict == "clean"
    assert "scheduler   matmul_by_threads" in compiled.explain()


def test_a_scale_that_is_read_beside_is_left_alone() -> None:
    def both(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
        made = ops.scaled_matmul(a, ops.transpose(b), of_a, of_b, precision="fast")
        return made + ops.sum(of_a, [1], keepdim=True)

    given, wanted = operands(70, 40, 256, "blocks")
    with knobs.scope(device="sim"):
        got = fuse(both)(*given[:3], given[3].T.contiguous())
    torch.testing.assert_close(
        got.double(), wanted + given[2].sum(1, keepdim=True), rtol=2e-2, atol=5e-1
    )
    assert given[0].dtype is E4
