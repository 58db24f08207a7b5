"""Sizes that a seed says, shapes that are forced, and what is said of the times."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import images, unseen
from bench.batch_norm import batch_norm
from bench.images import Images
from bench.norm_backward import rms_norm_bwd
from bench.problem import Problem
from bench.row_shapes import considered, forced
from bench.unseen import COLUMNS, FAMILIES, drawn, run
from bench.unseen_report import CHOSEN, Timed, report
from tests.schedulers.test_parts import check_right
from warpsmith.errors import ArgumentError
from warpsmith.tools.cli import app

ROWS = tuple(suite for suite in FAMILIES if suite != images.SUITE)
TIMED = Timed(
    problem="softmax",
    shape=(600, 1000),
    dtype="float",
    us={CHOSEN: 12.5, "#0 waves": 10.0, "torch": 15.0},
    ceiling_us=10.0,
    chosen="a role",
    best="#0 waves",
    errors={},
)


def test_a_seed_says_the_sizes() -> None:
    def sizes(seed: int) -> list[tuple[str, tuple[int, ...], str]]:
        found = islice(drawn(seed, ROWS), 60)
        return [(problem.name, problem.shape, problem.dtype) for problem in found]

    assert sizes(3) == sizes(3) != sizes(4)
    assert {name for name, _, _ in sizes(3)} == {
        make(512, 512, "float").name for suite in ROWS for make in FAMILIES[suite]
    }
    assert all(COLUMNS[0] <= shape[1] <= COLUMNS[1] for _, shape, _ in sizes(3))
    assert any(shape[1] % 8 for _, shape, _ in sizes(3))


def test_a_seed_says_the_images() -> None:
    found = list(islice(drawn(3, (images.SUITE,)), 60))
    batch, channels, side, _ = zip(*(problem.shape for problem in found), strict=True)
    assert len({problem.title for problem in found}) == 60
    assert min(batch) >= images.BATCHES[0]
    assert all(count % images.CHANNEL_STEP == 0 for count in channels)
    assert max(side) <= images.SIDES[1]
    makes = {make(Images(1, 32, 1, False), "float").name for make in FAMILIES[images.SUITE]}
    assert {problem.name for problem in found} == makes | {f"{name}_nhwc" for name in makes}


def test_a_forced_shape_is_taken() -> None:
    problem = rms_norm_bwd(600, 1544, "bfloat16")
    found = considered(problem, 3)
    assert found.own is not None
    kinds = [found.own.kind, *(each.kind for each in found.others)]
    assert len(set(kinds)) == 4
    with forced(found.others[0].params):
        taken = considered(problem, 0).own
    assert taken is not None
    assert taken.kind == found.others[0].kind


def test_kernels_are_named_where_no_row_is_kept() -> None:
    tall = batch_norm(Images(160, 1056, 17, True), "bfloat16")
    found = considered(tall, 3)
    assert (found.others, found.own) == ((), None)
    first, second = found.words.split(" + ")
    assert first.startswith("reduction ")
    assert second.startswith("pointwise ")


def test_what_is_said_of_times() -> None:
    assert (TIMED.share, round(TIMED.regret, 9), TIMED.peer) == (80.0, 0.25, 1.2)
    alone = replace(TIMED, us={CHOSEN: 10.0}, best=CHOSEN)
    first, *worst = report([alone, TIMED])
    assert first.startswith("softmax float: 2 sizes, 89.4 % of the ceiling")
    assert "worst 80.0; regret median 25.0%" in first
    assert "1.20 x best peer, least 1.20, behind at 0" in first
    assert worst[0] == "   80.0 600x1000 12.5 us a role; best 10.0 #0 waves"
    assert len(worst) == 2


def test_small_problems_and_short_times_are_told_apart() -> None:
    rows = [replace(TIMED, moved=19_000_000), replace(TIMED, us={CHOSEN: 9.0}, best=CHOSEN)]
    told = [
        line for line in report([*rows, replace(TIMED, moved=21_000_000)]) if " sizes, " in line
    ]
    assert [line.split(",")[0] for line in told[1:]] == [
        "  below 20 MB: 2 sizes",
        "  from 20 MB on: 1 sizes",
        "  below 10 us: 1 sizes",
        "  from 10 us on: 2 sizes",
    ]
    assert "1.20 x best peer" in told[2]


@pytest.mark.parametrize("make", FAMILIES["losses"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
def test_losses_are_right(make: Callable[..., Problem], dtype: str) -> None:
    check_right(make(5, 70, dtype))


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'norms'") as said:
        run(("norms",), 1, 0)
    assert said.value.code == "WS0344"


def test_the_command_says_families_time_and_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[object, ...]] = []

    def noted(*given: object, **named: object) -> list[str]:
        asked.append((*given, named["minutes"], named["plot"]))
        return ["done"]

    monkeypatch.setattr(unseen, "run", noted)
    plot = str(tmp_path / "unseen.svg")
    options = ["--seed", "7", "--minutes", "2", "--suite", "norm_bwd,losses", "--plot", plot]
    result = CliRunner().invoke(app, ["bench", "unseen", "softmax", *options])
    assert result.output == "done\n"
    CliRunner().invoke(app, ["bench", "unseen", "--limit", "30"])
    assert asked == [
        (("softmax", "norm_bwd", "losses"), 7, 0, 2.0, Path(plot)),
        ((), 1, 0, 0.5, None),
    ]
