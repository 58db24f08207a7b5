"""Threads with several rows of the columns that they share: when, how, and that they are right."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import FusionDefinition, ops
from warpsmith.engine.executable import Executable
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.traversal import read, walk
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.pointwise import repeated
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200


def scaled(beside: Sequence[Sequence[int]], dtype: DataType = DataType.BFloat16) -> Candidate:
    """A tensor of three dimensions, plus inputs that have some of them."""
    p = Program()
    total = p.cast(p.input(dtype, (None, None, None)), DataType.Float)
    for dims in beside:
        given = p.input(DataType.Float, (None,) * len(dims))
        total = p.op("add", total, p.broadcast(given, [d not in dims for d in range(3)]))
    p.output(p.cast(total, dtype))
    return select(p.fusion, H200)


def chosen(candidate: Candidate, shape: tuple[int, int, int]) -> PointwiseParams:
    sizes: dict[str, int] = {}
    for tensor in candidate.fusion.input_tensors:
        dims = (
            range(3) if len(tensor.logical) == 3 else (0, 2) if len(tensor.logical) == 2 else (2,)
        )
        sizes |= {f"{tensor.name}_size{n}": shape[d] for n, d in enumerate(dims)}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, PointwiseParams)
    return params


@pytest.mark.parametrize(
    ("beside", "shape", "rows", "width"),
    [
        (((2,), (2,)), (32, 4096, 96), 4, 12),
        (((2,), (0, 2)), (32, 4096, 96), 4, 12),
        (((2,), (2,)), (8, 4096, 96), 2, 12),
        (((2,), (2,)), (8, 400, 96), 1, 0),
        (((2,), (2,)), (32, 4096, 8 * 127), 4, 32),
        (((0, 2), (0, 2)), (4096, 2, 8 * 128), 2, 128),
        (((0, 2), (0, 2)), (4096, 6, 8 * 128), 4, 64),
        (((0, 2), (0, 2)), (4096, 1, 8 * 128), 1, 0),
        (((0, 2), (0, 2)), (8396, 2, 8 * 533), 2, 96),
        (((0, 2), (0, 2)), (8396, 2, 8 * 13), 1, 0),
        (((2,),), (32, 4096, 96), 1, 0),
        (((2,), (2,)), (32, 4096, 99), 1, 0),
    ],
)
def test_threads_have_several_rows_where_those_share_more_than_they_are(
    beside: tuple[tuple[int, ...], ...], shape: tuple[int, int, int], rows: int, width: int
) -> None:
    params = chosen(scaled(beside), shape)
    assert (params.unroll, params.width) == (rows, width)


@pytest.mark.parametrize("beside", [((2,), (2,)), ((2,), (0, 2))])
def test_what_rows_share_is_loaded_once(beside: tuple[tuple[int, ...], ...]) -> None:
    candidate = scaled(beside)
    kernel: Kernel = lowered(candidate.scheduled(chosen(candidate, (32, 4096, 96))))
    loops = [loop for loop in walk(kernel.body) if isinstance(loop, For)]
    inside = {b.name for loop in loops for each in walk(loop.body) for b in read(each)}
    first, *others = (tensor.name for tensor in candidate.fusion.input_tensors)
    assert first in inside
    assert inside.isdisjoint(others)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "shape", [(3, 37, 96), (2, 5, 1016), (1, 130, 32), (5, 2, 64), (3, 9, 480)]
)
def test_results(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "BLOCKS_PER_SM", 0)
    monkeypatch.setattr(repeated, "BUSY", 0)
    rng = np.random.default_rng(shape[2])
    x = rng.standard_normal(shape).astype(np.float32)
    mean, scale = (rng.standard_normal((shape[0], shape[2])).astype(np.float32) for _ in range(2))
    weight = rng.standard_normal(shape[2]).astype(np.float32)

    @warpsmith.fuse
    def normal(x, mean, scale, weight):
        at, over = [False, True, False], [True, True, False]
        centred = (x - ops.broadcast(mean, at)) * ops.broadcast(scale, at)
        return centred * ops.broadcast(weight, over)

    with warpsmith.knobs.scope(device="sim"):
        found = normal(x, mean, scale, weight)
        said = str(normal.lower(x, mean, scale, weight).compile().explain())
        assert "width=" in said
        assert "width=0" not in said
    wide = (x.astype(np.float64) - mean[:, None]) * scale[:, None] * weight
    np.testing.assert_allclose(np.asarray(found), wide, rtol=1e-5, atol=1e-5)


def gated(rows: int, columns: int) -> tuple[FusionDefinition, list[np.ndarray[Any, Any]]]:
    """The gradients of a gated unit's halves side by side, of static sizes, and empty operands."""
    zero = np.zeros(1, ml_dtypes.bfloat16)
    shape, steps = (rows, columns), (4 * columns, 2)
    given = [np.lib.stride_tricks.as_strided(zero, shape, steps) for _ in range(3)]
    with FusionDefinition() as fd:
        inputs = (fd.from_pytorch(array, static_sizes=True) for array in given)
        gate, up, dy = (ops.cast(each, DataType.Float) for each in inputs)
        share = ops.sigmoid(gate)
        halves = dy * up * share * (1.0 + gate * (1.0 - share)), dy * gate * share
        first = ops.eq(fd.ops.iota(2, dtype=DataType.Int), 0)
        parts = [ops.broadcast(half, [False, True, False]) for half in halves]
        stacked = ops.where(ops.broadcast(first, [True, False, True]), *parts)
        fd.add_output(ops.cast(ops.reshape(stacked, [rows, 2 * columns]), DataType.BFloat16))
    return fd, given


