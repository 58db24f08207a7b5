"""What models write into their inputs is written in torch's order, and no more than is new."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import warpsmith
from tests.torch_backend.graphs import compiled
from tests.torch_backend.test_joint import Ran
from warpsmith.torch_backend.backend import backend

_Program = Callable[[Tensor, Tensor, Tensor], Tensor]


pytestmark = pytest.mark.usefixtures("fresh")


def indexed(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept.index_copy_(1, place, x.exp())
    return (kept * 2).sum(1)


def read_before_and_behind(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    before = torch.sort(kept + 1, 0).values.sin()
    kept[:, place] = x + 1
    return before * kept.cos()


def read_late_as_it_was(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    was = kept[:, 1:].clone()
    kept[:, place] = torch.sort(x, 0).values + kept.sum()
    return kept[:, :-1] - was.exp()


def twice(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept[:, place] = x
    between = torch.sort(kept * 3, 0).values
    kept[:, :2] = x.neg()
    kept[1] = 4.0
    return between + kept


def parts_of_parts(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    before = torch.sort(kept[:2], 0).values
    kept[1:][:2, place] = x[:2]
    kept[3, 1:3] = x[3]
    return before + kept[2:]


def row_of_another(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept[0] = kept[1].index_put((place,), x[0])
    return kept + 1


def of_itself(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept[:, 3:] = kept[:, :3]
    kept[:, place] += x
    return kept.exp()


def through_a_view(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept.t()[place] = x.t()
    return kept.t().reshape(-1) + 1


def given_back(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept[:, place] = x.exp()
    return kept


def a_view_given_back(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    view = kept[2:]
    kept[:, place] = x.exp()
    return view


def whole(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    was = torch.sort(kept, 0).values + 1
    kept.mul_(0.5).add_(x.sum())
    return was * kept


def scattered(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    index = place.expand(x.shape)
    kept.scatter_(1, index, x.exp())
    kept.scatter_add_(1, index, x)
    return kept.sum(0)


IN_PLACE = (indexed, read_before_and_behind, parts_of_parts, scattered)
"""Of which only what is new is written."""

PROGRAMS: tuple[_Program, ...] = (
    *IN_PLACE,
    twice,
    through_a_view,
    read_late_as_it_was,
    row_of_another,
    of_itself,
    given_back,
    a_view_given_back,
    whole,
)


def _inputs() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(4, 6), torch.randn(4, 2), torch.tensor([5, 2])


def taken_behind(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept[place[1:]] = -1
    return kept.take(place)


def test_what_is_written_has_gaps_and_is_viewed_behind() -> None:
    mine, theirs = (torch.arange(72.0).view(6, 6, 2)[::2, ::2] for _ in range(2))
    fast = torch.compile(taken_behind, backend=backend, fullgraph=True)
    with torch.no_grad():
        _, x, place = _inputs()
        assert torch.equal(fast(mine, x, place), taken_behind(theirs, x, place))
    assert torch.equal(mine, theirs)


@pytest.mark.few(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes_are_those_of_torch(program: _Program) -> None:
    """And a result that is an input, or a view of it, stays one."""
    fast = torch.compile(program, backend=backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            mine = _inputs()
            theirs = [each.clone() for each in mine]
            found, expected = fast(*mine), program(*theirs)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(mine[0], theirs[0])
            shared = found.untyped_storage().data_ptr() == mine[0].untyped_storage().data_ptr()
            assert shared is (program in (given_back, a_view_given_back))
            assert found.stride() == expected.stride()


class Keeping(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """A program whose first argument is the module's."""

    def __init__(self, program: _Program) -> None:
        super().__init__()
        self.program = program
        self.kept = nn.Parameter(_inputs()[0], requires_grad=False)

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        return self.program(self.kept, x, place)


@pytest.mark.parametrize("program", IN_PLACE)
def test_only_what_is_new_is_written(program: _Program) -> None:
    fast = torch.compile(Keeping(program), backend=backend)
    with torch.no_grad():
        fast(*_inputs()[1:])
    (graph,) = warpsmith.report(fast).graphs
    names = {name for name, _ in graph.reasons}
    assert names - {"sort", "copy_"}  # what writes a part
    assert not names & {"index_put", "scatter.src", "scatter_add"}  # what gives the whole


