"""Groups that share a tile, and groups that take turns: laid by the scheduler, right and clean."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.matmuls import check, linear, operands, with_tile
from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType, FusionDefinition, knobs, protocol
from warpsmith.errors import SchedulerRefusal
from warpsmith.protocol.sizes import shortened
from warpsmith.schedulers.matmul import heuristic, words
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.prologues import Prologue
from warpsmith.schedulers.matmul.room import Room
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200, SM90A

PROBLEM = Problem(values={}, alignment={}, target=H200)


def forced(monkeypatch: pytest.MonkeyPatch, turns: int, tile: tuple[int, int], **also: Any) -> None:
    """Two clusters with these tiles, whatever would be chosen."""
    chosen = heuristic.choose
    cluster = also.get("cluster", (1, 1))
    given = {"group": 2, "blocks": 2 * cluster[0] * cluster[1], **also}

    def choose(*args: Any) -> MatmulParams:
        return with_tile(chosen(*args), turns, tile, **given)

    monkeypatch.setattr(heuristic, "choose", choose)


def clean(turned: str, out: DataType, sizes: tuple[int, int, int]) -> FusionDefinition:
    """`linear`, of which operands `a`, `b` or both are turned, once it is right and clean."""
    with FusionDefinition() as fd:
        orders = [[0, 1] if name in turned else None for name in "ab"]
        a, b = (fd.define_tensor([-1, -1], True, DataType.Half, stride_order=o) for o in orders)
        fd.add_output(fd.ops.cast(fd.ops.linear(a, b), out))
    given = operands(*sizes, seed=3, dtype=DataType.Half)
    arrays = [np.asfortranarray(t) if n in turned else t for n, t in zip("ab", given, strict=True)]
    with knobs.scope(device="sim"):
        (result,) = fd.execute(arrays)
    check(result, *given)
    verification = fd.verify(arrays, schedules=2)
    assert verification.verdict == "clean", str(verification)
    return fd


STRATEGIES: dict[str, tuple[int, tuple[int, int]]] = {
    "one group": (0, (64, 64)),
    "two groups on one tile": (0, (128, 96)),
    "three groups on one tile": (0, (192, 64)),
    "two groups in turn": (2, (64, 64)),
    "three groups in turn": (3, (64, 96)),
    "two groups in turn, 128 rows each": (2, (128, 64)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("out", [DataType.Half, DataType.Float])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy(
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    turned: str,
    out: DataType,
    cluster: tuple[int, int],
) -> None:
    """Tiles of which some are cut short, and more of them than groups: another turn for a few."""
    turns, tile = STRATEGIES[strategy]
    forced(monkeypatch, turns, tile, cluster=cluster)
    said = clean(turned, out, (456, 136, 136)).explain()
    groups = turns or tile[0] // 64
    assert f"compute: multiply, warps 4 to {3 + 4 * groups}," in said
    assert said.count("one after the other") == (2 if turns else 0)
    assert ("by multicast to 2 blocks" in said) is (cluster != (1, 1))


@pytest.mark.few(1)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("tile", [(64, 72), (128, 64)])
def test_stages_of_two_lines(
    monkeypatch: pytest.MonkeyPatch,
    tile: tuple[int, int],
    turned: str,
    cluster: tuple[int, int],
    swapped: bool,
) -> None:
    """Of 128 of k each, of which the last stage lacks some."""
    forced(monkeypatch, 0, tile, cluster=cluster, swapped=swapped, lines=2, stages=2)
    clean(turned, DataType.Half, (264, 152, 456))


@pytest.mark.few(2)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("turns", [2, 3])
def test_one_turn_of_a_size_that_is_known(
    monkeypatch: pytest.MonkeyPatch, turns: int, cluster: tuple[int, int]
) -> None:
    """No group has a second tile, so none has a loop of tiles; the stages are filled again for the
    next group all the same. The proof of loops that are cut holds, too.
    """
    forced(monkeypatch, turns, (64, 64), cluster=cluster, stages=4)
    sizes = (128 * cluster[0], 64 * turns * cluster[1], 64 * 5)
    x, weight = operands(*sizes, seed=7, dtype=DataType.Half)
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor(t.shape, dtype=DataType.Half) for t in (x, weight))
        fd.add_output(fd.ops.linear(a, b))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
        (launch,) = fd._ready(False).plan_for([x, weight]).launches
    check(result, x, weight)
    for count in range(2, 5 * turns):
        short = shortened(launch.compiled.kernel, count)
        assert protocol.check(short, {}, target=H200).steps


@pytest.mark.few(1)
@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(1, 1, 8), (8, 200, 0), (70, 8, 64), (64, 64, 712)])
def test_fewer_tiles_than_groups(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int], turns: int
) -> None:
    forced(monkeypatch, turns, (64, 64), blocks=1)
    x, weight = operands(*sizes, seed=5, dtype=DataType.Half)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
    check(result, x, weight)


@pytest.mark.few(1)
@pytest.mark.parametrize("tile", [(64, 64), (128, 96)])
@pytest.mark.parametrize("n", [136, 133])
def test_epilogues_of_groups_in_turn(
    monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int], n: int
) -> None:
    """Batches, a row, a residual and a function; staged where n allows."""
    forced(monkeypatch, 2, tile)
    a, b = values((2, 140, 72), 4), values((2, n, 72), 5)
    row, rest = values((n,), 6), values((2, 140, n), 7)

    def body(ops: Any, x: Any, y: Any, c: Any, r: Any) -> Any:
        return ops.relu(ops.add(ops.add(ops.matmul(x, ops.transpose(y)), c), r))

    (result,) = run([a, b, row, rest], body)
    wanted = wide(a) @ wide(b).swapaxes(1, 2) + wide(row) + wide(rest)
    close(result, wanted.clip(0), 72)


def best(*sizes: int, operations: int = 0) -> MatmulParams:
    m, n, k = sizes
    return Work(m=m, n=n, k=k, operations=operations).ranked(PROBLEM)[0][0]


def test_turns_hide_what_is_behind_a_product() -> None:
    """An epilogue, or few steps of k; not where a block has one tile."""
    assert best(4096, 4096, 4096).strategy == "cooperative"
    assert best(4096, 4096, 4096, operations=24).strategy == "ping-pong"
    assert best(4096, 4096, 512).strategy == "ping-pong"
    assert best(1024, 1024, 1024, operations=24).strategy == "cooperative"


def test_candidates_have_room() -> None:
    """Shared memory, and registers: two groups in turn have 240 each, three 160."""
    limits = SM90A.limits
    found = list(heuristic.candidates(8192, 8192, PROBLEM))
    assert {params.groups for params in found} == {1, 2, 3}
    for params in found:
        rows, columns, _ = params.tile
        staged = (params.ping_pong or 1) * params.store_stages * rows * params.chunk * 2
        places = 1 if params.once else 2
        joined = places * params.splits * rows * params.kept * 4 if params.splits > 1 else 0
        assert params.stages * (rows + columns) * 128 + staged + joined < limits.block_shared
        sums = rows * columns // 128 // (1 if params.ping_pong else params.groups)
        assert sums + 48 <= {1: 255, 2: 240, 3: 160}[params.groups]


def test_many_chunks_are_stored_through_more_stages() -> None:
    """Where operands have as many; with a residual there is no memory for them."""
    wanted = {256: (32, 4), 224: (32, 4), 192: (64, 4), 128: (64, 2), 64: (64, 2)}
    for columns, stored in wanted.items():
        room = Room((128, columns), SM90A.limits)
        ahead = room.stages(stored[0])
        assert room.best(columns) == (*stored, ahead)
        assert ahead >= 4
    beside = Beside(loaded=("r",), staged=("y",), out=2, planes=(2,), widest=2)
    assert Room((128, 256), SM90A.limits, beside).best(256) == (32, 2, 4)


def test_the_words_of_nvfuser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed's `Matmul Parameters`, and the runners-up with their times."""
    forced(monkeypatch, 2, (128, 64))
    said = clean("", DataType.Half, (136, 136, 136)).explain()
    for line in (
        "===== Matmul Parameters ========",
        "MMA macro: Hopper_64_64_16",
        "smem_circular_buffer_prefetch_gap: 1",
        "MatMulTileOptions: warp tile [128, 64, 64], CTA tile [128, 64, 64]",
        "Buffering loop level: WarpTiles (ping-pong, 2 warp groups)",
        "Tile rasterization order: row-major\n",
        "Circular buffering strategy: WarpSpecialized",
        "__cluster_dims__(1, 1)",
        "Split-K factor: 1",
    ):
        assert line in said
    (told,) = (line for line in said.splitlines() if line.startswith("  predicted"))
    times = [float(part.split()[-2]) for part in told.split(" µs")[:-1] for part in [part + " µs"]]
    assert len(times) == 5
    assert times == sorted(times)


