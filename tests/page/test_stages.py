"""Stages are told by the barriers of a kernel, as the events of its run name them."""

from typing import Any

import pytest

from pages.examples import RING_SHAPE, planned, scheduled_ring
from warpsmith.kernel.kernel import Kernel
from warpsmith.page.stages import Fill, barrier_places, fills


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return planned(scheduled_ring(), [RING_SHAPE]).launches[0].compiled.kernel


def met(*addresses: int) -> list[dict[str, Any]]:
    return [{"args": {"mbarrier": hex(address)}} for address in addresses]


def over(address: int, phase: int, at: int) -> dict[str, Any]:
    return {"cat": "phase", "name": f"mbarrier {hex(address)} phase {phase}", "ts": at}


def test_the_lowest_barrier_is_the_lowest_address(kernel: Kernel) -> None:
    places = barrier_places(met(0x400), kernel)
    assert places[0x400] == ("ring0_full", 0)
    assert places[0x408] == ("ring0_full", 1)
    assert sorted(places.values()) == [
        (name, stage) for name in ("ring0_empty", "ring0_full") for stage in range(3)
    ]


def test_a_stage_is_full_until_it_is_given_back(kernel: Kernel) -> None:
    places = barrier_places(met(0x400), kernel)
    at = {place: address for address, place in places.items()}
    events = [
        over(at["ring0_full", 1], 0, 25),
        over(at["ring0_full", 0], 0, 20),
        over(at["ring0_empty", 0], 0, 30),
        over(at["ring0_full", 0], 1, 40),
    ]
    assert fills(events, places, kernel) == {
        "ring0": (Fill(0, 0, 20, 30), Fill(1, 0, 25, None), Fill(0, 1, 40, None))
    }


def test_events_of_another_kernel_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="at any mbarrier"):
        barrier_places([], kernel)
    with pytest.raises(ValueError, match="elsewhere than"):
        barrier_places(met(0x400, 0x10000), kernel)
