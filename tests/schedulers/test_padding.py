"""Padded rows of what passes between two kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.support.product_programs import close, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.bind import Binder
from warpsmith.engine.launches import CallPlan, plan_call
from warpsmith.engine.planned import PlannedSegment
from warpsmith.engine.simulated import Simulated
from warpsmith.ir.fusion import Fusion
from warpsmith.ops.liveness import remove_dead
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.padding import padded, pitch, pitches
from warpsmith.schedulers.rewrite import rewrite
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200


@pytest.mark.parametrize(
    ("elements", "size", "wanted"),
    [
        (64, 2, 64),
        (60, 2, 64),  # 8 bytes of 120: a line
        (57, 2, 64),  # 14 of 114 are too many for a line, but the next grain is one
        (65, 2, 72),
        (1000, 2, 1024),
        (8632, 2, 8640),
        (3, 4, 4),
        (1, 8, 2),
        (0, 2, 0),
    ],
)
def test_rows_begin_at_grains_or_where_that_costs_little_at_lines(
    elements: int, size: int, wanted: int
) -> None:
    assert pitch(elements, size) == wanted
    assert pitch(elements, size) * size % 16 == 0


@dataclass(frozen=True)
class Cut:
    """A product of what another kernel computes, with its two kernels cut by hand.

    The fusions agree on names: `T50` passes between the kernels, `T60` is the result.
    """

    whole: Fusion
    parts: tuple[Fusion, Fusion]

    @staticmethod
    def of(batches: int) -> Cut:
        shape, flags = [-1] * (batches + 2), [*[True] * batches, False, True]

        def product(first: Callable[..., Any] | None) -> FusionDefinition:
            with FusionDefinition() as fd:
                x = fd.define_tensor(shape, True, DataType.BFloat16)
                y = fd.define_tensor(shape, flags, DataType.BFloat16)
                left = x if first is None else first(fd.ops, x)
                result = fd.ops.matmul(left, fd.ops.transpose(y))
                fd.add_output(result)
            result.number = 60
            return fd

        with FusionDefinition() as before:
            hidden = before.ops.relu(before.define_tensor(shape, True, DataType.BFloat16))
            before.add_output(hidden)
        after = product(None)
        read = after.fusion.input_tensors[0]
        for tensor in (hidden, read):
            tensor.number = 50
            tensor.contiguity = padded(tensor, tensor.stride_order)
        rewrite(after.fusion)
        remove_dead(after.fusion)
        whole = product(lambda ops, x: ops.relu(x))
        return Cut(whole.fusion, (before.fusion, after.fusion))

    def planned(self, inputs: list[np.ndarray]) -> CallPlan:
        binding = Binder(self.whole)(inputs)
        values = {name: int(value) for name, value in binding.values.items()}
        segments = [PlannedSegment(Segment(part, H200), select(part, H200)) for part in self.parts]
        return plan_call(self.whole, segments, values, {}, H200, knobs.current())


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(70, 60), (70, 61), (70, 57), (3, 20, 61)])
def test_a_product_reads_rows_that_another_kernel_padded(shape: tuple[int, ...]) -> None:
    x, weight = values(shape, 1), values((*shape[:-2], 90, 72), 2)[..., : shape[-1]]
    with knobs.scope(device="sim"):
        cut = Cut.of(len(shape) - 2)
        call = cut.planned([x, weight])
        (result,) = Simulated(cut.whole, call)([x, weight])
    close(result, np.maximum(wide(x), 0) @ wide(weight).swapaxes(-1, -2), shape[-1])
    (between,) = call.temporaries
    assert between.name == "T50"
    assert between.strides == ((20 * 64, 64, 1) if len(shape) == 3 else (64, 1))
    candidates = [planned.candidate for planned in call.segments]
    assert [c.scheduler for c in candidates if c is not None] == ["pointwise", "matmul"]


def test_what_has_no_rows_is_not_padded() -> None:
    with FusionDefinition() as fd:
        vector = fd.ops.relu(fd.define_tensor([-1], True, DataType.BFloat16))
        fd.add_output(vector)
    vector.contiguity = padded(vector, vector.stride_order)
    assert vector.contiguity == (True,)
    assert pitches(vector, {"T0_size0": 61}) == {}
