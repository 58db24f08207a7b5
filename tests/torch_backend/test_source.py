"""What runs a graph holds no value longer than somebody reads it."""

import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from tests.programs import judge
from tests.support.stand_in import stand_in
from tests.torch_backend.graphs import compiled
from warpsmith.engine import lives
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.program import Program


def test_a_region_gets_arguments_that_nobody_else_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def around(x: torch.Tensor) -> list[torch.Tensor]:
        first = x.exp() + 1
        between = torch.sort(first).values
        return [between * first + first.sin(), first]

    x = torch.randn(5)
    made = compiled(around, x)
    gone: list[list[bool]] = []
    call = Program.__call__

    def taken(self: Program, values: list[Any]) -> Any:
        results = call(self, list(values))
        met = [weakref.ref(value) for value in values]
        values.clear()
        gone.append([ref() is None for ref in met])
        return results

    monkeypatch.setattr(Program, "__call__", taken)
    expected = around(x)
    torch.testing.assert_close(list(made.run([x.clone()])), expected)
    assert sorted(map(sorted, gone)) == [[False, True], [True]]  # `first` is a result, too


def test_a_box_that_is_left_full_holds_nothing_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sort(x.exp() + 1).values]

    x = torch.randn(5)
    made = compiled(twice, x)
    met: list[weakref.ref[torch.Tensor]] = []
    left: list[bool] = []
    call, sort = Program.__call__, torch.ops.aten.sort.default

    def noted(self: Program, values: list[Any]) -> Any:
        met.extend(map(weakref.ref, values))
        return call(self, values)

    def sorts(*given: Any) -> Any:
        left.append(met[0]() is not None)
        return sort(*given)

    monkeypatch.setattr(Program, "__call__", noted)
    places = made.source.constants
    (name,) = (name for name, value in places.items() if value is sort)
    monkeypatch.setitem(places, name, sorts)  # type: ignore[arg-type]  # it is a dictionary
    made.run([x.clone()])
    assert left == [False]


def test_what_is_saved_for_backward_is_held_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)), torch.randn(6, 4)
    lasting = {t.untyped_storage().data_ptr() for t in (x, *model.parameters())}
    left: dict[torch.Size, list[bool]] = {}
    call = Program.__call__

    def taken(self: Program, values: list[Any]) -> Any:
        results = call(self, list(values))
        parts = [(v.shape, v.untyped_storage()) for v in values if isinstance(v, torch.Tensor)]
        met = [(n, StorageWeakRef(s)) for n, s in parts if s.data_ptr() not in lasting]
        values.clear()
        parts.clear()
        for shape, storage in met:
            left.setdefault(shape, []).append(not storage.expired())
        return results

    torch._dynamo.reset()
    loss = torch.compile(model, backend=backend)(x).square().sum()
    monkeypatch.setattr(Program, "__call__", taken)
    loss.backward()
    inner = torch.Size((6, 8))  # what goes into the activation, and what comes out of it
    assert left[inner] == [False] * len(left[inner])


def test_calls_on_a_gpu_take_large_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain(x: torch.Tensor, a: torch.Tensor) -> list[torch.Tensor]:
        return [(x @ a) @ a]

    monkeypatch.setattr(lives, "LARGE", 0)
    given = [torch.randn(64, 64).bfloat16() for _ in range(2)]
    made = compiled(chain, *given, device="auto")
    gpu = stand_in(monkeypatch)
    (program,) = made.programs
    assert program is not None
    with judge.uncompiled():
        (result,) = program(given)
    assert given == []
    assert result.shape == (64, 64)
    assert len(gpu.launches) == 2
