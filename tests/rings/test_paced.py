"""Rings whose fills keep an interval: where the clock is asked, and what it does not order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.protocol.edits import edited, instead, refused
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind, Ring
from tests.support.ring_maps import outer_loop, single_dim_1, vector_reads
from tests.support.tiling import run_clean, text_of
from warpsmith import FusionDefinition, sim
from warpsmith.codegen.prelude import prelude_text
from warpsmith.errors import ScheduleError
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import walk
from warpsmith.protocol import check
from warpsmith.protocol.sizes import symbols_of
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.schedule.roles import set_role
from warpsmith.targets.hopper import H200

INTERVAL = 700
TMA = (Kind.bulk, Kind.tma)
Schedule = Callable[[Ring], FusionDefinition]


def paced(schedule: Schedule, ring: Ring, interval: int = INTERVAL) -> FusionDefinition:
    """The schedule with an interval for what it loads through stages."""
    fd = schedule(ring)
    for tensor in fd.fusion.tensors:
        if tensor.buffering is not None:
            tensor.buffering = replace(tensor.buffering, interval=interval)
    return fd


@pytest.mark.parametrize("kind", TMA)
@pytest.mark.parametrize("schedule", [single_dim_1, outer_loop, vector_reads])
def test_fills_of_the_loop_wait_for_their_time_and_the_first_ones_do_not(
    schedule: Schedule, kind: Kind
) -> None:
    fd = paced(schedule, Ring(kind, 4, 3))
    kernel = lowered(fd)
    waits = [s for s in walk(kernel.body) if isinstance(s, AwaitClock)]
    assert {wait.nanoseconds for wait in waits} == {INTERVAL}
    assert sum(isinstance(s, StartClock) for s in walk(kernel.body)) == 1
    code = text_of(fd)
    lines = [line.strip() for line in code.splitlines() if "ws_await_clock" in line]
    assert len(lines) == len(waits)
    loop = lines[0].split(", ")[1]  # the filled iteration less those that are ahead of it
    assert lines[0] == f"ws_await_clock(ws_began, {loop}, {INTERVAL});"
    assert f"for (int {loop} = 0" in code
    assert code.index("ws_began =") < code.index(f"for (int {loop}p = 0") < code.index(lines[0])
    text = kernel_text(kernel)
    assert f"await {loop} times {INTERVAL} ns on the clock" in text
    assert text.index("start the clock") < text.index(" ns on the clock")


@pytest.mark.parametrize("kind", TMA)
def test_without_an_interval_nobody_asks_the_clock(kind: Kind) -> None:
    assert text_of(paced(single_dim_1, Ring(kind, 4, 3), 0)) == text_of(
        single_dim_1(Ring(kind, 4, 3))
    )
    assert "clock" not in text_of(single_dim_1(Ring(kind, 4, 3)))


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", TMA)
@pytest.mark.parametrize("stages", [2, 5])
@pytest.mark.parametrize("size", [1, 96, 1000])
def test_results_and_order_are_those_of_other_rings(kind: Kind, stages: int, size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    (found,) = run_clean(paced(single_dim_1, Ring(kind, stages, stages - 1), 50), [x])
    np.testing.assert_array_equal(found, 2 * x)


def test_the_clock_takes_the_place_of_no_wait() -> None:
    """A stage may be in use however late it is."""
    kernel = lowered(paced(vector_reads, Ring(Kind.bulk, 3, 2)))
    sizes = dict.fromkeys(symbols_of(kernel), 3000)
    check(kernel, sizes, target=H200)
    clock = next(s for s in walk(kernel.body) if isinstance(s, AwaitClock))
    broken = edited(kernel, instead(Await, lambda _: clock, barrier="ring0_empty"))
    refused(broken, sizes, "WS0903")


@pytest.mark.parametrize(("times", "nanoseconds"), [(0, 9), (-3, 9), (4, 300), (1, 5000)])
def test_so_much_time_is_over_behind_a_wait(times: int, nanoseconds: int) -> None:
    text = (
        prelude_text(["clock"])
        + f"""
extern "C" __global__ void k(long long* out) {{
    const unsigned long long began = ws_nanoseconds();
    ws_await_clock(began, {times}, {nanoseconds});
    if (threadIdx.x == 0) out[0] = ws_nanoseconds() - began;
}}
"""
    )
    ptx = compile_source(Source(text=text, entry="k", arch="sm_90a")).ptx
    spec = {
        "grid": [1],
        "block": [32],
        "buffers": {"out": {"dtype": "int64", "shape": [1], "init": "zeros"}},
        "params": [{"ptr": "out"}],
        "outputs": ["out"],
    }
    report = sim.run(ptx, spec, schedules=1)
    assert report.verdict == "clean", str(report)
    waited = int(report.arrays["out"][0])
    assert max(0, times) * nanoseconds <= waited <= max(0, times) * nanoseconds + 500


@pytest.mark.parametrize("interval", [-1, 2**31, 1.5, True])
def test_what_is_no_number_of_nanoseconds_is_refused(interval: object) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(x * 2.0)
    load = x.cache_after(op_type=Kind.bulk.op_type)
    with pytest.raises(ScheduleError, match=f"WS0238.*interval {interval!r} of T"):
        load.circular_buffer(3, interval=interval)  # type: ignore[arg-type]
    assert load.buffering is None


@pytest.mark.parametrize("kind", [Kind.registers, Kind.shared, Kind.cp_async])
def test_threads_keep_no_interval(kind: Kind) -> None:
    with pytest.raises(ScheduleError, match="WS0238"):
        lowered(paced(single_dim_1, Ring(kind, 4, 3)))


def test_roles_keep_no_interval() -> None:
    """Even one that is given its role later."""
    fd = paced(single_dim_1, Ring(Kind.bulk, 4, 3))
    (load,) = (t for t in fd.fusion.tensors if t.buffering is not None)
    set_role(load, "load")
    with pytest.raises(ScheduleError, match="WS0238.*the role `load`"):
        lowered(fd)
