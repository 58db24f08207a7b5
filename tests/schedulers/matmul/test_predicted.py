"""What the model of products predicts, beside what was timed."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.schedulers.matmul import heuristic, model
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.sectors import lines_touched
from warpsmith.schedulers.matmul.words import shortly
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H100, H200

ROWS = Path(__file__).parents[3] / "docs" / "lessons" / "data" / "products-drawn.json"


@pytest.mark.parametrize("edge", [32, 64, 128, 192, 512])
def test_lines_of_the_l2_that_boxes_touch(edge: int) -> None:
    """As counted, row by row and piece by piece, for pitches of all alignments."""
    piece = math.gcd(edge, 128)
    for pitch in (16, 144, 1120, 2240, 4288, 8576, 1024):
        starts = [row * pitch + at for row in range(128) for at in range(0, edge, piece)]
        lines = sum((start % 128 + piece - 1) // 128 + 1 for start in starts)
        assert lines_touched(edge, pitch) == pytest.approx(lines / (len(starts) * piece / 128))


def test_sums_shared_out_take_as_long_as_predicted() -> None:
    """Sizes drawn at random and timed on an H200 where blocks of a cluster have parts of k, as far
    as such kernels are still offered; all blocks of a cluster met at their end then.
    """
    problem = Problem(values={}, alignment={}, target=H200)
    ratios = []
    for row in json.loads(ROWS.read_text()):
        if ", k in" not in row["how"] or "of the grid" in row["how"] or "swapped" in row["how"]:
            continue
        sizes, fast = row["title"].split()[:2]
        m, n, k = map(int, sizes.split("x"))
        turned = (fast[0] == "m", fast[1] == "n")
        work = heuristic.Work(m=m, n=n, k=k, turned=turned)
        for params in heuristic.candidates(m, n, problem):
            if shortly(params) == row["how"]:
                us = row["us"] - model.END_US * params.once
                ratios.append(math.log(us / work.predicted(params, H200)))
                break
    assert len(ratios) > 30
    assert abs(sum(ratios) / len(ratios)) < math.log(1.05)
    assert max(map(abs, ratios)) < math.log(1.34)


@pytest.mark.parametrize(("m", "n", "k"), [(33, 33, 24), (64, 32, 4096), (300, 200, 500)])
def test_no_groups_take_turns_where_a_block_has_one_tile(m: int, n: int, k: int) -> None:
    """The others would wait for nothing; such a kernel of one turn was serialized by ptxas."""
    problem = Problem(values={}, alignment={}, target=H200)
    for size, some in ((m, False), (8 * m + 8192, True)):
        ranked = heuristic.Work(m=size, n=n, k=k).ranked(problem)
        few = (
            params.ping_pong
            for params, _ in ranked
            if math.ceil(size / params.tile[0]) * math.ceil(n / params.tile[1]) <= 132
        )
        assert not any(few)
        assert any(params.ping_pong for params, _ in ranked) == some


BESIDE = Beside(
    loaded=("b", "r"), staged=("y",), out=2, planes=(2,), column=2, widest=2, pairs=("b", "r")
)
"""A bias and a residual, and one result, all of 16 bits."""


@pytest.mark.parametrize(
    ("m", "n", "k", "how", "us"),
    [
        (2048, 4096, 4096, "cooperative 128x256 of 2 groups, cluster 2x1", 6),
        (4096, 14336, 4096, "ping-pong 128x160 of 2 groups, cluster 2x1", 6),
        (8192, 8192, 8192, "cooperative 128x256 of 2 groups, cluster 2x1", 63),
    ],
)
def test_a_bias_and_a_residual_add_about_what_they_were_timed_to(
    m: int, n: int, k: int, how: str, us: float
) -> None:
    """On an H200; without their bytes two operations alone would add a third."""
    problem = Problem(values={}, alignment={}, target=H200)
    work = heuristic.Work(m=m, n=n, k=k, operations=2, moved=BESIDE)
    params, more = next((p, us) for p, us in work.ranked(problem) if shortly(p) == how)
    plain = heuristic.Work(m=m, n=n, k=k).predicted(params, H200)
    assert more - plain == pytest.approx(us, rel=0.55)


@pytest.mark.parametrize(
    ("k", "how", "us"),
    [
        (1728, "cooperative 192x192 of 3 groups", 0),
        (64, "cooperative 192x192 of 3 groups", 6),
        (1728, "ping-pong 64x224 of 2 groups, cluster 2x1", 4),
    ],
)
def test_draws_beside_products_take_no_time(k: int, how: str, us: float) -> None:
    """12 of a group for a tile, in as many steps over k: dropout and a residual took 52.3 us of
    1088 x 7872 x 1728 in the first tiles, 59.8 in the last (an H200, 2026-11-27).
    """
    problem = Problem(values={}, alignment={}, target=H200)
    moved = replace(BESIDE, loaded=("r",), column=0, pairs=("r",))
    work = heuristic.Work(m=1088, n=7872, k=k, operations=4, drawn=10, moved=moved)
    params, drawn = next((p, us) for p, us in work.ranked(problem) if shortly(p) == how)
    assert drawn - replace(work, drawn=0).predicted(params, H200) == pytest.approx(us, abs=1.5)
    assert us > 0 or not work.ranked(problem)[0][0].ping_pong


def test_one_group_alone_waits_for_each_chunk_of_a_residual() -> None:
    """5824 x 1536 x 2304 took 63.0 us in tiles of 192 x 192 of three groups, 66.6 in tiles of 128 x
    144 in turn, which were chosen (an H200, 2026-11-27); 7872 x 4288 x 1536 is faster in turn.
    """
    problem = Problem(values={}, alignment={}, target=H200)
    moved = replace(BESIDE, loaded=("r",), column=0, pairs=("r",), like_operands=True)
    sizes = (5824, 1536, 2304), (7872, 4288, 1536)
    works = [heuristic.Work(m=m, n=n, k=k, operations=1, moved=moved) for m, n, k in sizes]
    short, long = (work.ranked(problem)[0][0] for work in works)
    assert (shortly(short), long.ping_pong) == ("cooperative 192x192 of 3 groups", 2)


def test_narrow_chunks_touch_a_line_of_the_l2_for_each_row() -> None:
    """Of 64 columns of 16 bits each byte counts once, of 32 twice, of 16 four times."""
    problem = Problem(values={}, alignment={}, target=H200)
    work = heuristic.Work(m=2048, n=2048, k=256, moved=BESIDE)
    wide = next(p for p, _ in work.ranked(problem) if p.chunk == 64 and not p.ping_pong)
    times = {chunk: work.predicted(replace(wide, chunk=chunk), H200) for chunk in (64, 32, 16)}
    assert times[32] > times[64]
    assert times[16] - times[32] == pytest.approx(2 * (times[32] - times[64]))


def test_what_is_on_its_way_bounds_a_step() -> None:
    """Narrow tiles have more stages: 96 KB on their way took 0.15 us a step of 12 KB, 31 steps of
    1152 x 72 x 1984 5 us in place of 4 (an H100, 2026-11-26).
    """
    problem = Problem(values={}, alignment={}, target=H100)
    work = heuristic.Work(m=1152, n=72, k=1984)
    narrow = next(p for p, _ in work.ranked(problem) if p.tile == (64, 32, 64) and p.splits == 1)
    assert narrow.stages == 16
    few = work.predicted(replace(narrow, stages=8), H100)
    assert few == pytest.approx(10.7, rel=0.08)
    assert few - work.predicted(narrow, H100) > 0.3


@pytest.mark.parametrize(
    ("m", "n", "k", "turned", "timed"),
    [
        (
            *(6144, 248, 7032, True),
            {
                "cooperative 64x256 of 1 group, cluster 4x1": 52.6,
                "cooperative 64x256 of 1 group, operands swapped, cluster 4x1": 41.2,
                "cooperative 128x128 of 2 groups, cluster 2x2": 41.1,
            },
        ),
        (
            *(3648, 480, 8632, False),
            {
                "cooperative 64x256 of 1 group, cluster 4x2": 60.8,
                "cooperative 128x128 of 2 groups, cluster 2x4": 48.7,
            },
        ),
        (
            *(5720, 320, 824, True),
            {
                "cooperative 192x88 of 3 groups, cluster 1x4": 13.2,
                "cooperative 192x80 of 3 groups, cluster 1x4": 11.7,
            },
        ),
        (
            *(784, 224, 1096, False),
            {
                "cooperative 64x32 of 1 group, operands swapped, cluster 2x2": 8.2,
                "cooperative 64x32 of 1 group, operands swapped, steps of 128, cluster 2x2": 8.0,
            },
        ),
    ],
)
def test_what_a_multiprocessor_gets_and_stages_hold(
    m: int, n: int, k: int, turned: bool, timed: dict[str, float]
) -> None:
    """On an H200, 2026-11-27: lines that a cluster asks for take as long for each block as they
    touch, tiles begin where their columns do, and a stage takes time however little is in it.
    """
    problem = Problem(values={}, alignment={}, target=H200)
    found: dict[str, float] = {}
    for sizes in ({"m": m, "n": n}, {"m": n, "n": m, "swapped": True}):
        work = heuristic.Work(**sizes, k=k, turned=(turned, turned))
        for params, us in work.ranked(problem):
            found.setdefault(shortly(params), us)
    assert {how: found[how] for how in timed} == pytest.approx(timed, rel=0.2)
    slowest, *others = timed
    assert max(found[how] for how in others) < found[slowest]


def test_results_leave_no_faster_than_memory_takes_them() -> None:
    """16 MB of 2232 x 3640 x 88, in 4 rounds (an H100, 2026-11-26): 11.8 us were predicted."""
    problem = Problem(values={}, alignment={}, target=H100)
    work = heuristic.Work(m=2232, n=3640, k=88, turned=(False, True))
    found = (p for p, _ in work.ranked(problem) if p.tile[:2] == (128, 192) and p.ping_pong == 2)
    timed = next(p for p in found if p.cluster == (1, 4))
    assert work.predicted(timed, H100) == pytest.approx(16.1, rel=0.1)


def test_chunks_of_part_of_a_sector_take_longer_to_leave() -> None:
    """Rows of 112 bytes (an H200, 2026-11-28): 10.2 us were predicted for the first."""
    problem = Problem(values={}, alignment={}, target=H200)
    plain = heuristic.Work(m=1968, n=2656, k=88, turned=(True, False))
    other = heuristic.Work(m=2656, n=1968, k=88, turned=(False, True), swapped=True)
    timed = {
        "cooperative 256x168 of 2 groups": 12.9,
        "cooperative 256x168 of 2 groups, operands swapped": 10.6,
    }
    found: dict[str, float] = {}
    for params, us in (way for work in (plain, other) for way in work.ranked(problem)):
        found.setdefault(shortly(params), us)
    first, second = (found[how] for how in timed)
    assert (first, second) == pytest.approx(tuple(timed.values()), rel=0.15)
    assert first > second


@pytest.mark.parametrize(
    ("work", "timed"),
    [
        (
            heuristic.Work(m=2104, n=7104, k=104),
            {
                "ping-pong 128x128 of 2 groups": 22.8,
                "ping-pong 128x128 of 2 groups, cluster 1x2": 19.3,
                "ping-pong 128x128 of 2 groups, cluster 1x4": 18.2,
            },
        ),
        (
            heuristic.Work(m=6080, n=5288, k=80, turned=(True, True)),
            {
                "ping-pong 64x136 of 2 groups, cluster 2x1": 44.6,
                "cooperative 128x120 of 2 groups, cluster 2x1": 35.7,
            },
        ),
        (
            heuristic.Work(m=7120, n=4744, k=248, turned=(False, True)),
            {
                "ping-pong 64x216 of 2 groups, cluster 4x2": 50.7,
                "ping-pong 128x192 of 2 groups, cluster 4x2": 43.0,
            },
        ),
    ],
)
def test_what_is_read_and_written_passes_the_l2(
    work: heuristic.Work, timed: dict[str, float]
) -> None:
    """On an H200, 2026-11-26: before, in the first two cases all were predicted within a tenth."""
    problem = Problem(values={}, alignment={}, target=H200)
    found: dict[str, float] = {}
    for params, us in work.ranked(problem):
        found.setdefault(shortly(params), us)
    assert {how: found[how] for how in timed} == pytest.approx(timed, rel=0.13)
    assert sorted(timed, key=timed.__getitem__) == sorted(timed, key=found.__getitem__)
