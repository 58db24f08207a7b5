"""Programs of one product, to run on the simulator and to hold against float64."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.schedulers.matmul import heuristic

Array = np.ndarray


def values(shape: Sequence[int], seed: int, dtype: Any = ml_dtypes.bfloat16) -> Array:
    """Fresh numbers of -2 to 2."""
    return np.random.default_rng([*shape, seed]).uniform(-2, 2, shape).astype(dtype)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def run(
    inputs: Sequence[Array], body: Callable[..., Any], schedulers: Sequence[str] = ("matmul",)
) -> list[Array]:
    """What a kernel of each of the schedulers gives on the simulator.

    `body(ops, *inputs)` gives a tensor, or a tuple of them.
    """
    with FusionDefinition() as fd:
        result = body(fd.ops, *(fd.from_pytorch(array) for array in inputs))
        for tensor in result if isinstance(result, tuple) else (result,):
            fd.add_output(tensor)
    with knobs.scope(device="sim"):
        results = list(fd.execute(list(inputs)))
    segments = fd._ready(False).last_plan.segments
    assert [each.candidate.scheduler for each in segments] == list(schedulers)
    return results


def close(result: Array, wanted: Array, depth: int) -> None:
    """Hold what was made of sums of `depth` products of numbers up to 2 against float64.

    One rounding to the result's type, and what sums in float of any order lose.
    """
    eps = float(ml_dtypes.finfo(result.dtype).eps)
    assert result.shape == wanted.shape
    allowed = eps * np.abs(wanted) + 2.0**-21 * 4 * depth
    worst = np.max(np.abs(wide(result) - wanted) - allowed, initial=-1.0)
    assert worst <= 0, f"{worst} beyond what rounding allows"


def check_behind_batches(chosen: str) -> None:
    """A batch with a bias, a residual and two results is one kernel, clean and right, of a schedule
    that `explain` says so.
    """
    x, weight = values((2, 72, 200), 1), values((40, 200), 2)
    bias, residual = values((40,), 3), values((2, 72, 40), 4)
    given = [x, weight, bias, residual]
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(array) for array in given]
        h = fd.ops.add(fd.ops.linear(*tensors[:3]), tensors[3])
        fd.add_output(fd.ops.cast(h, DataType.Float))
        fd.add_output(fd.ops.cast(fd.ops.relu(h), DataType.BFloat16))
    with knobs.scope(device="sim"):
        whole, positive = fd.execute(given)
        assert fd.verify(given, schedules=2).verdict == "clean"
    said = fd.explain()
    assert said.startswith("1 kernel\n")
    assert chosen in said
    assert "load_beside" in said
    wanted = wide(x) @ wide(weight).T + wide(bias)
    assert np.abs(wide(whole) - wanted - wide(residual)).max() < 2.0**-5 * np.abs(wanted).max()
    close(positive, np.maximum(wide(whole), 0), 1)


def forcing(**usual: Any) -> Callable[..., None]:
    """What gives products these parameters; those that a call names come in place of them."""

    def force(monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        chosen = heuristic.choose
        changed = usual | given
        monkeypatch.setattr(heuristic, "choose", lambda *args: replace(chosen(*args), **changed))

    return force
