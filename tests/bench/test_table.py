"""Tables of rows: best peers, geometric means, what failed."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from bench.table import best_peer, geomean, speedup, tables
from tests.bench.test_row import ROW as KEPT

ROW = replace(
    KEPT, dtype="float", us=20.0, ceiling_us=18.0, pct_ceiling=90.0, rel_err=1e-7, versions=()
)
SMALL = [
    ROW,
    replace(ROW, impl="torch", us=40.0, pct_ceiling=45.0),
    replace(ROW, impl="torch_compile", us=22.0, pct_ceiling=81.8),
]
LARGE = [
    replace(row, shape=(64, 64), us=us, pct_ceiling=pct)
    for row, us, pct in zip(SMALL, (10.0, 40.0, 44.0), (40.0, 10.0, 9.0), strict=True)
]


def test_the_best_peer_is_chosen_for_each_size() -> None:
    assert [best_peer(group).impl for group in (SMALL, LARGE)] == ["torch_compile", "torch"]
    assert speedup(SMALL) == pytest.approx(1.1)
    assert speedup(LARGE) == pytest.approx(4.0)


def test_a_peer_that_failed_does_not_count() -> None:
    failed = replace(SMALL[2], us=None, error="ValueError: wrong result")
    assert best_peer([SMALL[0], SMALL[1], failed]) == SMALL[1]
    assert best_peer([SMALL[0]]) is None
    assert speedup([SMALL[0], failed]) is None
    assert speedup([replace(ROW, us=None), SMALL[1]]) is None


def test_geometric_mean() -> None:
    assert geomean([1.0, 4.0]) == pytest.approx(2.0)
    assert geomean([]) is None


def test_tables_hold_the_times_then_the_means() -> None:
    sizes, means = tables([*SMALL, *LARGE])
    assert sizes.heading == "pointwise, float"
    assert sizes.lines[0] == (
        *("silu_mul 8192x1024", "18.0", "20.0", "40.0", "22.0"),
        *("90.0", "torch_compile", "1.10", "1.0e-07"),
    )
    assert means.columns == (
        *("problem", "sizes", "warpsmith %", "torch %", "torch_compile %", "x best peer"),
    )
    # sqrt(90 * 40) and sqrt(1.1 * 4)
    assert means.lines[0][:3] == ("silu_mul float", "2", "60.0")
    assert means.lines[0][-1] == "2.10"
    assert [line[0] for line in means.lines] == ["silu_mul float", "all"]


def test_markdown_has_one_rule_and_as_many_cells_everywhere() -> None:
    text = tables([*SMALL, *LARGE])[0].markdown()
    heading, _, *lines = text.splitlines()
    assert heading == "**pointwise, float**"
    assert {line.count("|") for line in lines} == {10}
    assert lines[1] == "|" + "---|" * 9
    assert len(lines) == 4


def test_a_terminal_gets_the_same_cells() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(tables(SMALL)[0].rich())
    assert isinstance(console.file, io.StringIO)
    assert "torch_compile" in console.file.getvalue()
    assert "1.10" in console.file.getvalue()


def test_suites_without_a_ceiling_are_listed_plainly() -> None:
    row = replace(ROW, suite="host", problem="add", ceiling_us=None, pct_ceiling=None)
    (table,) = tables([row])
    assert table.lines == (("add 8192x1024", "warpsmith", "20.0"),)


def test_failures_are_listed_with_their_reason() -> None:
    failed = replace(ROW, impl="torch", us=None, pct_ceiling=None, error="out of memory")
    table = tables([ROW, failed])[-1]
    assert table.heading == "failed"
    assert table.lines == (("silu_mul 8192x1024 float", "torch", "out of memory"),)
