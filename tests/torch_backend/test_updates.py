"""What steps of training write into parameters and buffers is written by few kernels, in place."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

import warpsmith
from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.torch_backend import kept, updates
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.copies import in_few
from warpsmith.torch_backend.report import Record
from warpsmith.torch_backend.scalars import keep_apart
from warpsmith.torch_backend.source import Step
from warpsmith.torch_backend.writes import WRITES, is_whole_write

pytestmark = pytest.mark.usefixtures("fresh")

aten = torch.ops.aten
Body = Callable[..., list[Tensor]]


@pytest.mark.parametrize(("kind", "device"), [("sgd", "sim"), ("adamw", "reference")])
def test_an_optimizer_is_one_region_that_writes_parameters_in_place(
    kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Record] = []
    monkeypatch.setattr(kept, "remember", lambda record: made.append(record) or record)
    own = [torch.randn(size) for size in ((6, 5), (40,), (3, 2, 2), (1,))]
    other = [each.clone() for each in own]
    if kind == "sgd":
        mine, eager = (torch.optim.SGD(p, 0.1, 0.9, foreach=True) for p in (own, other))
    else:
        rate = torch.tensor(0.01)  # one number for all parameters
        mine = torch.optim.AdamW(own, rate, capturable=True, foreach=True)
        eager = torch.optim.AdamW(other, 0.01)
    fast = torch.compile(lambda: mine.step(), backend=backend)
    for _ in range(3):
        for a, b in zip(own, other, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        with knobs.scope(device=device):
            fast()
        eager.step()
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)
    for record in made:
        (program,) = record.account.programs
        assert len(list(filter(is_whole_write, program.recipe.nodes))) >= len(own)
        assert record.account.reasons.total() <= len(own)  # steps, which each element reads
        call = program.last_plan if device == "sim" else None
        assert call is None or (len(call.launches), call.outputs[len(own) :]) == (1, ())


def test_norms_count_and_average_in_few_launches() -> None:
    layers = (nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8))
    model = nn.Sequential(*layers, nn.ReLU())
    eager, fast = copy.deepcopy(model), torch.compile(model, backend=backend)
    for training in (True, True, False, True):
        model.train(training)
        eager.train(training)
        x = torch.randn(2, 4, 8, 8)
        with torch.autograd.profiler.profile() as ran:
            found = fast(x)
        torch.testing.assert_close(found, eager(x))
        torch.testing.assert_close(model.state_dict(), eager.state_dict())
    names = [event.name for event in ran.function_events]
    assert names.count("aten::_foreach_copy_") == 1
    assert "aten::add" not in names
    regions = [g.regions for g in warpsmith.report(fast).graphs if ("copy_", WRITES) in g.reasons]
    assert [len(each) for each in regions] == [3]  # of two norms, and what counts their calls


def plus_its_transpose(p: Tensor, q: Tensor) -> list[Tensor]:
    p.copy_(p + p.t())
    return [q + 1]


def broadcast_beside(p: Tensor, q: Tensor) -> list[Tensor]:
    wide = p[None] * q[:, :, None]
    p.copy_(p * 2)
    return [wide]


def read_by_a_sum(p: Tensor, q: Tensor) -> list[Tensor]:
    p.copy_(p - p.sum(0))
    return [q + 1]


def read_by_another_region(p: Tensor, q: Tensor) -> list[Tensor]:
    a, b = p.sin().sum(0), q.sin() * 2
    order = torch.sort(a).values
    q.copy_(b)
    again = torch.sort(q).values + q
    p.copy_(p * 3)
    return [order, again]


def changed_places(p: Tensor, q: Tensor) -> list[Tensor]:
    a, b = p + q, p - q
    p.copy_(a)
    q.copy_(b)
    return [a * b]


def twice(p: Tensor, q: Tensor) -> list[Tensor]:
    p.copy_(p * 2)
    q.copy_(q + p)
    p.copy_(p + 1)
    return [p * q]


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (plus_its_transpose, 0),
        (broadcast_beside, 0),
        (read_by_a_sum, 0),
        (read_by_another_region, None),
        (changed_places, 2),
        (twice, None),
    ],
)
def test_who_reads_an_input_reads_it_as_it_was(body: Body, taken: int | None) -> None:
    own = [torch.randn(5, 5) for _ in range(2)]
    other = [each.clone() for each in own]
    made = compiled(body, *[each.clone() for each in own])
    found = made.run([*own])
    torch.testing.assert_close(list(found), body(*other))
    torch.testing.assert_close(own, other)
    wrote = {node for region in made.regions.members for node in region if "copy_" in node.name}
    assert taken is None or len(wrote) == taken


def test_more_than_a_kernel_takes_are_several_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "MOST_TENSORS", 7)  # each reads one, and writes it

    def doubled(*given: Tensor) -> list[Tensor]:
        for each in given:
            each.copy_(each * 2)
        return []

    made = compiled(doubled, *(torch.randn(3 + k) for k in range(7)))
    assert [len(region) for region in made.regions.members] == [6, 6, 2]


def test_small_copies_wait_for_the_last_that_nobody_reads_between() -> None:
    graph = Graph()

    def given(name: str, size: int = 4) -> Node:
        node = graph.placeholder(name)
        node.meta["val"] = torch.empty(size)
        return node

    def called(target: Any, *args: Node) -> Node:
        node = graph.call_function(target, args)
        node.meta["val"] = args[0].meta["val"]
        return node

    a, b, c, large, x = *map(given, "abc"), given("large", 1 << 19), given("x")
    new, wide = called(aten.neg.default, x), called(aten.neg.default, large)
    copies = [called(aten.copy_.default, each, new) for each in (a, b, c)]
    read = called(aten.exp.default, a)
    own = called(aten.copy_.default, large, wide)
    steps = [Step.of(each) for each in (new, wide, copies[0], read, *copies[1:], own)]
    found = in_few(steps)
    assert [step.function for step in found] == [
        *(aten.neg.default, aten.neg.default, aten.copy_.default, aten.exp.default),
        *(aten._foreach_copy_.default, aten.copy_.default),
    ]
    assert found[4].args == ([b, c], [new, new])


def test_numbers_are_computed_for_each_program_that_reads_them() -> None:
    def decayed(p: Tensor, q: Tensor, rate: Tensor) -> list[Tensor]:
        factor = 1 - rate * 0.1
        p.copy_(p * factor)
        q.copy_(q * factor)
        return [factor]

    given = torch.randn(4), torch.randn(5), torch.tensor(0.5)
    graph = make_fx(decayed, tracing_mode="fake")(*given).graph
    keep_apart(graph)
    graph.lint()
    assert len(graph.find_nodes(op="call_function", target=aten.rsub.Scalar)) == 2
    assert len(graph.find_nodes(op="call_function", target=aten.mul.Tensor)) == 4


def test_what_is_left_of_lists_is_torchs() -> None:
    def clipped(*given: Tensor) -> list[Tensor]:
        norms = torch._foreach_norm(given)
        zeros = aten._foreach_zero(given)
        return [*zeros, *torch._foreach_mul(given, 2.0), *norms]

    given = [torch.randn(3 + k) for k in range(3)]
    fast = torch.compile(lambda: clipped(*given), backend=backend)
    torch.testing.assert_close(fast(), clipped(*given))
