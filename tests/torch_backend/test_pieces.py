"""Parts of a tensor that no vectors walk are read where they lie in the whole."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.torch_backend.graphs import compiled

Program = Callable[[Tensor], list[Tensor]]

SHARED: dict[str, Program] = {
    "every second": lambda x: [x[:, ::2] * x[:, 1::2]],
    "columns": lambda x: [x[:, 0] + x[:, 3]],
    "shifted": lambda x: [x[:, 1:] - x[:, :-1]],
    "odd halves": lambda x: [x[:, :17] * x[:, 17:][:, :17]],
    "a split": lambda x: [(lambda a, b, c: a * b + c)(*x.split(12, 1)[:2], x[:, 5:17])],
    "one of them whole vectors": lambda x: [x[:, :16].exp() * x[:, 1:17]],
}
APART: dict[str, Program] = {
    "whole vectors": lambda x: [x[:, :16] * x[:, 16:32]],
    "rows": lambda x: [x[1:] - x[:-1]],
    "of a product": lambda x: [x[:, 1:9] @ x[:8, 1:].float()],
    "many": lambda x: [sum(x.unbind(1))],
    "of sums": lambda x: [x[:, 1:].sum(1) + x[:, :-1].sum(1)],
}


def regions(program: Program, x: Tensor) -> list[int]:
    """How many tensors each region reads."""
    found = compiled(program, x).programs
    return [len(each.inputs) for each in found if each is not None]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SHARED)
def test_parts_between_vectors_are_of_one_input(name: str) -> None:
    x = torch.randn(9, 36)
    assert regions(SHARED[name], x) == [1]
    made = compiled(SHARED[name], x, device="sim")
    torch.testing.assert_close(list(made.run([x])), SHARED[name](x))


@pytest.mark.parametrize("name", APART)
def test_others_are_inputs_themselves(name: str) -> None:
    assert sum(regions(APART[name], torch.randn(9, 36))) > 1


def test_so_are_parts_of_what_has_gaps() -> None:
    assert regions(SHARED["shifted"], torch.randn(9, 72)[:, ::2]) == [2]
