"""What passes between kernels shares memory, and never with what is in use at the same time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warpsmith
from tests.programs.judge import uncompiled
from warpsmith import ops
from warpsmith.engine.arena import ALIGNMENT, Life, packed
from warpsmith.engine.executable import Executable

BFLOAT = np.dtype(ml_dtypes.bfloat16)


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    spans = draw(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9), st.integers(0, 4))))
    return [Life(f"T{n}", size, a, a + more) for n, (size, a, more) in enumerate(spans)]


@given(lives())
def test_nothing_in_use_together_has_a_byte_in_common(asked: list[Life]) -> None:
    arena = packed(asked)
    where = dict(arena.offsets)
    assert list(where) == [life.name for life in asked]
    for life in asked:
        assert where[life.name] % ALIGNMENT == 0
        assert where[life.name] + life.size <= arena.size
        for other in asked:
            if other is not life and life.meets(other) and life.size and other.size:
                ends = [where[x.name] + x.size for x in (life, other)]
                assert ends[0] <= where[other.name] or ends[1] <= where[life.name]


def test_a_chain_needs_two_tensors_at_a_time() -> None:
    chain = [Life(f"T{n}", 4096, n, n + 1) for n in range(20)]
    assert packed(chain).size == 2 * 4096


def test_layers_take_no_more_memory_than_one() -> None:
    def layers(count: int) -> int:
        def program(x: object, w: object) -> object:
            for _ in range(count):
                x = ops.linear(ops.linear(x, w), w)  # type: ignore[arg-type]
            return x

        arrays = np.empty((512, 256), BFLOAT), np.empty((256, 256), BFLOAT)
        executable = Executable(warpsmith.fuse(program).lower(*arrays).fusion)
        with uncompiled():
            call = executable.plan_for(arrays)
        assert len(call.temporaries) == 2 * count - 1
        return call.arena.size

    assert layers(8) == layers(2) == 2 * 512 * 256 * 2


@pytest.mark.parametrize("size", [0, 1])
def test_what_has_no_bytes_has_a_place(size: int) -> None:
    assert packed([Life("T0", size, 0, 1)]).offsets == (("T0", 0),)
