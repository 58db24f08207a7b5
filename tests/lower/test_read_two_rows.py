"""What rows have once is read for the first lane of a vector and for the last, not for each."""

from typing import Any

import pytest
import torch

from warpsmith import DataType, FusionDefinition, fuse, knobs, ops


@fuse
def normalized(x: Any, mean: Any, scale: Any, residual: Any) -> Any:
    wide = (x.to(DataType.Float) - mean) * scale
    return wide.to(DataType.BFloat16) + residual


def inputs(shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Images, of which two inputs have some dimensions alone."""
    x, residual = (torch.randn(shape).bfloat16() for _ in range(2))
    small = [size if dimension in own else 1 for dimension, size in enumerate(shape)]
    return x, torch.randn(small), torch.randn(small), residual


SHAPES = [(2, 3, 5, 7), (3, 4, 7, 7), (1, 5, 17, 3), (5, 3, 1, 9), (4, 2, 33, 5)]


@pytest.mark.parametrize("own", [(1,), (0,), (0, 1), (2,), (0, 2)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.few(8)
def test_values_are_those_of_each_element(shape: tuple[int, ...], own: tuple[int, ...]) -> None:
    """Of rows that are shorter than a vector, and where the last vector is cut short, too."""
    x, mean, scale, residual = inputs(shape, own)
    with knobs.scope(device="sim"):
        found = normalized(x, mean, scale, residual)
    assert torch.equal(found, ((x.float() - mean) * scale).bfloat16() + residual)


def text(shape: tuple[int, ...], own: tuple[int, ...]) -> str:
    compiled = normalized.lower(*inputs(shape, own)).compile()
    assert compiled.verify(schedules=2).verdict == "clean"
    return str(compiled.asm["cuda"])


@pytest.mark.parametrize("shape", [(2, 4, 7, 7), (3, 3, 5, 3), (1, 8, 3, 3)])
def test_two_rows_are_read_where_a_vector_has_no_more(shape: tuple[int, ...]) -> None:
    assert text(shape, (1,)).count("_ends[2];") == 2


def test_rows_shorter_than_a_vector_are_read_for_each_element() -> None:
    assert "_ends" not in text((2, 4, 7, 7), (2,))


def test_the_last_vector_reads_no_row_behind_the_last() -> None:
    """Which is none of an input of rows alone: 3 x 15 elements, of which vectors have 8."""

    @fuse
    def of_rows(x: Any, scale: Any) -> Any:
        return x * scale[:, None]

    x, scale = torch.randn(3, 15).bfloat16(), torch.randn(3).bfloat16()
    with knobs.scope(device="sim"):
        assert torch.equal(of_rows(x, scale), x * scale[:, None])
    made = of_rows.lower(x, scale).compile()
    kernel = str(made.asm["cuda"]).split("__launch_bounds__")[1]
    assert "_ends[2];" in kernel
    assert "ws_divide((grid_x * 1024 + block_x * 8 + (7 < (T0_size1 * T1_size0" in kernel


def test_two_vectors_of_one_tensor_have_names_of_their_own() -> None:
    """Of doubles, of which a thread has several vectors."""
    x, places = torch.randn(16, 3, 17, dtype=torch.float64), torch.tensor([9, 15, 5, 10, 9])
    with FusionDefinition() as fd:
        given = fd.define_tensor([16, 3, 17], True, DataType.Double)
        index = fd.define_tensor([5], True, DataType.Int)
        fd.add_output(ops.index_select(given, index, 0))
    with knobs.scope(device="sim"):
        assert torch.equal(fd.execute([x, places])[0], x[places])
