"""The suite that times the protocol check: kernels that it proves, rows with limits."""

import math

from bench.protocol import measure_protocol
from bench.roles import SCHEDULES, streaming
from tests.bench.test_sim import SETTING
from warpsmith import DataType
from warpsmith.engine.proofs import prove
from warpsmith.lower.pipeline import lower
from warpsmith.targets.hopper import H200


def test_rows_have_times_and_limits() -> None:
    rows = measure_protocol(SETTING, quick=True)
    assert [row.problem for row in rows] == ["norm", "matmul"]
    assert [row.limit_us for row in rows] == [20e3, 50e3]
    assert all(row.us is not None and math.isfinite(row.us) and row.us > 0 for row in rows)


def test_every_streaming_schedule_keeps_its_protocol() -> None:
    sizes = {f"T{n}_size{d}": 3000 for n in range(3) for d in range(2)}
    for schedule in SCHEDULES:
        kernel = lower(streaming(schedule).fusion, "streaming", DataType.Int32, target=H200)
        producers = {pipeline.producer for pipeline in kernel.pipelines}
        assert len(producers - {"", "compute"}) == schedule.producers
        prove(kernel, sizes, H200)
