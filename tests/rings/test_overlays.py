"""Rings of loops that follow each other have the same bytes of shared memory, barriers included."""

import re
from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.exp_rings import exponentials
from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.codegen.cuda import cuda_text
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import layout_of
from warpsmith.targets.hopper import H200

BULK, TMA, CP_ASYNC = LoadStoreOpType.bulk, LoadStoreOpType.tma, LoadStoreOpType.cp_async
TILE, THREADS = 256, 64


def chains(loads: Sequence[LoadStoreOpType], stages: Sequence[int]) -> FusionDefinition:
    return exponentials(*zip(loads, stages, strict=True), tile=TILE, threads=THREADS)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("loads", "stages"),
    [
        ((TMA, BULK), (3, 2)),
        ((BULK, TMA), (2, 5)),
        ((BULK, BULK, BULK), (3, 2, 5)),
        ((TMA, TMA, BULK, TMA), (2, 2, 4, 3)),
        ((BULK, CP_ASYNC, TMA), (3, 4, 2)),
    ],
)
def test_chains_are_right_and_clean(
    loads: tuple[LoadStoreOpType, ...], stages: tuple[int, ...]
) -> None:
    fd = chains(loads, stages)
    generator = np.random.default_rng(len(loads))
    for sizes in ((1000, 2012, 516, 60), (4, 256, 1024, 3000)):
        inputs = [generator.standard_normal(n).astype(np.float32) for n in sizes[: len(loads)]]
        for result, x in zip(fd.manual_execute(inputs), inputs, strict=True):
            np.testing.assert_allclose(result, np.exp(x.astype(np.float64)), rtol=1e-5)
    assert fd.verify(inputs, schedules=8).verdict == "clean"


def test_the_largest_chain_decides_the_bytes() -> None:
    kernel = lowered(chains((BULK, BULK), (3, 2)).fusion)
    stages, barriers = 3 * TILE * 4, 2 * 3 * 8
    assert stages + barriers <= evaluate(layout_of(kernel).bytes, {}) <= stages + barriers + 64


def test_barriers_whose_bytes_are_taken_end_between_two_meetings() -> None:
    """Nobody may still arrive at them, and nothing may land there before they are gone."""
    text = cuda_text(lowered(chains((BULK,) * 3, (3, 2, 5)).fusion), H200)
    body = text[text.index('extern "C"') :]
    ends = [match.start() for match in re.finditer(r"ws_barrier_end\(", body)]
    assert ends
    for end in ends:
        before, after = body[:end], body[end:]
        assert "give up their memory" in before[before.rindex("__syncthreads") :].splitlines()[0]
        assert after.index("ws_fence_async") < after.index("__syncthreads")
        assert after.index("__syncthreads") < after.index("ws_bulk_load")


def test_rings_of_one_loop_keep_bytes_of_their_own() -> None:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1], True, DataType.Float) for _ in range(2))
        z = fd.ops.add(x, y)
        fd.add_output(z)
        caches = [t.cache_after(op_type=BULK) for t in (x, y)]
        z.split(-1, TILE)
        fd.sched.transform_like(z, caches)
        for count, cache in enumerate(caches, 2):
            cache.set_memory_type(MemoryType.shared)
            fd.sched.inline_at(z, 1, selected_tensors=[cache])
            cache.circular_buffer(count)
            cache.axis(-1).parallelize(ParallelType.tma)
        z.split(-1, THREADS)
        z.axis(-1).parallelize(ParallelType.block_x)
    kernel = lowered(fd)
    assert not kernel.offsets
    assert evaluate(layout_of(kernel).bytes, {}) >= (2 + 3) * TILE * 4
