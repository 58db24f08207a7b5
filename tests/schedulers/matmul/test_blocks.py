"""Products that are scaled by blocks of k: every tile and cluster, and what their kernels are."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.machine_code import machine_lines
from tests.support.scaled import E4, fusion_of, kernel_of, operands, program
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.codegen.cuda import cuda_text
from warpsmith.ir.integers import ONE
from warpsmith.ir.scalar import Const, Expr, Symbol, evaluate
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector, Let, Store
from warpsmith.kernel.pipelines import By
from warpsmith.kernel.traversal import walk
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.schedulers.matmul import applicability, heuristic
from warpsmith.schedulers.matmul.blocks import Spread
from warpsmith.schedulers.matmul.candidates import candidates
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200


def with_params(monkeypatch: pytest.MonkeyPatch, **params: Any) -> None:
    chosen = heuristic.choose
    monkeypatch.setattr(
        heuristic, "choose", lambda *args: replace(chosen(*args), **({"cluster": (1, 1)} | params))
    )


@pytest.mark.few(1)
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
def test_tiles_that_blocks_loop_over(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    tile: tuple[int, int],
    cluster: tuple[int, int],
    dtype: DataType,
) -> None:
    """Three blocks of k, of which the last is cut short, over stages that are used again."""
    staged = dtype is DataType.Half
    shape: dict[str, Any] = {"chunk": 32, "store_stages": 2}
    if not staged:
        shape = {"chunk": 0, "store_stages": 0, "staged": (), "by_rows": ()}
    shape |= {"group": 1, "blocks": 2}
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


@pytest.mark.few(2)
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


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["blocks", "squares", "columns"])
@pytest.mark.parametrize("k", [128 * 17, 128 * 16, 128 * 16 + 64])
@pytest.mark.parametrize(
    "given",
    [
        {"tile": (64, 32, 128), "chunk": 32, "blocks": 4, "store_stages": 2},
        {"tile": (128, 128, 128), "chunk": 64, "blocks": 4, "store_stages": 1},  # one for all
        {"tile": (128, 128, 128), "chunk": 64, "blocks": 3, "store_stages": 1},
        {"tile": (192, 64, 128), "chunk": 64, "blocks": 3, "store_stages": 1},
    ],
)
def test_parts_of_the_last_tiles(
    monkeypatch: pytest.MonkeyPatch, kind: str, given: dict[str, Any], k: int
) -> None:
    """Blocks have every second turn of steps, or third: turns whose scales come at once, the last
    of which is cut short. Two runs give the same bits.
    """
    usual = {"stages": 2, "group": 2, "stream": True, "splits": 1, "passes": 1}
    with_params(monkeypatch, **usual | given)
    args, wanted = operands(136, 200, k, kind)
    with knobs.scope(device="sim"):
        scaled = program(kind, dtype=DataType.BFloat16)
        compiled = scaled.lower(*args).compile()
        assert compiled.verify(schedules=2).verdict == "clean"
        first, second = (torch.as_tensor(scaled(*args)) for _ in range(2))
    assert "stream=True" in compiled.explain()
    assert torch.equal(first, second)
    assert float((first.double() - wanted).norm() / wanted.norm()) < 2**-8


def shared_kernel(**params: Any) -> Kernel:
    """Blocks have parts of the last tiles of 128 x 128."""
    shape = {"tile": (128, 128, 128), "chunk": 32, "store_stages": 2, "stages": 4, "group": 1}
    made: Kernel = kernel_of(fusion_of(), stream=True, passes=1, **shape | params)
    return made


def test_sums_of_parts_are_added_up_where_they_are_carried() -> None:
    """What is past the ends of the result is 0 only where blocks have parts of a tile: memory would
    keep what nobody wrote.
    """
    text = cuda_text(shared_kernel(), H200)
    (reduced,) = re.findall(r"ws_grid_reduce<ws_sum, 64, false, false, false, 1>\((\w+), ", text)
    (carried,) = set(re.findall(r"(\w+)\[[^\]]*\] = ws_sum::combine", text))
    assert reduced == carried
    masked = text.partition("if (1 < tile_parts) {")[2].partition("ws_grid_reduce<")[0]
    assert re.findall(r"(\w+)\[[^\]]*\] = .* \? \(\1\[[^\]]*\]\) : \(0\.0f\);", masked) == [reduced]


def test_sums_and_products_are_in_different_banks_of_registers() -> None:
    """Sums that leave by fours were where products are among four: two of three operands of an
    addition in one bank. 128 x 192 took 915, not 870, for 8192 x 8192 x 8192 (an H200). Whole warps
    know who adds up parts: none gathers in front of a product.
    """
    source = Source(text=cuda_text(shared_kernel(), H200), entry="k", arch="sm_90a")
    lines = machine_lines(compile_source(source).cubin)
    found = [re.match(r"FFMA (R\d+), (R\d+)\S*, R\d+\S*, (R\d+)", line) for line in lines]
    added = [(each[2], each[3]) for each in found if each and each[1] == each[3]]
    assert len(added) >= 4 * 64
    alike = sum(int(product[1:]) % 2 == int(total[1:]) % 2 for product, total in added)
    assert 20 * alike < len(added)
    assert not [line for line in lines if "WARPSYNC" in line]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("tile", "passes", "stream"),
    [
        ((128, 192), 1, False),
        ((128, 192), 1, True),
        ((192, 128), 1, True),
        ((256, 128), 2, False),  # with parts it spills
    ],
)
def test_sums_of_integers_are_exact(
    monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int], passes: int, stream: bool
) -> None:
    """Of halves of each step's products, and of parts of the last tiles: sums of small integers
    have no rounding but the last one.
    """
    shape = {
        "chunk": 64,
        "store_stages": 1,
        "blocks": 2,
        "group": 1,
        "stages": 3 if passes > 1 else 4,
    }
    with_params(monkeypatch, tile=(*tile, 128), passes=passes, stream=stream, **shape)
    given, _ = operands(136, 328, 2048, "blocks")
    a, b = (torch.randint(-2, 3, t.shape).float() for t in given[:2])
    of_a, of_b = (torch.randint(1, 3, t.shape).float() for t in given[2:])
    wide_a = a.double() * of_a.double().repeat_interleave(128, 1)
    wide_b = b.double() * of_b.double().repeat_interleave(128, 0)[:328].repeat_interleave(128, 1)
    with knobs.scope(device="sim"):
        scaled = program("blocks", dtype=DataType.BFloat16)
        got = torch.as_tensor(scaled(a.to(E4), b.to(E4), of_a, of_b))
    assert torch.equal(got, (wide_a @ wide_b.T).bfloat16())


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


def test_last_tiles_are_shared_where_rounds_are_left_or_empty() -> None:
    """9.2 rounds of 128 x 192 are predicted to take less than seven of 256 x 128, of which none has
    parts: registers do not hold them. 43 tiles of 192 rows have an empty place in groups of eleven,
    and so 22 rounds, not 21.
    """
    scales = (Spread(rows=True, share=128), Spread(rows=False, share=128))
    moved = Beside(staged=("T0",), out=2, widest=2)
    problem = Problem(values={}, alignment={}, target=H200)

    def ranked(m: int, n: int, k: int) -> list[tuple[tuple[int, int], bool]]:
        work = Work(m=m, n=n, k=k, element=1, moved=moved, scales=scales)
        return [(params.tile[:2], params.stream) for params, _ in work.ranked(problem)]

    large = ranked(4096, 7168, 16384)
    assert large.index(((128, 192), True)) < large.index(((256, 128), False))
    assert large.index(((256, 128), False)) < large.index(((128, 192), False))
    assert ((256, 128), True) not in large
    square = ranked(8192, 8192, 8192)
    assert ((128, 192), True) not in square  # 20.8 rounds
    assert square.index(((192, 128), True)) < square.index(((192, 128), False))


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_beside_a_scaled_product_comes_in_chunks(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """A residual and a bias come ahead; scales the threads load."""
    if stream:
        shape = {"tile": (64, 32, 128), "chunk": 32, "load_stages": 2, "store_stages": 2}
        with_params(monkeypatch, stream=True, stages=2, group=2, blocks=4, passes=1, **shape)
    given, scaled = operands(136, 144, 2048 if stream else 256, "blocks")
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
