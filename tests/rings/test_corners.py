"""Circular buffers where sizes, types, threads or addresses are out of the ordinary."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.lowering import lowered
from tests.support.ring_cases import CASES, Case
from tests.support.ring_loads import INTO_SHARED, Kind, Ring, bind_last, split_threads
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import ArgumentError, ScheduleError
from warpsmith.ir.tensor import TensorView
from warpsmith.targets.hopper import H200

Array = np.ndarray


def run_clean(fd: FusionDefinition, inputs: list[Array]) -> Array:
    """The result of the schedule, after several orders of warps and copies found nothing."""
    (result,) = fd.manual_execute(inputs)
    verification = fd.verify(inputs, schedules=3)
    assert verification.verdict == "clean", str(verification)
    return result


def random_array(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(-2, 2, shape).astype(np.float32)


def tiled(
    ring: Ring,
    define: Callable[[FusionDefinition], tuple[TensorView, TensorView]],
    *,
    tile: int = 64,
    threads: int = 32,
) -> FusionDefinition:
    """Tiles of one dimension, each read by other threads than loaded it."""
    with FusionDefinition() as fd:
        x, y = define(fd)
        fd.add_output(y)
    load = ring.load(x)
    y.split(0, tile)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    ring.bind(load, threads, adjacent=tile // threads)
    rest = [t for t in fd.fusion.tensors if not t.is_input and t is not load]
    split_threads(threads, *rest)
    fd.sched.inline_most([t for t in rest if t is not y])
    return fd


def doubled(
    extent: int = -1, dtype: DataType = DataType.Float
) -> Callable[[FusionDefinition], tuple[TensorView, TensorView]]:
    """Defines an input, and its double as a Float."""

    def define(fd: FusionDefinition) -> tuple[TensorView, TensorView]:
        x = fd.define_tensor([extent], True, dtype)
        wide = x if dtype is DataType.Float else fd.ops.cast(x, DataType.Float)
        return x, wide * 2.0

    return define


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_to_load(case: Case) -> None:
    for kind in (case.kinds[0], case.kinds[-1]):
        inputs = case.inputs(0, seed=0)
        case.check(run_clean(case.schedule(Ring(kind, 4, 3)), inputs), inputs)


@pytest.mark.few(5)
@pytest.mark.parametrize("extent", [32, 64, 96, 640])
@pytest.mark.parametrize("kind", list(Kind))
def test_sizes_that_are_known(kind: Kind, extent: int) -> None:
    """One tile needs no loop; a few more would be unrolled if nothing turned them."""
    x = random_array(extent)
    fd = tiled(Ring(kind, 4, 2), doubled(extent), tile=32)
    np.testing.assert_array_equal(run_clean(fd, [x]), 2 * x)


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.int32, np.float64])
@pytest.mark.parametrize("kind", list(Kind))
def test_elements_of_one_to_eight_bytes(kind: Kind, dtype: type) -> None:
    names = {np.bool_: "Bool", np.float16: "Half", np.int32: "Int32", np.float64: "Double"}
    x = np.random.default_rng(0).integers(0, 2, 777).astype(dtype)
    fd = tiled(Ring(kind, 4, 2), doubled(dtype=DataType[names[dtype]]))
    np.testing.assert_array_equal(run_clean(fd, [x]), 2 * x.astype(np.float32))


@pytest.mark.few(6)
@pytest.mark.parametrize("threads", [1, 20, 48])
@pytest.mark.parametrize("kind", list(Kind))
def test_warps_that_are_not_full(kind: Kind, threads: int) -> None:
    x = random_array(2100)
    fd = tiled(Ring(kind, 4, 2), doubled(), tile=4 * threads, threads=threads)
    np.testing.assert_array_equal(run_clean(fd, [x]), 2 * x)


@pytest.mark.few(5)
@pytest.mark.parametrize("lead", [1, 2])
@pytest.mark.parametrize("extent", [64, 1001, 1002])
@pytest.mark.parametrize("kind", INTO_SHARED)
def test_addresses_that_tma_cannot_take(kind: Kind, extent: int, lead: int) -> None:
    """One kernel serves both, aligned arrays and others."""
    fd = tiled(Ring(kind, 4, 2), doubled())
    whole = random_array(extent + lead)
    for x in (whole[lead:], whole[lead:].copy()):
        np.testing.assert_array_equal(run_clean(fd, [x]), 2 * x)


@pytest.mark.few(5)
@pytest.mark.parametrize("beside", INTO_SHARED)
@pytest.mark.parametrize("kind", list(Kind))
def test_a_load_without_stages_in_the_loop_of_a_ring(kind: Kind, beside: Kind) -> None:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1], True) for _ in range(2))
        z = x + y
        fd.add_output(z)
    ring = Ring(kind, 4, 2)
    loads = [ring.load(x), y.cache_after(op_type=beside.op_type)]
    loads[1].set_memory_type(MemoryType.shared)
    z.split(0, 128)
    fd.sched.transform_like(z)
    fd.sched.inline_at(z, 1, selected_tensors=loads)
    ring.bind(loads[0], 64, adjacent=2)
    Ring(beside, 2, 1).bind(loads[1], 64, adjacent=2)
    split_threads(64, z)
    inputs = [random_array(777), random_array(777)[::-1].copy()]
    np.testing.assert_array_equal(run_clean(fd, inputs), inputs[0] + inputs[1])


@pytest.mark.parametrize("kind", INTO_SHARED)
def test_an_input_that_two_rings_of_loops_after_each_other_bring(kind: Kind) -> None:
    """Rows less their sums; a row is loaded again for the second pass over it."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        total = fd.ops.sum(x, [1])
        y = x - fd.ops.broadcast(total, [False, True])
        fd.add_output(y)
    ring = Ring(kind, 3, 2)
    loads = []
    for reader in (total, y):
        loads.append(x.cache_after(op_type=kind.op_type, cached_uses=[reader]))
        loads[-1].set_memory_type(MemoryType.shared)
        loads[-1].circular_buffer(3, 2)
    for tensor in (total, y, *loads):
        tensor.split(1, 64)
    for tensor in (total, y):
        tensor.split(2, 32)
    bind_last(ParallelType.block_x, total, y)
    parts = total.rfactor([1, 2])
    made = [t for t in fd.fusion.tensors if not t.is_input and t is not y and t not in loads]
    fd.sched.inline_at(y, 1, selected_tensors=made)
    for load, reader in zip(loads, (parts, y), strict=True):
        fd.sched.inline_at(reader, 2, selected_tensors=[load])
        ring.bind(load, 32)
    data = random_array(5, 300)
    wanted = data - data.astype(np.float64).sum(1, keepdims=True)
    np.testing.assert_allclose(run_clean(fd, [data]), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("tile", "by_tensor_map"), [(16, False), (32, True)])
