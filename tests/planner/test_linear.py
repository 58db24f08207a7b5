"""What kernels compute together, and what is asked of schedulers, grows as the program does."""

import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import warpsmith
from tests.planner.test_plans import planned
from tests.support.binaries import uncompiled
from warpsmith import DataType, ops
from warpsmith.engine.executable import Executable
from warpsmith.ir.part import Part
from warpsmith.planner import joins, regions, sinks
from warpsmith.planner import segment as segments

FLOATS = np.zeros((32, 64), np.float32)


def balanced(steps: int) -> Any:
    """Rows and columns divided by their sums in turn: all before a sum may be computed for it."""

    def program(x: Any) -> Any:
        for step in range(steps):
            x = x / ops.sum(x, step % 2, keepdim=True)
        return x

    return program


def computed(steps: int) -> list[int]:
    """Operations of each kernel."""
    shares = [each.segment.share for each in planned(balanced(steps), FLOATS)]
    return [len(share.positions) for share in shares if isinstance(share, Part)]


def test_kernels_compute_little_of_what_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MOST_AGAIN", 16)
    short, long = computed(20), computed(40)
    assert max(long) <= 16 + 8
    assert max(long) == max(short), "kernels of either reach the limit"
    assert sum(long) < 2.5 * sum(short)


def many_sums(x: Any) -> Any:
    return tuple(ops.sum(ops.exp(x) * (k + 1.0), k % 2) for k in range(24))


def test_sinks_are_joined_in_groups_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is asked of schedulers nothing writes more than a group may."""
    monkeypatch.setattr(sinks, "MOST_SINKS", 5)
    with mock.patch.object(segments, "refusals", wraps=segments.refusals) as asked:
        made = planned(many_sums, FLOATS)
    assert sorted(len(each.segment.writes) for each in made) == [2, 2, 5, 5, 5, 5]
    sizes = [len(call.args[0].outputs) for call in asked.call_args_list]
    assert max(size for size in sizes if size < 24) == 5  # of 24 it is asked once, whole


def test_kernels_are_joined_with_few_that_they_read() -> None:
    fusion = warpsmith.fuse(balanced(32)).lower(FLOATS).fusion
    one = joins._Search._one
    with uncompiled(), mock.patch.object(joins._Search, "_one", autospec=True) as asked:
        asked.side_effect = one
        Executable(fusion).plan_for([FLOATS])
    pairs = [call.args[1:] for call in asked.call_args_list]
    assert len({reader for _, reader in pairs}) > joins.MOST_WRITERS
    assert len(pairs) <= joins.MOST_WRITERS * len({reader for _, reader in pairs})


FEW = np.zeros((32, 64), np.float16), np.zeros((64, 64), np.float16)


def residuals(layers: int) -> Any:
    """A norm and two products each, and a sum of all that reaches back to the first layer."""

    def program(x: Any, w: Any) -> Any:
        for _ in range(layers):
            norm = x / ops.sqrt(ops.mean(x * x, -1, keepdim=True) + 1.0)
            x = x + ops.linear(ops.silu(ops.linear(norm, w)), w)
        return x

    return program


def calls(function: Callable[[], object]) -> int:
    """Of functions, and returns from them."""
    count = 0

    def seen(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_each_layer_more_is_as_much_work() -> None:
    """Uses of sums, and memory of operands, were looked for in the whole program."""

    def work(layers: int) -> int:
        fusion = warpsmith.fuse(residuals(layers)).lower(*FEW).fusion
        with uncompiled():
            return calls(lambda: Executable(fusion).plan_for(FEW))

    few, more, most = map(work, (10, 20, 40))
    assert (most - more) / 20 < 1.05 * (more - few) / 10


def norms(x: Any) -> Any:
    for _ in range(16):
        x = x + x / ops.sqrt(ops.mean(x * x, -1, keepdim=True) + 1.0)
    return x


def multiples(x: Any) -> Any:
    wide: Any = ops.cast(x, DataType.Float)
    power: Any = ops.exp(wide - ops.max(wide, -1, keepdim=True))
    for _ in range(16):
        power = power + power * 2.0
    return ops.cast(power, DataType.Half)


@pytest.mark.parametrize(("program", "dtype"), [(norms, np.float32), (multiples, np.float16)])
def test_what_leads_to_a_value_twice_is_walked_once(program: Any, dtype: Any) -> None:
    """Each step adds a value to what is made of it, so that there are twice as many ways."""
    array = np.zeros((32, 64), dtype)
    fusion = warpsmith.fuse(program).lower(array).fusion
    with uncompiled():
        assert calls(lambda: Executable(fusion).plan_for([array])) < 3_000_000
