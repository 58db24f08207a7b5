"""Threads for rows of few vectors."""

from random import Random

import pytest

from warpsmith.schedulers.reduction.lanes import (
    LEAST_THREADS,
    MANY,
    MOST_WORDS,
    ShortRows,
    block_of,
)
from warpsmith.targets.hopper import H200


def of(rows: int, vectors: int, vector: int, *sizes: int) -> ShortRows:
    many = rows >= MANY * H200.sm_count
    return ShortRows(many=many, vectors=vectors, vector=vector, sizes=sizes, computed=2, states=1)


@pytest.mark.parametrize("seed", range(3))
def test_threads_take_a_row_in_one_pass_with_the_registers_that_they_have(seed: int) -> None:
    source = Random(seed)
    for _ in range(40):
        vector, inputs = 2 ** source.randrange(4), source.randrange(1, 4)
        short = of(source.randrange(2, 10**6), source.randrange(1, 700), vector, *(2,) * inputs)
        if (found := block_of(short, H200)) is None:
            assert short.vectors > 512
            continue
        lanes, height, unroll, rows = found
        assert lanes * unroll >= short.vectors > lanes * (unroll - 1)
        assert unroll * inputs * max(1, vector // 2) <= MOST_WORDS
        assert height * lanes <= max(256, lanes)
        assert rows == 1 or lanes <= 32


def test_short_rows_have_several_accesses_under_way() -> None:
    lanes, _, unroll, rows = block_of(of(400_000, 19, 2, 2), H200) or (0, 0, 0, 0)
    assert lanes <= 16
    assert unroll * rows >= 4
    assert block_of(of(10**6, 8, 8, 2), H200) == (8, 32, 1, 4)


def test_rows_of_several_inputs_are_waited_for_once() -> None:
    for vectors in (125, 154, 400):
        lanes, _, unroll, _ = block_of(of(3000, vectors, 8, 2, 2, 2), H200) or (0, 0, 0, 0)
        assert lanes * unroll >= vectors


def test_few_rows_are_spread_over_multiprocessors() -> None:
    lanes, height, _, rows = block_of(of(300, 64, 8, 2), H200) or (0, 0, 0, 0)
    assert lanes * height == LEAST_THREADS
    assert 2 * 300 / (height * rows) > H200.sm_count
