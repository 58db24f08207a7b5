"""Results whose rows the TMA unit does not take leave through shared memory all the same."""

from typing import Any

import numpy as np
import pytest

from tests.schedulers.matmul.test_epilogues import of
from tests.support.product_programs import forcing, values, wide
from warpsmith import DataType

force = forcing(splits=1, parts=1, stream=False, lines=1, stages=4, store_stages=2)

WAYS: dict[str, dict[str, Any]] = {
    "groups share a tile": {"tile": (128, 64, 64), "chunk": 64, "ping_pong": 0, "cluster": (1, 1)},
    "a cluster": {"tile": (64, 32, 64), "chunk": 16, "ping_pong": 0, "cluster": (2, 1)},
    "in turn": {"tile": (64, 64, 64), "chunk": 32, "ping_pong": 2, "cluster": (1, 1)},
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("columns", [145, 148])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.few(4)
def test_rows_of_any_length(
    monkeypatch: pytest.MonkeyPatch, way: str, columns: int, swapped: bool
) -> None:
    """One element of 2 bytes at a time, or four."""
    force(monkeypatch, swapped=swapped, **WAYS[way])
    x, weight = values((136, 72), 1), values((columns, 72), 2)

    def body(ops: Any, x: Any, weight: Any) -> Any:
        product = ops.matmul(x, ops.transpose(weight), dtype=DataType.Float)
        return ops.cast(product, DataType.BFloat16)

    (result,), said = of([x, weight], body)
    wanted = wide(x) @ wide(weight).T
    assert np.abs(wide(result) - wanted).max() < 2.0**-7 * np.abs(wanted).max()
    assert "Use shared memory epilogue: 1" in said


def test_types_of_several_results_with_a_bias() -> None:
    """Results of 4 and of 2 bytes, of which one has whole vectors where the other has none."""
    x, weight, bias = values((136, 72), 1), values((146, 72), 2), values((146,), 3)

    def body(ops: Any, x: Any, weight: Any, bias: Any) -> Any:
        product = ops.add(ops.matmul(x, ops.transpose(weight), dtype=DataType.Float), bias)
        return product, ops.cast(ops.relu(product), DataType.BFloat16)

    (whole, rounded), said = of([x, weight, bias], body)
    wanted = wide(x) @ wide(weight).T + wide(bias)
    assert np.abs(wide(whole) - wanted).max() < 2.0**-7 * np.abs(wanted).max()
    assert np.abs(wide(rounded) - np.maximum(wanted, 0)).max() < 2.0**-6 * np.abs(wanted).max()
    assert "Use shared memory epilogue: 1" in said
