"""Roles of every kind, in every place that loops allow.

`make test` runs one kernel of a schedule of each kind, under a few orders of warps and copies;
`make test-all` runs all of them, every extent of the dimension that roles walk under sixteen.
"""

import hashlib
import zlib
from collections.abc import Iterator

import pytest

from tests.support.role_case import Case
from tests.support.role_cases import CASES
from tests.support.role_feeds import Feed

FEW_ORDERS, ALL_ORDERS = 3, 16


def kernels() -> Iterator[object]:
    """Parameters of the whole matrix, which is slow, and of one kernel of each schedule."""
    for case in CASES:
        chosen, *_ = sorted(case.feeds(), key=lambda feed: digest(case, feed))
        yield pytest.param(case, chosen, FEW_ORDERS, id=f"{case.name}-{chosen}-few")
        for feed in case.feeds():
            name = f"{case.name}-{feed}"
            yield pytest.param(case, feed, ALL_ORDERS, id=name, marks=pytest.mark.slow)


def digest(case: Case, feed: Feed) -> bytes:
    return hashlib.sha256(f"{case.name}-{feed}".encode()).digest()


@pytest.mark.few(2)
@pytest.mark.parametrize(("case", "feed", "orders"), list(kernels()))
def test_results(case: Case, feed: Feed, orders: int) -> None:
    fd = case.schedule(feed)
    for extent in case.extents:
        inputs = case.inputs(extent, seed=zlib.crc32(digest(case, feed)))
        case.check(fd.manual_execute(inputs), inputs, extent)
        if orders == ALL_ORDERS or extent in (case.extents[1], case.extents[-1]):
            verification = fd.verify(inputs, schedules=orders)
            assert verification.verdict == "clean", str(verification)


def test_names_differ() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
