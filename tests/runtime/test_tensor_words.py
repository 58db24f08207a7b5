"""Words of torch's records are read where torch said the same of many tensors, or not at all."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.engine.test_launcher import fused, pair
from tests.support.stand_in import StandIn, stand_in, taken_by_c, told
from warpsmith import ops
from warpsmith.runtime import launcher, tensor_words
from warpsmith.runtime.tensor_words import UNKNOWN, Places, places_of_words

torch = pytest.importorskip("torch")
FakeTensorMode = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode


def word(tensor: Any, record_at: int, at: int) -> int:
    (record,) = (ctypes.c_uint64 * 1).from_address(id(tensor) + record_at)
    return int((ctypes.c_uint64 * 1).from_address(record + at)[0])


def several() -> list[Any]:
    x = torch.ones(4, 6, dtype=torch.complex64)
    with torch.inference_mode():
        made_there = torch.ones(3)
    own = torch.ones(2).as_subclass(type("Own", (torch.Tensor,), {}))
    later, frozen = torch.ones(2), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    later.requires_grad_()
    return [
        x, x.conj(), x.conj().imag, x.real, torch._neg_view(torch.ones(7)), made_there, own, later,
        frozen, later.detach(), later * 2.0, torch.ones(0), torch.ones(()), torch.ones(3).bool(),
        torch.ones(2, 3, device="meta"), torch.ones(3, 3).to_sparse(), torch.ones(5)[2:],
    ]  # fmt: skip


def test_words_are_what_torch_says() -> None:
    record_at, keys_at, gradient_at, *_ = places_of_words(torch)
    assert record_at
    for each in several():
        keys = torch._C._dispatch_keys(each).raw_repr()
        assert word(each, record_at, keys_at) == keys
        if each.requires_grad:
            assert word(each, record_at, gradient_at)
    assert not word(torch.ones(9), record_at, gradient_at)


@pytest.mark.parametrize("said", [None, 0, 1, "of the first tensor"])
def test_what_torch_does_not_say_is_not_guessed(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    true = torch._C._dispatch_keys(torch.ones(3)).raw_repr()

    def keys(tensor: Any) -> Any:
        if said is None:
            raise AttributeError("_dispatch_keys")
        told = true if isinstance(said, str) else said
        return type("Keys", (), {"raw_repr": lambda self: told})()

    monkeypatch.setattr(torch._C, "_dispatch_keys", keys)
    assert places_of_words(torch) == UNKNOWN


def looked_at(monkeypatch: pytest.MonkeyPatch, *given: Any) -> int:
    """How often DLPack is asked by a call, which the launcher takes or leaves to Python."""
    gpu = stand_in(monkeypatch)
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    asked = told("asked")
    before = asked.value
    made.shortcut.launch(given)
    return int(asked.value - before)


def test_dlpack_is_asked_once_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = pair()
    others = {
        "another type": (x.bool(), 1),
        "no elements": (torch.ones(0, 4), 1),
        "six dimensions": (torch.ones(1, 1, 1, 1, 1, 1), 1),
        "memory that is to be copied first": (torch._lazy_clone(torch.ones(6, 4)), 1),
        "no memory": (torch.ones(6, 4), 1),
        "a view with gaps, behind others": (torch.ones(7, 9)[1:, 2:6], 0),
        "a Parameter": (torch.nn.Parameter(torch.ones(6, 4)), 0),
        "repeated": (torch.ones(4).expand(6, 4), 0),
        "a number": (torch.ones(()), 0),
    }
    others["no memory"][0].untyped_storage().resize_(0)
    assert not looked_at(monkeypatch, x, y)
    for why, (other, times) in others.items():
        monkeypatch.undo()
        assert looked_at(monkeypatch, x, other) == times, why


@pytest.mark.parametrize("name", ["offset", "sizes"])
def test_dlpack_is_asked_where_records_differ(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = places_of_words(torch)
    wrong = found._replace(**{name: getattr(found, name) + 8})
    monkeypatch.setattr(launcher, "places_of_words", lambda torch: wrong)
    assert looked_at(monkeypatch, *pair()) == 3, "two inputs and the result"


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "bool"])
def test_what_is_read_is_what_python_launches(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    gpu = stand_in(monkeypatch)
    whole = torch.ones(7, 9, 3).to(getattr(torch, dtype))
    others = whole[1:, 2:, 1], whole.permute(2, 0, 1)[:, 3], whole[2, 5, 1:], whole[6:, 8:, 2:]
    for x in (whole, *others, whole[3, 4, 2]):
        made = fused(gpu, lambda x: ops.where(x == 0, 2.0, 3.0), x)
        gpu.knows(next(iter(made._traces.entries.values()))[0].executable.last_plan)
        route, found = made.known((x,)), []
        assert route is not None
        for run in (made.shortcut.launch, route.run):
            assert run((x,)) is not NotImplemented
            found.append(gpu.taken([x]))
        assert found[0] == found[1]
        assert "input 0" in str(found)


@pytest.mark.parametrize("known", ["all", "three", "none"])
def test_calls_are_the_same_without_them(monkeypatch: pytest.MonkeyPatch, known: str) -> None:
    if known != "all":
        found = UNKNOWN if known == "none" else Places(*places_of_words(torch)[:3])
        monkeypatch.setattr(launcher, "places_of_words", lambda torch: found)
    gpu: StandIn = stand_in(monkeypatch)
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    assert taken_by_c(made, x, y)
    assert not taken_by_c(made, torch._neg_view(x), y)
    assert not taken_by_c(made, x, torch.nn.Parameter(y))
    with torch.no_grad():
        assert taken_by_c(made, x, torch.nn.Parameter(y))
        assert not taken_by_c(made, x, torch._neg_view(torch.nn.Parameter(y)))
    y.requires_grad_()
    assert not taken_by_c(made, x, y)
    y.requires_grad_(False)
    assert taken_by_c(made, x, y)


def test_nothing_is_kept_for_a_negated_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = stand_in(monkeypatch)
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    route = made.known((x, y))
    assert route is not None
    table = launcher.module().Table(launcher.host())
    assert not table.keep((x, torch._neg_view(y)), route.run.recipe, (0, 1), 1)
    assert table.keep((x, y), route.run.recipe, (0, 1), 1)


@pytest.mark.parametrize(
    "mode",
    [
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.device("meta"),
        lambda: torch.amp.autocast("cpu"),
        FakeTensorMode,
    ],
    ids=["inference", "no gradients", "another device", "autocast", "fake tensors"],
)
def test_words_are_found_in_any_mode(mode: Any) -> None:
    with mode():
        found = places_of_words(torch)
    assert found == places_of_words(torch) != UNKNOWN


def test_others_are_looked_at_where_words_are_alike_by_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only = tensor_words._only
    asked: list[set[int]] = []

    def sometimes(places: set[int]) -> int:
        asked.append(places)
        return only({*places, 22} if len(asked) in (3, 8) else places)

    wanted = places_of_words(torch)
    monkeypatch.setattr(tensor_words, "_only", sometimes)
    assert places_of_words(torch) == wanted != UNKNOWN
    assert len(asked) > 8


def test_words_are_found_inside_of_transforms() -> None:
    found = []

    def noting(x: Any) -> Any:
        found.append(places_of_words(torch))
        return (x * x).sum()

    torch.func.vmap(torch.func.grad(noting))(torch.ones(2, 3))
    whole = places_of_words(torch)
    assert found[0] in (UNKNOWN, Places(*whole[:3]), whole)
