"""Padded rows of what passes between two kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.product_programs import close, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.errors import InternalError
from warpsmith.ir.exprs import Matmul
from warpsmith.schedulers.padding import pad_rows, pitch


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


def operand_is_computed() -> tuple[FusionDefinition, Any]:
    """A product of what another kernel computes and leaves in memory with padded rows."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        weight = fd.define_tensor([-1, -1], [False, True], DataType.BFloat16)
        hidden = fd.ops.relu(x)
        fd.add_output(fd.ops.linear(hidden, weight))
    (product,) = (op for op in fd.fusion.operations if isinstance(op, Matmul))
    return fd, product.a


@pytest.mark.parametrize("k", [60, 61, 57])
def test_a_product_reads_rows_that_another_kernel_padded(k: int) -> None:
    fd, hidden = operand_is_computed()
    pad_rows(hidden)
    x, weight = values((70, k), 1), values((90, 72), 2)[:, :k]
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
    close(result, np.maximum(wide(x), 0) @ wide(weight).T, k)
    assert "scheduler   matmul" in fd.explain()
    (between,) = fd._executable._last_plan.temporaries
    assert between.strides == (64, 1)


def test_rows_are_padded_behind_batches_too() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], True, DataType.BFloat16)
        y = fd.define_tensor([-1, -1, -1], [True, False, True], DataType.BFloat16)
        hidden = fd.ops.relu(x)
        fd.add_output(fd.ops.matmul(hidden, fd.ops.transpose(y)))
    pad_rows(hidden)
    a, b = values((3, 20, 61), 3), values((3, 30, 72), 4)[:, :, :61]
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    close(result, np.maximum(wide(a), 0) @ wide(b).swapaxes(1, 2), 61)
    (between,) = fd._executable._last_plan.temporaries
    assert between.strides == (20 * 64, 64, 1)


def test_what_the_caller_lays_out_is_not_padded() -> None:
    fd, _ = operand_is_computed()
    for tensor in (fd.fusion.input_tensors[0], fd.fusion.outputs[0].value):
        with pytest.raises(InternalError, match="does not pass between kernels"):
            pad_rows(tensor)
