"""Schedules as columns of numbers say and cost what each says and costs by itself."""

from dataclasses import replace

import numpy as np
import pytest

from warpsmith.ir import integers
from warpsmith.ir.rounds import last_parts
from warpsmith.schedulers.matmul.candidates import candidates
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.model import LAST_US, counted_tiles
from warpsmith.schedulers.matmul.shares import with_parts
from warpsmith.schedulers.matmul.ways import Ways, joined
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

PROBLEM = Problem(values={}, alignment={}, target=H200)

WORKS = {
    "many": Work(m=3000, n=2000, k=1000),
    "few": Work(m=4096, n=8, k=4096, swapped=True, few=8),
    "parts": Work(m=256, n=256, k=16384, turned=(True, True)),
    "residual": Work(
        m=512,
        n=512,
        k=512,
        operations=3,
        moved=Beside(loaded=("r",), staged=("y",), out=2, planes=(2,), widest=2, pairs=("y", "z")),
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("of", WORKS)
def test_each_of_many_is_priced_as_it_is_alone(of: str) -> None:
    work = WORKS[of]
    found = work.ranked(PROBLEM)
    assert len(found) > 50
    assert [us for _, us in found] == sorted(us for _, us in found)
    assert work.best(PROBLEM) == found[:1]
    for params, us in found[::17]:
        assert work.predicted(params, H200) == us


@pytest.mark.parametrize("of", WORKS)
def test_columns_are_what_parameters_say(of: str) -> None:
    for params, _ in WORKS[of].ranked(PROBLEM)[::17]:
        (again,) = Ways.of(params)
        assert again == replace(params, loaded=(), staged=(), pairs=(), once_read=(False, False))
        assert Ways.of(params).kept[0] == params.kept
        assert Ways.of(params).groups[0] == params.groups


def test_tensors_move_in_chunks_or_in_pairs() -> None:
    wide = WORKS["residual"]
    narrow = replace(wide, n=8, few=8)
    found = [params for work in (wide, narrow) for params, _ in work.ranked(PROBLEM)]
    ways = {(p.chunk > 0, p.loaded, p.staged, p.pairs) for p in found}
    assert ways == {(True, ("r",), ("y",), ("z",)), (False, (), (), ("y", "z"))}


def test_parts_stand_behind_the_schedule_that_they_are_of() -> None:
    """So that of equal times the plainer one is taken."""
    m, n, k = 1408, 1408, 4096
    whole = candidates(m, n, PROBLEM)
    every = list(with_parts(whole, counted_tiles(whole, m, n)[0], k, H200.family.limits))
    places = [p for p, each in enumerate(every) if each.parts == 1 and not each.stream]
    assert [every[p] for p in places] == list(whole)
    for first, after in zip(places, [*places[1:], len(every)], strict=True):
        parts = [each.parts for each in every[first:after] if not each.stream]
        assert parts == sorted(set(parts))
        assert all(
            replace(each, parts=1, stream=False) == every[first] for each in every[first:after]
        )
    assert any(each.parts > 1 for each in every)
    assert any(each.stream for each in every)


def test_columns_are_joined_in_an_order() -> None:
    ways = candidates(512, 512, PROBLEM)
    some = ways.at(np.array([0, 2])), ways.at(np.array([1]))
    assert list(joined(some, np.array([0, 2, 1]))) == list(ways)[:3]


def test_parts_of_the_last_round_are_as_many_as_the_kernel_makes() -> None:
    """The model counts in numbers what the kernel's text says by `last_parts`."""
    m, n, k = 5112, 1384, 8360
    work = Work(m=m, n=n, k=k)
    counts = set()
    for params, us in work.ranked(PROBLEM):
        if params.stream:
            alone = replace(params, stream=False, group=1)
            tiles = int(counted_tiles(Ways.of(params), m, n)[0][0])
            parts = integers.constant(last_parts(tiles, params.blocks, -(-k // params.tile[2])))
            assert parts is not None
            counts.add(parts)
            summed = parts * params.tile[0] * params.kept * 4 / 6.17e4
            saved = work.predicted(alone, H200) - (us - (LAST_US + summed) * (parts > 1))
            assert saved == pytest.approx(0, abs=1e-6) or saved > 0
            assert (saved > 1e-6) == (parts > 1)
    assert len(counts) > 1


def test_a_wave_is_about_as_high_as_wide() -> None:
    """Whatever its tiles and clusters: of 128 x 256 in clusters of two eight follow each other."""
    found = candidates(8192, 8192, PROBLEM)
    for params in found:
        if params.splits == 1 and params.blocks == H200.sm_count:
            rows, columns, _ = params.tile
            high = (params.blocks * rows * columns) ** 0.5 / rows / params.cluster[0]
            assert high / 2 - 1 <= params.group <= max(2 * high, 1), params
    groups = {p.cluster: p.group for p in found if p.tile == (128, 256, 64) and not p.ping_pong}
    assert (groups[1, 1], groups[2, 1], groups[1, 2]) == (16, 8, 16)


def test_rows_that_stay_in_the_l2_are_more() -> None:
    """Of short k: columns go by less often."""
    found = candidates(8192, 8192, PROBLEM, line=2 * 512)
    groups = {p.cluster: p.group for p in found if p.tile == (128, 256, 64) and not p.ping_pong}
    assert (groups[1, 1], groups[2, 1]) == (64, 32)
