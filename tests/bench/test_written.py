"""Programs that people write, as benches compile them."""

import json
from pathlib import Path
from random import Random

import pytest
import torch

from bench.programs import PROGRAMS
from bench.trained import MODULES
from bench.written import Written, busy, report, table


@pytest.mark.parametrize("seed", [1, 2])
def test_all_programs_and_modules_fit_the_sizes_that_are_drawn(seed: int) -> None:
    for name, program in PROGRAMS.items():
        inputs = program.draw(Random(seed), "meta")
        made = program.function(*inputs)
        assert isinstance(made, torch.Tensor | tuple), name
    for name, trained in MODULES.items():
        inputs = trained.inputs.draw(Random(seed), "meta")
        module = trained.make(inputs).to("meta", torch.bfloat16)
        assert module(*inputs).numel(), name


def test_sizes_follow_from_the_seed() -> None:
    program = PROGRAMS["embedded"]
    one, same, other = (program.draw(Random(seed), "meta") for seed in (1, 1, 2))
    assert [x.shape for x in one] == [x.shape for x in same]
    assert [x.shape for x in one] != [x.shape for x in other]
    assert one[0].dtype is torch.int64


def test_the_report_tells_programs_from_modules() -> None:
    def row(ratio: float, *, trained: bool = False, failure: str = "") -> Written:
        us = {"warpsmith": 1.0, "inductor": ratio}
        return Written(
            name="a", trained=trained, shapes=((2, 3),), us=us, errors={}, failure=failure
        )

    rows = [row(2.0), row(0.5), row(0.0, failure="no"), row(1.5, trained=True)]
    first, second = report(rows)
    assert first == "programs: 2, 1.000 x Inductor, tenth 0.65, least 0.50, behind by 3 % at 1"
    assert second.startswith("trained modules: 1, 1.500 x Inductor")
    assert str(rows[2]) == "a [2x3]: no"


def test_time_in_which_two_kernels_run_counts_once() -> None:
    assert busy([(1, 3), (2, 5), (2.5, 4), (7, 8)]) == 5


def test_the_page_of_benchmarks_is_of_the_rows_that_are_kept() -> None:
    folder = Path(__file__).parents[2] / "docs" / "benchmarks"
    kept = json.loads((folder / "written.json").read_text())
    rows = [Written(**row) for row in kept["rows"]]
    page = (folder / "written.md").read_text()
    assert "\n".join(table(rows)) in page
    assert all(line.split(": ", 1)[1] in page for line in report(rows))
