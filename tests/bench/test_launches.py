"""Products that are launched at drawn sizes: of every kind, and held against sums in float."""

import pytest
import torch

from bench import grouped
from bench import launches as bench
from bench.launches import MOST_WORK, Launch
from bench.products import ITEMS, Case


def test_sizes_are_the_same_for_a_seed_and_of_all_kinds() -> None:
    cases = bench.drawn(3, 400)
    assert cases[:20] == bench.drawn(3, 20) != bench.drawn(4, 20)
    plain = [each.case for each in cases if isinstance(each.case, Case)]
    assert {each.dtype for each in plain} == set(ITEMS) - {"float"}
    assert {(c.a_fast, c.b_fast) for c in plain} == {(a, b) for a in "km" for b in "kn"}
    assert max(max(c.batch, 1) * c.m * c.n * c.k for c in plain) <= MOST_WORK
    assert min(c.m for c in plain) < 4
    by_group = [each.case for each in cases if isinstance(each.case, grouped.Case)]
    assert len(by_group) == 40
    assert min(min(each.rows) for each in by_group) == 0
    assert 0 <= min(each.share for each in cases) < 0.01 < 0.9 < max(e.share for e in cases) < 1


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "case",
    [
        Case(m=72, n=40, k=72, a_fast="m", dtype="half", out="float"),
        grouped.Case(rows=(3, 0, 65), n=32, k=64, spare=2),
    ],
    ids=["plain", "grouped"],
)
def test_a_size_is_right(case: Case | grouped.Case) -> None:
    said, wrong = bench.launched(Launch(case=case, share=0.3), 2, device="cpu")
    assert not wrong
    assert said.startswith(("cooperative", "ping-pong"))


@pytest.mark.parametrize(
    ("dtype", "out"), [("bfloat16", "bfloat16"), ("tf32", "float"), ("e4m3", "float")]
)
def test_what_is_wrong_is_found(dtype: str, out: str) -> None:
    launch = Launch(case=Case(m=64, n=32, k=512, dtype=dtype, out=out), share=0)
    a, b = bench.given(launch, "cpu")
    right = (a.float() @ b.float()).to(torch.bfloat16 if out == "bfloat16" else torch.float32)
    assert bench.error(launch, right, (a, b)) <= 1
    lacking = right - (a[:, :16].float() @ b[:16].float()).to(right.dtype)
    assert bench.error(launch, lacking, (a, b)) > 1
    right[3, 5] = torch.nan
    assert bench.error(launch, right, (a, b)) == float("inf")
