"""What passes through memory lies as what it is made of, and is read where it is."""

import numpy as np

import warpsmith
from tests.support.binaries import uncompiled
from warpsmith import DataType, FusionDefinition, ops
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.ir.graph import Graph
from warpsmith.planner.orders import inherited_formats

SHAPE = (8, 128, 64, 64)


def images(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Of 16-bit numbers, with channels last."""
    batch, channels, *area = shape
    return np.moveaxis(np.empty((batch, *area, channels), np.float16), -1, 1)


def called(program: object, *arrays: np.ndarray) -> CallPlan:
    with uncompiled():
        return Executable(warpsmith.fuse(program).lower(*arrays).fusion).plan_for(arrays)  # type: ignore[arg-type]


def norm_gradient(x, dy, scale):  # type: ignore[no-untyped-def]
    """Gradients of a group norm of images, and the sum of that of the images by channels."""
    wide, given = (ops.reshape(ops.cast(t, DataType.Float), [8, 32, 4, 64, 64]) for t in (x, dy))
    sums = [ops.sum(t, [3, 4]) for t in (given, given * wide)]
    first, second = (
        ops.reshape(ops.sum(t, [2], keepdim=True) * 1e-4, [8, 32, 1, 1, 1]) for t in sums
    )
    dx = ops.reshape((given - first - wide * second) * scale, SHAPE)
    dx = ops.stride_order(ops.cast(dx, DataType.Half), (3, 0, 2, 1))
    by_channels = ops.sum(ops.cast(dx, DataType.Float), [0, 2, 3])
    return dx, by_channels, *(ops.sum(t, [0]) for t in sums)


def test_a_sum_of_what_a_kernel_writes_reads_it() -> None:
    scale = np.empty((8, 32, 1, 1, 1), np.float32)
    call = called(norm_gradient, images(), images(), scale)
    last = [p.segment.inputs for p in call.segments if len(p.segment.outputs) == 1]
    written = [name for p in call.segments for name in p.segment.outputs]
    assert [len(inputs) for inputs in last] == [1]
    assert last[0][0] in written


def test_what_is_stored_lies_as_what_it_is_made_of() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([2, 8, 3, 5], True, DataType.Float, stride_order=(3, 0, 2, 1))
        rows = fd.define_tensor([2, 8, 3, 5], True, DataType.Float)
        scale = fd.define_tensor([1, 8, 1, 1], True, DataType.Float)
        alike = fd.ops.mul(x, scale)
        apart = fd.ops.reshape(fd.ops.exp(alike), [2, 2, 4, 15])
        again = fd.ops.neg(fd.ops.reshape(apart, [2, 8, 3, 5]))
        joined = fd.ops.reshape(alike, [2, 24, 5])  # channels and rows, no longer side by side
        both = fd.ops.add(again, rows)
        fd.add_output(fd.ops.neg(both))
        fd.add_output(fd.ops.neg(joined))
    formats = inherited_formats(Graph.of(fd.fusion))
    orders = {t.number: f.stride_order for t in (alike, apart, again) for f in [formats[t.number]]}
    assert orders == {
        alike.number: (3, 0, 2, 1),
        apart.number: (3, 1, 0, 2),
        again.number: (3, 0, 2, 1),
    }
    assert not {both.number, joined.number} & formats.keys()