def test_parts_that_are_read_as_one_row_are_computed_by_one_thread(uncompiled: list[str]) -> None:
    """A grouped product reads them so. Each place of the row had a thread of its own, which loaded
    and computed what both parts share: 470 us of a step, where the bytes take 275.
    """
    fd, given = gated(8192, 14336)
    call = Executable(fd.fusion).plan_for(given)
    (launch,) = call.launches
    assert isinstance(launch.params, PointwiseParams)
    assert (launch.params.unroll, launch.params.width) == (2, 128)
    kernel = launch.compiled.kernel
    assert [buffer.name for buffer in kernel.parameters][-1] == fd.fusion.outputs[0].value.name
    loops = [loop for loop in walk(kernel.body) if isinstance(loop, For)]
    over_parts = next(each for each in loops if integers.constant(each.symbol.extent) == 2)
    assert "sigmoid" in kernel_text(kernel)
    assert not any("sigmoid" in str(each) for each in walk(over_parts.body))


def test_parts_that_are_read_as_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "BLOCKS_PER_SM", 0)
    monkeypatch.setattr(repeated, "BUSY", 0)
    fd, _ = gated(9, 24)
    rng = np.random.default_rng(9)
    drawn = [rng.standard_normal((9, 48)).astype(ml_dtypes.bfloat16)[:, :24] for _ in range(3)]
    with warpsmith.knobs.scope(device="sim"):
        (found,) = fd.execute(drawn)
    gate, up, dy = (each.astype(np.float64) for each in drawn)
    share = 1 / (1 + np.exp(-gate))
    halves = dy * up * share * (1 + gate * (1 - share)), dy * gate * share
    np.testing.assert_allclose(found.astype(np.float64), np.hstack(halves), rtol=2**-8, atol=1e-6)


def filtered(x: Any, taps: Any, bias: Any, scale: Any) -> Any:
    """A convolution along rows, of which each channel has two numbers side by side."""
    parts = [ops.pad(x, [0, 0, k, -k]) * taps[:, k] for k in range(2)]
    return ops.cast((parts[0] + parts[1] + bias) * scale, DataType.BFloat16)


def test_reads_that_rows_share_stand_before_their_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "BLOCKS_PER_SM", 0)
    x, taps = (np.ones(s, ml_dtypes.bfloat16) for s in ((2, 64, 64), (64, 2)))
    columns = [np.arange(64, dtype=np.float32) for _ in range(2)]
    fused = warpsmith.fuse(filtered)
    text = fused.lower(x, taps, *columns).compile().asm["cuda"]
    body = text[text.index("__global__") :]
    assert body.count("= T1[") == 2
    assert body.rindex("= T1[") < body.index("= (float)")
    tap = np.where(np.arange(64)[:, None] > 0, 2.0, 1.0)
    wanted = np.broadcast_to((tap + columns[0]) * columns[1], (2, 64, 64))
    np.testing.assert_allclose(fused(x, taps, *columns).astype(float), wanted, rtol=1e-2)
