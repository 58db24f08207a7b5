"""Results that are turned on their way to memory, tiles of an odd number of eight columns, and
tiles of 256 rows, of which each of two warp groups has twice 64.
"""

import warnings
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.matmuls import check
from warpsmith import FusionDefinition, fuse, knobs, ops
from warpsmith.engine.executable import Executable
from warpsmith.errors import PlanWarning
from warpsmith.ir.program import Program
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.matmul.candidates import candidates
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.room import Room, shared_by
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200, SM90A

PROBLEM = Problem(values={}, alignment={}, target=H200)


def drawn(rows: int, columns: int, seed: int, *, turned: bool) -> np.ndarray[Any, Any]:
    """A matrix of -1 to 1, of which columns lie together where it is turned."""
    shape = (columns, rows) if turned else (rows, columns)
    array = np.random.default_rng(seed).uniform(-1, 1, shape).astype(ml_dtypes.bfloat16)
    return array.T if turned else array


def clean(
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int, int],
    turned: str = "",
    changed: dict[str, Any] | None = None,
    **wanted: Any,
) -> MatmulParams:
    """The first candidate with such parameters, whose kernel is right, clean under orders of warps
    and copies, and has a proof.
    """
    taken: list[MatmulParams] = []

    def choose(fusion: Program, problem: Problem) -> MatmulParams:
        found = (params for params, _ in heuristic.ranked(fusion, problem))
        params = next(p for p in found if all(getattr(p, n) == v for n, v in wanted.items()))
        taken.append(replace(params, **{"stages": 2, **(changed or {})}))
        return taken[-1]

    monkeypatch.setattr(heuristic, "choose", choose)
    m, n, k = size
    x, weight = drawn(m, k, 1, turned="a" in turned), drawn(n, k, 2, turned="b" in turned)
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(array) for array in (x, weight))
        fd.add_output(fd.ops.linear(a, b))
    with knobs.scope(device="sim", verify="all"), warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        (result,) = fd.execute([x, weight])
        assert fd.verify([x, weight], schedules=2).verdict == "clean"
        (launch,) = Executable(fd.fusion).plan_for([x, weight]).launches
    check(result, x, weight)
    stored = f"ws_store_matrix_{4 if taken[-1].chunk % 16 == 0 else 2}"
    assert f"{stored}{'_t' * taken[-1].swapped}(" in launch.compiled.asm["cuda"]
    return taken[-1]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("tile", "changed", "more"),
    [
        ((64, 24), {"blocks": 2}, {}),
        ((128, 72), {}, {}),
        ((192, 64), {"chunk": 32}, {}),
        ((64, 48), {"blocks": 2, "ping_pong": 2}, {}),
        ((128, 32), {}, {"cluster": (2, 1)}),
        ((64, 64), {}, {"splits": 2}),
        ((64, 40), {"parts": 2, "blocks": 132}, {}),
        ((256, 64), {}, {"passes": 2}),
    ],
)
@pytest.mark.parametrize("turned", ["", "ab"])
def test_results_are_turned(
    monkeypatch: pytest.MonkeyPatch,
    tile: tuple[int, int],
    changed: dict[str, Any],
    more: dict[str, Any],
    turned: str,
) -> None:
    """Tiles' rows are the product's columns, whose last tile is not whole."""
    wanted: dict[str, Any] = {"cluster": (1, 1), "splits": 1, "parts": 1, "ping_pong": 0}
    wanted |= {"swapped": True, "tile": (*tile, 64), **more}
    params = clean(monkeypatch, (72, 200, 72), turned, changed, **wanted)
    assert params.staged


@pytest.mark.few(1)
@pytest.mark.parametrize(("tile", "chunk"), [((64, 24), 24), ((128, 72), 72), ((64, 120), 120)])
def test_tiles_of_an_odd_number_of_eight_columns(
    monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int], chunk: int
) -> None:
    wanted: dict[str, Any] = {"cluster": (1, 1), "splits": 1, "parts": 1, "ping_pong": 0}
    params = clean(monkeypatch, (136, 200, 72), swapped=False, tile=(*tile, 64), **wanted)
    assert params.chunk == chunk


@pytest.mark.few(1)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
def test_two_groups_have_twice_64_rows_each(
    monkeypatch: pytest.MonkeyPatch, cluster: tuple[int, int]
) -> None:
    params = clean(
        monkeypatch,
        (264, 72, 72),
        tile=(256, 32, 64),
        swapped=False,
        cluster=cluster,
        parts=1,
        stream=False,
    )
    assert (params.groups, params.passes) == (2, 2)


def test_what_follows_is_turned_with_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two results of rows of two dimensions, a bias and a residual, which threads load."""

    def choose(fusion: Program, problem: Problem) -> MatmulParams:
        found = (params for params, _ in heuristic.ranked(fusion, problem) if params.swapped)
        params = next(p for p in found if p.tile == (64, 24, 64) and p.cluster == (1, 1))
        return replace(params, stages=2)

    monkeypatch.setattr(heuristic, "choose", choose)
    x, w = drawn(72, 72, 1, turned=False).reshape(2, 36, 72), drawn(72, 72, 2, turned=False)
    bias, residual = drawn(1, 72, 3, turned=False)[0], drawn(72, 72, 4, turned=False)

    def body(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        made = ops.linear(x, w) + bias + residual
        return ops.relu(made), ops.neg(made)

    given = x, w, bias, residual.reshape(2, 36, 72)
    with knobs.scope(device="sim", verify="all"):
        compiled = fuse(body).lower(*given).compile()
        assert compiled.verify(schedules=2).verdict == "clean"
        assert "swapped=True" in compiled.explain()
        results = fuse(body)(*given)
    wide = [np.asarray(each).astype(np.float64) for each in (*given, *results)]
    wanted = wide[0] @ wide[1].T + wide[2] + wide[3]
    np.testing.assert_allclose(wide[4], wanted.clip(0), rtol=2**-8, atol=1e-3)
    np.testing.assert_allclose(wide[5], -wanted, rtol=2**-8, atol=1e-3)


def test_blocks_of_a_cluster_share_what_whole_parts_of_a_swizzle_are() -> None:
    """Else each would load all of it: none is offered, but where columns are few."""
    for columns, blocks, shared in ((128, 4, 4), (112, 2, 2), (112, 4, 1), (72, 2, 1)):
        assert shared_by(blocks, columns, turned=False) == shared
        assert shared_by(blocks, columns, turned=True) == blocks
    ways = candidates(4096, 4096, PROBLEM)
    assert {*ways.down.tolist(), *ways.across.tolist()} == {1, 2, 4}
    assert all(ways.columns % (8 * ways.down) == 0)
    along_n = candidates(4096, 4096, PROBLEM, turned=True)
    assert any((along_n.down == 4) & (along_n.columns == 112))


def test_rows_of_odd_chunks_meet_no_bank_twice() -> None:
    """They are for tiles that others do not fit, of results of 16 bits and nothing else."""
    limits = SM90A.limits
    assert [int(Room((128, c), limits).best(c)[0]) for c in (72, 144, 200, 208)] == [72, 16, 40, 16]
    wide = Beside(staged=("y",), out=4, widest=4)
    for moved, chunk in ((Beside(staged=("y",), out=2, widest=2), 40), (wide, 0)):
        ways = candidates(4096, 4096, PROBLEM, moved=moved)
        found = {int(c) for c in ways.chunk[ways.columns == 200]}
        assert found == ({chunk} if chunk else set())
