"""What a definition says of an array's memory."""

import itertools

import numpy as np
import pytest

from warpsmith.engine.bind import bind
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.memory_format import memory_format_of


@pytest.mark.parametrize(
    ("shape", "strides", "contiguity", "order"),
    [
        ((), (), (), None),
        ((2, 3), (3, 1), (True, True), None),
        ((2, 3), (4, 1), (False, True), None),
        ((2, 3), (1, 2), (True, True), (0, 1)),
        ((2, 3), (6, 2), (True, False), None),
        ((2, 3, 4), (12, 1, 3), (True, True, True), (2, 0, 1)),
        ((4, 1, 8), (8, 8, 1), (True, None, True), None),
        ((4, 1, 8), (8, 1, 1), (True, None, True), None),
        ((1, 1), (7, 9), (None, None), None),
        ((3, 5), (0, 1), (False, True), None),
        ((5, 3), (1, 0), (True, False), (0, 1)),
        ((4, 0), (1, 1), (True, True), None),
        ((0, 1, 3), (1, 7, 0), (True, None, True), None),
    ],
)
def test_layouts(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    contiguity: tuple[bool | None, ...],
    order: tuple[int, ...] | None,
) -> None:
    assert memory_format_of(shape, strides) == (contiguity, order)


@pytest.mark.few(24)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (1, 3, 1), (2, 0, 4)])
def test_an_array_fits_the_definition_made_from_it(
    shape: tuple[int, ...], order: tuple[int, ...], step: int
) -> None:
    array = np.zeros(shape, np.float32).transpose(order)[::step]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.from_pytorch(array)))
    bind(fd.fusion, [array])