def one_of_each(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    """As keys are kept of one more word: the last of x, which is read besides."""
    y = x.exp() + x.sum(0)
    kept.index_copy_(1, place[:1], y[:, 1:])
    return torch.sort(kept, 0).values + y[:, :1]


def read_by_others(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    """The same, which no operation of torch's reads."""
    y = x.exp() + x.sum(0)
    kept.index_copy_(1, place[:1], y[:, 1:])
    return kept.exp() + y[:, :1]


@pytest.mark.few(2)
@pytest.mark.parametrize("device", ["reference", "sim"])
@pytest.mark.parametrize(("program", "left"), [(one_of_each, {"sort"}), (read_by_others, set())])
def test_one_element_of_a_dimension_is_written_by_the_region_that_computes_it(
    program: _Program, left: set[str], device: str
) -> None:
    """What reads it is torch's, or another region."""
    model = Keeping(program)
    with torch.no_grad(), warpsmith.knobs.scope(device=device):
        fast = torch.compile(model, backend=backend, fullgraph=True)
        for _ in range(2):
            kept, x, place = model.kept.clone(), *_inputs()[1:]
            found, expected = fast(x, place), program(kept, x, place)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(model.kept.data, kept)
    (graph,) = warpsmith.report(fast).graphs
    assert {name for name, _ in graph.reasons} == left
    assert left or len(graph.regions) == 2


def of_what_is_read(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    was = kept.exp() + x.sum()
    kept.index_copy_(1, place[:1], was[:, :1])
    return torch.sort(kept, 0).values + was


def alone(kept: Tensor, x: Tensor, place: Tensor) -> Tensor:
    kept.index_copy_(1, place[:1], x[:, :1].exp())
    return torch.sort(kept, 0).values


@pytest.mark.parametrize("program", [of_what_is_read, alone])
def test_torch_writes_what_a_region_reads_and_what_gives_nothing(program: _Program) -> None:
    model = Keeping(program)
    with torch.no_grad():
        fast = torch.compile(model, backend=backend, fullgraph=True)
        kept, x, place = model.kept.clone(), *_inputs()[1:]
        torch.testing.assert_close(fast(x, place), program(kept, x, place))
        torch.testing.assert_close(model.kept.data, kept)
    (graph,) = warpsmith.report(fast).graphs
    assert "index_put_" in {name for name, _ in graph.reasons}


aten = torch.ops.aten


def read_when_it_is_new(kept: Tensor, x: Tensor, place: Tensor) -> list[Tensor]:
    new = aten.index_put(kept, [None, place], x)
    was = torch.sort(kept[:, 1:], 0).values
    kept.copy_(new)
    return [was]


def view_read_when_it_is_new(kept: Tensor, x: Tensor, place: Tensor) -> list[Tensor]:
    was = kept[:, 1:]
    new = aten.index_put(kept, [None, place], x)
    between = aten.index_put(new, [None, place + 0], x * 2)
    found = was.exp() + new[:, 1:]
    kept.copy_(between)
    return [found]


def overlapping(kept: Tensor, x: Tensor, place: Tensor) -> list[Tensor]:
    kept.copy_(aten.slice_scatter(kept, kept[:, :-1], 1, 1))
    return [place + 1]


def rows_of_itself(kept: Tensor, x: Tensor, place: Tensor) -> list[Tensor]:
    kept.copy_(aten.index_put(kept, [torch.arange(4).flip(0)], kept))
    return [place + 1]


def leaving_by_itself(kept: Tensor, x: Tensor, place: Tensor) -> list[Tensor]:
    new = aten.index_put(kept, [None, place], x)
    kept.copy_(new)
    return [new]


def into_another(kept: Tensor, x: Tensor, place: Tensor) -> list[Tensor]:
    x.copy_(aten.index_put(kept, [None, place], x)[:, :2])
    return [kept + 1]


@pytest.mark.parametrize(
    "function",
    [
        read_when_it_is_new,
        view_read_when_it_is_new,
        overlapping,
        rows_of_itself,
        leaving_by_itself,
        into_another,
    ],
)
def test_what_is_read_as_it_was_is_not_written_in_place(function: Any) -> None:
    mine = _inputs()
    theirs = [each.clone() for each in mine]
    made = compiled(function, *(each.clone() for each in mine))
    found, expected = list(made.run(list(mine))), function(*theirs)
    torch.testing.assert_close([*found, *mine], [*expected, *theirs])
    assert found[0].untyped_storage().data_ptr() != mine[0].untyped_storage().data_ptr()


def test_statistics_are_written_in_training() -> None:
    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())

    mine, theirs = model(), model()
    fast = torch.compile(mine, backend=backend)
    for _ in range(3):
        x = torch.randn(5, 8)
        for each, run in ((mine, fast), (theirs, theirs)):
            each.zero_grad()
            run(x).square().sum().backward()
        for a, b in zip(mine.state_dict().values(), theirs.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b)
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)


def of_rows(x: Tensor, index: Tensor, values: Tensor) -> list[Tensor]:
    return [aten.index_put(aten.new_zeros(x, [4, 6]), [index], values, True)]


def of_rows_that_are_read(x: Tensor, index: Tensor, values: Tensor) -> list[Tensor]:
    zeros = aten.new_zeros(x, [4, 6])
    return [aten.index_put(zeros, [index], values, True), torch.sort(zeros, 0).values]


def of_itself(x: Tensor, index: Tensor, values: Tensor) -> list[Tensor]:
    ones = aten.full([4, 6], 1.0)
    return [aten.index_put(ones, [index % 4], ones, True) + values[:4]]


@pytest.mark.parametrize(
    ("function", "name"),
    [(of_rows, "index_put_"), (of_rows_that_are_read, "index_put"), (of_itself, "index_put")],
)
def test_what_was_made_for_a_write_alone_is_written_in_its_place(function: Any, name: str) -> None:
    given = torch.ones(2), torch.tensor([3, 0, 3, 1]), torch.arange(24.0).view(4, 6)
    made = compiled(function, *given)
    for _ in range(2):
        with Ran() as ran:
            found = list(made.run(list(given)))
        torch.testing.assert_close(found, function(*given))
        assert [n for n in ran.names if n.startswith("index_put")] == [name]
