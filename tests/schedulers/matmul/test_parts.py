"""Parts of k that blocks of the grid have, or clusters: the last one of a tile adds them up."""

import math
import re
from typing import Any

import pytest

from tests.support.product_programs import Array, check_behind_batches, close, forcing, values, wide
from warpsmith import FusionDefinition, knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.executable import Executable
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.room import ONE_RESULT
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

force = forcing(splits=1, ping_pong=0, cluster=(1, 1), stages=2, group=1, stream=False)
"""Groups share a tile, of few stages, but for what is said."""


def operands(m: int, n: int, k: int) -> tuple[Array, Array]:
    return values((m, k), 1), values((n, k), 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("k", [264, 64, 0])
@pytest.mark.parametrize(
    "given",
    [
        {"tile": (64, 32, 64), "chunk": 32, "parts": 3},
        {"tile": (64, 32, 64), "chunk": 32, "parts": 5, "cluster": (2, 1)},
        {"tile": (128, 64, 64), "chunk": 32, "parts": 3, "splits": 2},
        {"tile": (64, 32, 64), "chunk": 0, "store_stages": 0, "staged": (), "parts": 4},
    ],
)
def test_sums_are_whole(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], k: int) -> None:
    """Tiles of edges, and parts of several steps over k, of one and of none."""
    force(monkeypatch, **given)
    x, weight = operands(136, 40, k)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
        assert fd.verify([x, weight], schedules=3).verdict == "clean"
    close(result, wide(x) @ wide(weight).T, max(k, 1))
    assert f"parts={given['parts']}" in fd.explain()
    assert f"Split-K factor: {given['parts'] * given.get('splits', 1)}\n" in fd.explain()


def test_batches_and_what_is_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a residual and a bias come ahead in all blocks; two results leave one."""
    force(monkeypatch, tile=(64, 32, 64), chunk=16, parts=3)
    check_behind_batches("parts=3")


def test_a_part_without_steps_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block without products leaves what registers begin with."""
    force(monkeypatch, tile=(64, 32, 64), chunk=32, parts=3)
    x, weight = operands(64, 32, 64)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))
    (launch,) = Executable(fd.fusion).plan_for([x, weight]).launches
    text = cuda_text(launch.compiled.kernel, H200)
    assert re.search(r"float (T\d+)\[16\];\n.*\n.*\n +\1\[e\] = 0.0f;\n", text)


@pytest.mark.parametrize("splits", [1, 2])
def test_products_of_a_part_are_on_their_way_over_iterations(
    monkeypatch: pytest.MonkeyPatch, splits: int
) -> None:
    """Loops of a block end behind its last step; where each step is asked for, they cannot be."""
    force(monkeypatch, tile=(64, 32, 64), chunk=16, parts=3, splits=splits)
    x, weight = operands(64, 32, 520)  # nine steps, of which each block has three, the last one two
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))
    (launch,) = Executable(fd.fusion).plan_for([x, weight]).launches
    text = cuda_text(launch.compiled.kernel, H200)
    assert "ws_await_products<1>();" in text
    assert "+ grid_y) <" not in text


def test_few_tiles_of_long_sums_have_parts() -> None:
    problem = Problem(values={}, alignment={}, target=H200)

    def chosen(m: int, n: int, k: int, **given: Any) -> heuristic.MatmulParams:
        return Work(m=m, n=n, k=k, **given).ranked(problem)[0][0]

    few = chosen(560, 488, 14064)
    tiles = math.ceil(560 / few.tile[0]) * math.ceil(488 / few.tile[1])
    assert few.parts > 1
    assert few.parts * few.splits * tiles <= few.blocks
    assert chosen(4096, 4096, 4096).parts == chosen(512, 608, 256).parts == 1


@pytest.mark.parametrize(
    ("tile", "stored_by_threads"), [((192, 128), True), ((192, 192), False), ((128, 256), False)]
)
def test_tiles_that_would_spill_where_threads_store(
    tile: tuple[int, int], stored_by_threads: bool
) -> None:
    problem = Problem(values={}, alignment={}, target=H200)
    for moved in (Beside(), ONE_RESULT):
        ways = [p for p, _ in Work(m=512, n=512, k=16384, moved=moved).ranked(problem)]
        found = any(p.parts > 1 and p.tile[:2] == tile for p in ways)
        assert found is (stored_by_threads or moved is ONE_RESULT)
