"""The long run, cut short: counts stay within limits, and what it must notice is noticed."""

import sys
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from bench import on_device, soak
from bench.resident import MIB, Resident
from bench.soak import Device, Seen, grown, limits
from bench.soak_programs import Program
from warpsmith import knobs


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a few seconds reach."""
    few = {"kept_traces": 3, "kept_plans": 3, "kept_kernels": 2}
    monkeypatch.setattr(soak, "limits", lambda minutes: few)


def run(
    device: Device, minutes: float, threads: int, calls: int = sys.maxsize
) -> tuple[Seen, list[str]]:
    lines: list[str] = []
    with knobs.scope(**soak.limits(0)):
        before = warpsmith.cache_info()
        seen = soak.soak(
            minutes=minutes,
            threads=threads,
            device=device,
            seed=3,
            say=lines.append,
            calls=calls,
        )
        after = warpsmith.cache_info()
    assert not seen.wrong, seen.wrong[0]
    for name in ("traces", "plans") if device == "reference" else ("traces", "plans", "kernels"):
        assert after[name].made > before[name].made
        assert after[name].dropped > before[name].dropped
        assert after[name].entries <= after[name].limit, name
    return seen, lines


@pytest.mark.parametrize("device", ["reference", pytest.param("sim", marks=pytest.mark.slow)])
def test_counts_stay_within_limits(device: Device) -> None:
    seen, _ = run(device, 5.0, 4, calls=12 if device == "sim" else 60)
    assert sum(seen.calls) >= 12


def test_memory_is_sampled() -> None:
    seen, _ = run("reference", 0.02, 2)
    assert sum(seen.calls) > 5
    assert seen.process


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_memory_comes_to_rest(capsys: pytest.CaptureFixture[str]) -> None:
    seen, lines = run("sim", 2.0, 16)
    assert len(lines) >= 10
    assert not seen.problems(120)


def test_growth_is_noticed() -> None:
    seconds = [float(second) for second in range(60)]
    growing = [(500 + 8 * second) * MIB for second in range(60)]
    assert grown(seconds, growing, 60) > 100 * MIB
    filled = [min(500 + 40 * second, 900) * MIB for second in range(60)]
    assert grown(seconds, filled, 60) < 0
    assert grown(seconds[:3], growing[:3], 60) == 0
    seen = Seen(seconds=seconds, process=growing, device=filled)
    assert [problem[:31] for problem in seen.problems(60)] == ["the memory of the process grew "]


LISTING = "17, 812 MiB\n4, 500 MiB\n171, [N/A]\n17, 8 MiB\n"
"""Of two devices, as `nvidia-smi` prints it."""


def test_other_processes_on_the_device_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "_listing", lambda: LISTING)
    monkeypatch.setattr(on_device, "_whole", lambda: 5000 * MIB)
    for process, bytes_ in ((17, 820 * MIB), (4, 500 * MIB)):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        share = on_device.watched()
        assert (share.whose, share.bytes()) == (f"process {process} on the device", bytes_)
    for process in (171, 7):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        share = on_device.watched()
        assert share.bytes() == 5000 * MIB
        assert share.whose.startswith("the whole device")


def test_who_grew_on_the_device_is_named() -> None:
    seconds = [float(second) for second in range(60)]
    growing, flat = [(500 + 8 * second) * MIB for second in range(60)], [0] * 60
    seen = Seen(seconds=seconds, process=flat, device=growing, whose="process 17 on the device")
    (problem,) = seen.problems(60)
    assert problem.startswith("the memory of process 17 on the device grew by ")


def test_a_wrong_result_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(self: Program, x: Any, y: Any, *, which: int) -> Any:
        return x + which

    monkeypatch.setattr(Program, "__call__", off)
    monkeypatch.setattr(soak, "CHECKED", 1.0)
    seen = soak.soak(minutes=1.0, threads=2, device="reference", seed=0, say=print)
    assert seen.problems(60)
    assert "AssertionError: result 0 of " in seen.wrong[0]


def test_limits_shrink_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(30)["kept_plans"] == limits(90)["kept_plans"] == knobs.Knobs().kept_plans
    assert limits(3)["kept_plans"] == knobs.Knobs().kept_plans // 10
    assert limits(0.01)["kept_plans"] == 8


@pytest.mark.slow
def test_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    given = ["soak", "--minutes", "0.05", "--device", "reference", "--log", str(log)]
    monkeypatch.setattr("sys.argv", given)
    assert soak.main() == 0
    parts = [line.partition(": process ") for line in log.read_text().splitlines()]
    said = [name for name, found, _ in parts if found]
    assert said == ["the first sixth is over", "last quarter", "the end", "no program", "trimmed"]


def test_what_memory_consists_of_is_told_apart() -> None:
    before = Resident.now()
    small = [object() for _ in range(1_000_000)]
    objects = Resident.now()
    large = [b"x" * (1 << 16) for _ in range(400)]
    heap = Resident.now()
    assert 12 * MIB < objects.python - before.python < 20 * MIB
    assert objects.objects - before.objects >= len(small)
    assert abs(heap.python - objects.python) < MIB
    assert 24 * MIB < heap.heap - objects.heap < 28 * MIB
    del large[1::2]
    assert 10 * MIB < heap.heap - Resident.now().heap < 14 * MIB