@pytest.mark.usefixtures("uncompiled")
def test_words_of_few_rows() -> None:
    """Tiles go down columns of the product, which are their rows."""
    said = linear().sched.compute_matmul_heuristics(operands(8, 512, 512, 1))
    assert "Tile rasterization order: row-major, operands swapped\n" in str(said)


def test_what_a_user_could_change() -> None:
    told = list(words.advice([Work(m=512, n=512, k=4104)], PROBLEM, ""))
    assert len(told) == 1
    assert "lines of 4104 elements along k begin at no multiples of 128 bytes" in told[0]
    assert "pad k to 4160, multiples of 64: 1.2 x faster" in told[0]
    assert list(words.advice([Work(m=512, n=512, k=4160)], PROBLEM, "")) == []
    turned = Work(m=1000, n=1000, k=4096, turned=(True, True))
    assert "pad m to 1024 and n to 1024, " in next(words.advice([turned], PROBLEM, ""))
    computed = Prologue(element=2, share=1, operations=4)
    swapped = Work(m=4100, n=512, k=512, swapped=True, turned=(True, False), prologue=computed)
    assert "4100 elements along n begin" in next(words.advice([swapped], PROBLEM, ""))
    stored = Work(m=512, n=8192, k=64, moved=Beside())
    assert "threads store results: REASON" in next(words.advice([stored], PROBLEM, "REASON"))


def test_parameters_of_a_call_that_is_not_run() -> None:
    """nvFuser's `compute_matmul_heuristics`, of the sizes at hand."""
    fd = linear(DataType.Half)
    with knobs.scope(device="sim"):
        params = fd.sched.compute_matmul_heuristics(operands(64, 64, 64, 1, DataType.Half))
        assert replace(params, staged=("",)) == best(64, 64, 64)
        assert str(params).splitlines()[1].startswith("MMA macro: Hopper_64_")
        with pytest.raises(SchedulerRefusal, match="WS0402.*has rows of 60 elements, 120 bytes"):
            fd.sched.compute_matmul_heuristics(operands(64, 64, 60, 1, DataType.Half))
