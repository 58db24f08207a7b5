"""Regions are as large as they can be, and no value leaves one and comes back to it."""

import pytest
import torch

from tests.torch_backend.graphs import compiled
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.reads import Read
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.program import Program
from warpsmith.torch_backend.report import report


def sizes(function: object, *inputs: torch.Tensor) -> list[int]:
    """How many nodes each region has, after its results were held against torch's."""
    made = compiled(function, *inputs)  # type: ignore[arg-type]  # any function of tensors
    torch.testing.assert_close(list(made.run(list(inputs))), function(*inputs))  # type: ignore[operator]
    return sorted(map(len, made.regions.members))


def test_what_torch_runs_comes_between_regions() -> None:
    def around(x: torch.Tensor) -> list[torch.Tensor]:
        first = x.exp() + 1
        between = torch.sort(first).values
        return [between * first + first.sin()]

    # exp, add and sin are one region, multiplication and the last addition the next
    assert sizes(around, torch.randn(5)) == [2, 3]


def test_what_reads_one_tensor_is_one_region() -> None:
    def beside(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.sin(), x.t().cos(), y.exp()]

    assert sizes(beside, torch.randn(4, 3), torch.randn(5)) == [1, 2]


@pytest.mark.usefixtures("fresh")
def test_what_reads_one_size_is_not() -> None:
    class Halves(torch.nn.Linear):  # type: ignore[misc]  # torch is not analysed
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            count = x.shape[0] // 2
            return x[:count].sin() + self.bias, y[:count].cos()

    model, x, y = Halves(6, 6).requires_grad_(False), torch.randn(4, 6), torch.randn(4, 6)
    fast = torch.compile(model, backend=backend, dynamic=True)
    torch.testing.assert_close(fast(x, y), model(x, y))
    (graph,) = report(fast).graphs
    assert len(graph.regions) == 2


def test_what_only_reads_inputs_is_computed_where_it_is_read() -> None:
    def late(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        scale = weight.double().exp()
        return [torch.sort(x + 1).values * scale]

    assert sizes(late, torch.randn(5), torch.randn(5)) == [1, 3]


def test_views_belong_to_each_region_that_reads_them() -> None:
    def viewed(x: torch.Tensor) -> list[torch.Tensor]:
        wide = (x + 1).t().reshape(3, 1, 4).expand(3, 2, 4)
        return [wide * 2, torch.sort(wide).values, wide]

    made = compiled(viewed, torch.randn(4, 3))
    assert sizes(viewed, torch.randn(4, 3)) == [2]
    found = made.run([torch.randn(4, 3)])[2]
    assert found.stride() == viewed(torch.randn(4, 3))[2].stride() == (1, 0, 3)


def test_regions_that_are_the_same_are_one_program() -> None:
    def layers(x: torch.Tensor) -> list[torch.Tensor]:
        for _ in range(3):
            x = torch.sort((x * 2 + 1).tanh()).values
        return [x]

    made = compiled(layers, torch.randn(7))
    assert len(made.programs) == 3
    assert len(set(made.programs)) == 1
    assert isinstance(made.programs[0], Program)


def test_random_numbers_keep_their_order() -> None:
    def drawn(x: torch.Tensor) -> list[torch.Tensor]:
        late = torch.rand_like(x * 2 + 1)
        return [torch.rand_like(x) + late, late]

    made = compiled(drawn, torch.randn(5))
    torch.manual_seed(3)
    found = made.run([torch.randn(5)])
    torch.manual_seed(3)
    torch.randn(5)
    expected = drawn(torch.randn(5))
    torch.manual_seed(3)
    torch.randn(5)
    torch.testing.assert_close(found[1], torch.rand(5))
    assert len(expected) == len(found)


def test_what_writes_is_left_to_torch() -> None:
    def writing(x: torch.Tensor) -> list[torch.Tensor]:
        y = x + 1
        y.mul_(2)
        return [y + x]

    assert sizes(writing, torch.randn(5)) == []


def test_arrays_are_dropped_as_soon_as_they_are_read() -> None:
    def chain(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sort(torch.sort(x + 1).values * 2).values]

    made = compiled(chain, torch.randn(5))
    arguments = [torch.randn(5)]
    made.run(arguments)
    assert arguments == []


def test_a_result_that_leaves_in_another_shape_is_stored_in_that_alone() -> None:
    """As layers save what their product reads: two dimensions of batches and lengths as one."""

    def layer(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        rows = torch.sigmoid(x).view(6, 4)
        return [rows @ weight, rows]

    def turned(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        rows = torch.sigmoid(x).view(6, 4)
        return [rows @ weight, rows.t()]  # as the gradient of the weight reads them

    def logits(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        found = (x.view(6, 4) @ weight).view(2, 3, 5)  # no product's kernel reshapes
        return [found[:, 1:].exp().sum(-1), found]

    def both(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        first = torch.sigmoid(x)
        rows = first.view(6, 4)
        return [rows @ weight, rows, first]

    given = torch.randn(2, 3, 4), torch.randn(4, 5)
    assert sizes(layer, *given) == [2]
    assert sizes(turned, *given) == [2]
    assert sizes(both, *given) == [2]
    assert sizes(logits, *given) == [3]
    shapes = [
        [tuple(node.meta["val"].shape) for node in program.recipe.results]
        for function in (layer, turned, both, logits)
        for program in compiled(function, *given).programs
        if program is not None
    ]
    layers = [[(6, 4), (6, 5)]] * 3
    assert shapes == [*layers, [(6, 5), (2, 2)]]
    found = compiled(both, *given).run(list(given))
    torch.testing.assert_close(list(found), both(*given))
    for mine, wanted in zip(compiled(turned, *given).run(list(given)), turned(*given), strict=True):
        torch.testing.assert_close(mine, wanted)


def test_a_part_of_zeros_that_is_replaced_is_a_pad() -> None:
    """As gradients of slices are: nothing compares places."""

    def gradient(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.slice_scatter(torch.zeros(5, 4), x * 2, 0, 1, 4)]

    x = torch.randn(3, 4)
    made = compiled(gradient, x)
    (program,) = made.programs
    assert program is not None
    operations = program.recipe.as_traced().finished().operations
    assert [type(op) for op in operations] == [Pointwise, Read]
    torch.testing.assert_close(made.run([x])[0], gradient(x)[0])


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_groups_are_taken(transposed: bool) -> None:
    """As experts have them, and the gradients of their rows; those of matrices are torch's."""
    ends = torch.tensor([5, 5, 30, 64], dtype=torch.int32)
    rows = torch.randn(64, 32, generator=torch.manual_seed(0)).bfloat16()
    shape = (4, 24, 32) if transposed else (4, 32, 24)
    stored = torch.randn(shape, generator=torch.manual_seed(1)).bfloat16()
    matrices = stored.transpose(1, 2) if transposed else stored

    def experts(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> list[torch.Tensor]:
        return [torch.relu(torch._grouped_mm(x, w, offs=ends))]

    def of_matrices(x: torch.Tensor, dy: torch.Tensor, ends: torch.Tensor) -> list[torch.Tensor]:
        return [torch._grouped_mm(x.t(), dy, offs=ends)]

    made = compiled(experts, rows, matrices, ends, device="sim")
    assert not made.regions.reasons
    (found,), (wanted,) = made.run([rows, matrices, ends]), experts(rows, matrices, ends)
    torch.testing.assert_close(found, wanted)
    (reason,) = compiled(of_matrices, rows, found, ends).regions.reasons.values()
    assert "other groups than of rows" in reason
