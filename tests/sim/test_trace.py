"""Timelines: what is in them, and that they fit together."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.sim.support.catalog import read_ptx, read_spec
from tests.sim.support.corpus import BUGS
from tests.sim.support.small import ADD_ONE, add_one_spec
from warpsmith import sim
from warpsmith.errors import SimulationError

PHASES, COPIES = 1000, 1001
Events = list[dict[str, Any]]


def trace_of(ptx: str, spec: Any, folder: Path) -> Events:
    sim.run(ptx, spec, schedules=1, trace=folder / "trace.json")
    content = json.loads((folder / "trace.json").read_text())
    assert content["otherData"]["events_lost"] == 0
    events: Events = content["traceEvents"]
    return events


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """ws_ring: two CTAs, a producer warp and four consumers."""
    return trace_of(read_ptx("ws_ring"), read_spec("ws_ring"), tmp_path_factory.mktemp("trace"))


def test_a_process_a_cta_and_a_track_a_warp(ring: Events) -> None:
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in ring if e["name"] == "thread_name"}
    warps = read_spec("ws_ring")["block"][0] // 32
    for cta in (0, 1):
        assert [names[cta, warp] for warp in range(warps)] == [f"warp {w}" for w in range(warps)]
        assert names[cta, PHASES] == "phases completed"
        assert names[cta, COPIES] == "copies in flight"
    processes = [e["args"]["name"] for e in ring if e["name"] == "process_name"]
    assert processes == ["CTA 0 (0, 0, 0)", "CTA 1 (1, 0, 0)"]


def test_spans_of_a_warp_follow_each_other(ring: Events) -> None:
    for track in {(e["pid"], e["tid"]) for e in ring if e["ph"] == "X"}:
        spans = [e for e in ring if e["ph"] == "X" and (e["pid"], e["tid"]) == track]
        ends = [e["ts"] + e["dur"] for e in spans]
        assert all(e["ts"] >= end for e, end in zip(spans[1:], ends, strict=False))
        assert all(e["dur"] > 0 for e in spans)


def test_waits_are_named_by_what_they_wait_for(ring: Events) -> None:
    waits = Counter(e["name"].rsplit(" ", 1)[0] for e in ring if e.get("cat") == "wait")
    assert waits["waits for barrier 0 generation"] > 0
    assert sum(n for name, n in waits.items() if name.startswith("waits for mbarrier 0x")) > 8
    (first, *_) = [e for e in ring if e.get("cat") == "wait" and "mbarrier" in e["name"]]
    assert first["args"]["text"].startswith("mbarrier.try_wait")
    assert "ptx.cuh" in first["args"]["source"]


def test_copies_begin_before_they_land_and_complete_a_phase(ring: Events) -> None:
    copies = [e for e in ring if e.get("cat") == "copy"]
    begins = {e["id"]: e for e in copies if e["ph"] == "b"}
    ends = {e["id"]: e for e in copies if e["ph"] == "e"}
    assert begins.keys() == ends.keys()
    assert all(begins[each]["ts"] < ends[each]["ts"] for each in begins)
    phases = {(e["pid"], e["name"].split()[1]) for e in ring if e.get("cat") == "phase"}
    assert {(e["pid"], e["args"]["mbarrier"]) for e in begins.values()} <= phases
    assert {e["args"]["bytes"] for e in begins.values()} == {4096}


def test_arrivals_fill_phases_and_nobody_finds_a_phase_over_before_it_is(ring: Events) -> None:
    def place(event: dict[str, Any]) -> tuple[int, str, int]:
        return event["pid"], event["args"]["mbarrier"], event["args"]["phase"]

    over = {
        (e["pid"], e["name"].split()[1], int(e["name"].split()[3])): e["ts"]
        for e in ring
        if e.get("cat") == "phase" and e["name"].startswith("mbarrier")
    }
    arrivals = [e for e in ring if e.get("cat") == "arrival"]
    found = [e for e in ring if e.get("cat") == "over" and e["args"]["phase"] >= 0]
    assert {place(e) for e in arrivals} == over.keys()
    assert all(e["ts"] <= over[place(e)] for e in arrivals)
    assert all(e["ts"] >= over[place(e)] for e in found)
    assert {e["tid"] for e in found} <= set(range(read_spec("ws_ring")["block"][0] // 32))


def test_a_wait_ends_where_a_phase_is_found_over(ring: Events) -> None:
    found = {(e["pid"], e["tid"], e["ts"]) for e in ring if e.get("cat") == "over"}
    waits = [e for e in ring if e.get("cat") == "wait" and "mbarrier" in e["name"]]
    assert waits
    assert all((e["pid"], e["tid"], e["ts"] + e["dur"]) in found for e in waits)


def test_a_deadlock_shows_who_waits_for_ever(tmp_path: Path) -> None:
    bug = next(bug for bug in BUGS if bug.name == "ring/silent_warp")
    events = trace_of(bug.ptx(), next(iter(bug.specs())), tmp_path)
    stuck = [e for e in events if e["name"].endswith(", for ever")]
    assert {e["tid"] for e in stuck} == {0, 1, 2, 3, 4}
    assert "waits for mbarrier 0xb98 phase 0, for ever" in {e["name"] for e in stuck}


def test_groups_have_names_too(tmp_path: Path) -> None:
    names = {e["name"] for e in trace_of(read_ptx("cp_async"), read_spec("cp_async"), tmp_path)}
    assert "waits for cp.async groups" in names
    names = {e["name"] for e in trace_of(read_ptx("tma_store"), read_spec("tma_store"), tmp_path)}
    assert "waits for bulk groups" in names


def test_nothing_changes_by_being_watched(tmp_path: Path) -> None:
    plain = sim.run(read_ptx("ws_ring"), read_spec("ws_ring"), schedules=1)
    traced = sim.run(
        read_ptx("ws_ring"), read_spec("ws_ring"), schedules=1, trace=tmp_path / "t.json"
    )
    assert plain.stats == traced.stats


def test_a_timeline_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="cannot be written"):
        sim.run(ADD_ONE, add_one_spec(), trace=tmp_path / "gone" / "trace.json")
