"""Where shared buffers lie, and how many bytes they take."""

from dataclasses import replace

import pytest

from tests.support.by_hand import kernel_of
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.shared_memory import laid_out
from warpsmith.lower.passes.lay_out_shared import lay_out_shared

N = Symbol("n", low=0)


def floats(name: str, size: int | Expr, alignment: int = 16) -> Buffer:
    return Buffer(
        name, DataType.Float, MemoryType.shared, integers.index(size), alignment=alignment
    )


def kernel(*shared: Buffer, offsets: tuple[tuple[str, int], ...] = ()) -> Kernel:
    return kernel_of(shared=shared, offsets=offsets)


def test_the_most_aligned_buffer_comes_first() -> None:
    layout = laid_out((floats("A", 3), floats("B", 8, 1024), floats("C", 1)))
    assert layout.starts({}) == {"B": 0, "A": 32, "C": 48}
    assert (layout.bytes, layout.least, layout.alignment) == (Const(64), 64, 1024)


def test_lengths_that_calls_decide_move_what_follows() -> None:
    layout = laid_out((floats("A", N), floats("B", 4)))
    assert layout.starts({"n": 5}) == {"A": 0, "B": 32}
    assert layout.total({"n": 5}) == 48
    assert layout.least == 16


def test_given_offsets_may_share_bytes_and_others_follow_them() -> None:
    made = kernel(floats("A", 8), floats("B", 4), floats("C", 1), offsets=(("A", 0), ("B", 0)))
    layout = layout_of(lay_out_shared(made))
    assert layout.starts({}) == {"A": 0, "B": 0, "C": 32}
    assert layout.total({}) == 48


def test_a_layout_is_made_once() -> None:
    made = lay_out_shared(kernel(floats("A", 8)))
    assert lay_out_shared(made) is made
    assert lay_out_shared(replace(made, shared=(floats("A", 9),))).layout != made.layout


def test_nobody_reads_a_layout_that_was_not_made() -> None:
    with pytest.raises(InternalError, match="k: shared memory has not been laid out"):
        layout_of(kernel(floats("A", 8)))