def test_boxes_in_a_stage_that_are_shorter_than_their_alignment(
    tile: int, by_tensor_map: bool
) -> None:
    """The second of two boxes of 64 bytes would lie where no tensor copy can write."""
    with FusionDefinition() as fd:
        x, y = doubled()(fd)
        fd.add_output(y)
    ring = Ring(Kind.tma, 4, 2)
    load = ring.load(x)
    y.split(0, tile)
    y.split(0, 2)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    ring.bind(load, tile)
    split_threads(16, y)
    text = cuda_text(lowered(fd), H200)
    assert ("ws_tensor_load(T2" in text) is by_tensor_map
    data = random_array(777)
    np.testing.assert_array_equal(run_clean(fd, [data]), 2 * data)


def test_register_rings_of_stages_that_do_not_divide_each_other() -> None:
    """The loop is written out until both stages are known: no register is indexed at run time."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1], True, DataType.Float) for _ in range(2))
        z = fd.ops.add(x, y)
        fd.add_output(z)
        caches = [x.cache_after(), y.cache_after()]
        z.split(-1, 64)
        fd.sched.transform_like(z)
        z.axis(-1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(z)
        fd.sched.inline_at(z, 1)
        for stages, cache in enumerate(caches, 3):
            cache.circular_buffer(stages)
    generator = np.random.default_rng(7)
    for extent in (1, 64, 1000, 3001):
        inputs = [generator.standard_normal(extent).astype(np.float32) for _ in range(2)]
        np.testing.assert_array_equal(fd.manual_execute(inputs)[0], inputs[0] + inputs[1])
    text = cuda_text(lowered(fd), H200)
    assert "i0s = 0; i0s < 12" in text


def in_parts(part: int | None) -> FusionDefinition:
    """Boxes of 16 halves, in parts of so many, or of a number that each call gives."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, DataType.Half)
        y = fd.ops.add(x, x)
        fd.add_output(y)
        factor = part or fd.define_scalar(DataType.Int)
    copy = x.cache_after(op_type=LoadStoreOpType.tma)
    copy.set_memory_type(MemoryType.shared)
    between = y.cache_before()
    y.split(0, factor)
    y.split(1, 16)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 2, selected_tensors=[copy, between])
    copy.axis(-1).parallelize(ParallelType.tma)
    y.axis(0).parallelize(ParallelType.grid_x)
    y.axis(-1).parallelize(ParallelType.block_x)
    fd.sched.parallelize_like(y)
    fd.sched.inline_most()
    return fd


def test_boxes_that_begin_at_no_multiple_of_16_bytes() -> None:
    """The TMA unit takes none: the threads copy them, in every call or where numbers ask for it."""
    x = np.arange(320).astype(np.float16)
    said = in_parts(20)
    np.testing.assert_array_equal(run_clean(said, [x]), x + x)
    assert "tiles of T0 do not start and end at multiples of 16 bytes" in said.explain()
    asked = in_parts(None)
    for part in (32, 20, 16, 48, 999):
        np.testing.assert_array_equal(run_clean(asked, [x, part]), x + x)
        assert ("is copied by the threads" in asked.explain()) == (part % 8 != 0)


@pytest.mark.parametrize("part", [0, -3])
def test_a_loop_in_parts_of_nothing_is_refused(part: int) -> None:
    with pytest.raises(ArgumentError, match=rf"WS0318. argument 1 \(S0\) is {part}, and must be 1"):
        in_parts(None).manual_execute([np.ones(8, np.float16), part])


def test_a_loop_in_parts_of_a_fraction_is_refused() -> None:
    with FusionDefinition() as fd:
        y = fd.ops.exp(fd.define_tensor([-1], True))
        with pytest.raises(
            ScheduleError, match="WS0204. split factor S0 of T1 axis 0 is below 1 or"
        ):
            y.split(0, fd.define_scalar(DataType.Double))
