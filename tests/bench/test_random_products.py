"""The bench of products of random sizes, as far as it needs no GPU."""

from pathlib import Path
from typing import Any

from bench import random_products as bench
from bench.product_report import is_bad, summary
from bench.products import Case
from warpsmith import knobs


def test_sizes_are_the_same_for_a_seed_and_of_all_kinds() -> None:
    cases = bench.drawn(3, 60)
    assert cases == bench.drawn(3, 60) != bench.drawn(4, 60)
    assert {(c.a_fast, c.b_fast) for c in cases} == {("k", "k"), ("k", "n"), ("m", "k"), ("m", "n")}
    assert {c.dtype for c in cases} == {c.out for c in cases} == {"bfloat16", "half"}
    for case in cases:
        assert case.m % 8 == case.n % 8 == case.k % 8 == 0
        assert min(case.m, case.n, case.k) >= 64
        assert max(case.m, case.n) <= 8192


def test_odd_cases_are_of_every_kind() -> None:
    cases = bench.drawn_odd(3, 300)
    assert cases[:9] == bench.drawn_odd(3, 9) != bench.drawn_odd(4, 9)
    assert {(c.a_fast, c.b_fast) for c in cases} == {(a, b) for a in "km" for b in "kn"}
    assert {c.k % 8 for c in cases} == set(range(8))
    assert {bool(c.batch) for c in cases} == {c.shared for c in cases} == {False, True}
    assert {c.out for c in cases} == {"bfloat16", "half", "float"}
    sizes = [size for c in cases for size in (c.m, c.n, c.k)]
    assert min(sizes) >= bench.ODD_LEAST
    assert bench.MOST // 2 < max(sizes) <= bench.MOST


def test_candidates_are_compiled_without_a_gpu(tmp_path: Path) -> None:
    case = Case(m=72, n=64, k=136, a_fast="m", b_fast="n", dtype="half", out="half")
    with knobs.scope(cache_dir=tmp_path):
        same, ways, took = bench.compiled(case, 2, "h200")
    assert same == case
    assert [us for _, us in ways] == sorted(us for _, us in ways)
    assert len(ways) == 2
    assert ways[0][0] != ways[1][0]
    assert took > 0


def test_kernels_that_lack_a_pass_are_compiled_too(tmp_path: Path) -> None:
    """And candidates of other kinds, the best of each."""
    case = Case(m=72, n=64, k=136, a_fast="m", b_fast="n", dtype="half", out="half")
    with knobs.scope(cache_dir=tmp_path):
        bench.compiled(case, 1, "h200")
        before = len(list(tmp_path.rglob("*.*")))
        bench.compiled(case, 1, "h200", without=("prefetch_maps",))
        after = len(list(tmp_path.rglob("*.*")))
        _, ways, _ = bench.compiled(case, 3, "h200", other_kinds=True)
    assert after > before
    kinds = {(p.swapped, p.tile[0], p.lines, p.splits, p.cluster) for p, _ in ways}
    assert len(kinds) == len(ways) == 3


def test_products_of_floats_are_drawn_and_compiled_too(tmp_path: Path) -> None:
    (case,) = bench.drawn(3, 1, ("float",))
    assert case.dtype == case.out == "float"
    with knobs.scope(cache_dir=tmp_path):
        _, ways, _ = bench.compiled(bench.said("72x136x64:kn", "float"), 2, "h200")
    first, second = (bench.words_of(params) for params, _ in ways)
    assert first.startswith("32x32x32, 256 threads")
    assert first != second


def test_a_size_that_is_said() -> None:
    assert bench.said("88x1720x13280:mn") == Case(m=88, n=1720, k=13280, a_fast="m", b_fast="n")
    assert bench.said("64x88x24x136") == Case(batch=64, m=88, n=24, k=136)
    cubes = [c for c in map(bench.said, bench.FIXED) if not c.batch and c.m == c.n == c.k]
    assert len({(c.m, c.a_fast, c.b_fast) for c in cubes}) == len(cubes) == 12


def row(contender: str, us: float, cublas: float, **more: Any) -> dict[str, Any]:
    ours = {"short": "A", "predicted": 9.0} if contender not in bench.PEERS else {}
    times = {"us": us, "cublas_us": cublas, "ratio": cublas / us}
    return {"title": f"of {cublas}", "contender": contender, **ours, **times, **more}


def test_what_is_bad() -> None:
    assert not is_bad(row("chosen", 10.0, 9.0))
    assert is_bad(row("chosen", 30.0, 9.0))
    assert not is_bad(row("quack", 30.0, 9.0))
    assert is_bad({"contender": "next 1", "short": "B", "failed": "wrong: 9"})


def test_what_all_sizes_come_to() -> None:
    wrong = {"title": "w", "contender": "next 1", "short": "B", "failed": "wrong: 9"}
    first = [row("chosen", 12.0, 9.0), row("next 1", 10.0, 9.0), row("quack", 18.0, 9.0)]
    told = summary([first, [row("chosen", 10.0, 12.0), wrong]]).splitlines()
    assert told[0] == (
        "chosen: 2 sizes, geometric mean 0.949 of cuBLAS, a tenth below 0.750, least 0.750"
    )
    assert told[1].startswith("quack: 1 sizes, geometric mean 0.500")
    assert told[2] == "  of 9.0: chosen 12.0 us, cuBLAS 9.0, 0.750, 9.0 predicted, A"
    assert "the choice takes 1.200 x the best one's time, at worst 1.200 x" in told[4]
    assert told[-2:] == ["1 failed or wrong", "w: next 1: wrong: 9"]
