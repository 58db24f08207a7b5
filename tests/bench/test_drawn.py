"""Rows of sizes that a seed said, and the README's table of them."""

from bench.drawn import drawn_rows, table
from bench.measure import Setting
from bench.products import Case
from bench.random_products import kept
from bench.row import Row

SETTING = Setting(gpu="NVIDIA H200", versions=(("torch", "2.11.0"),), date="2026-11-26")


def softmax(columns: int, **us: float) -> list[Row]:
    shape = (600, columns)
    given = {"chosen": 10.0, "#0 waves": 1.0, **us}
    return drawn_rows(
        "softmax", shape, "float", given, "chosen", seed=7, setting=SETTING, ceiling_us=9.0
    )


def test_rows_are_of_the_choice_and_of_peers() -> None:
    ours, peer = softmax(512, nvfuser=12.0)
    assert (ours.impl, ours.us, ours.pct_ceiling, ours.seed) == ("warpsmith", 10.0, 90.0, 7)
    assert (peer.impl, peer.us, peer.suite) == ("nvfuser", 12.0, "unseen")


def test_products_are_held_against_cublas() -> None:
    case = Case(m=64, n=72, k=80, a_fast="m", dtype="half")
    found = [
        {"contender": "chosen", "us": 10.0, "cublas_us": 8.0, "short": "64x64"},
        {"contender": "next 1", "us": 9.0, "cublas_us": 8.0, "short": "64x32"},
        {"contender": "chosen, less", "us": 9.5, "cublas_us": 8.0, "short": "64x64"},
        {"contender": "quack", "failed": "no such layout"},
    ]
    rows = kept(case, found, 7, SETTING)
    assert [(row.impl, row.us) for row in rows] == [("warpsmith", 10.0), ("cublas", 8.0)]
    assert {(row.suite, row.shape, row.dtype) for row in rows} == {
        ("unseen_products", (64, 72, 80), "mk half")
    }
    assert kept(case, [{"contender": "chosen", "failed": "a hang"}], 7, SETTING) == []


def test_the_table_says_what_a_tenth_is_below_and_the_least() -> None:
    rows = [row for columns in (512, 1024) for row in softmax(columns, nvfuser=12.0, torch=20.0)]
    rows += softmax(2048, chosen=20.0, nvfuser=10.0)
    head, rule, line, _, run = table(rows).splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    assert line == "| `softmax` | 3 | 71 | 54 | 45 | 0.90 | 0.64 | 0.50 | nvfuser, torch |"
    assert run == "`softmax`: NVIDIA H200, seed 7, 2026-11-26; torch 2.11.0."
