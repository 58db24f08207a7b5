"""Lengths of a scan, and which of them take longer than a longer one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bench.problem import Problem
from bench.scan import PROBLEMS, lengths, slower, timed
from warpsmith.runtime.arrays import NUMPY_DTYPES


def test_lengths_come_from_all_parts_of_the_range():
    found = lengths(400, 8, seed=3)
    assert len(found) == 400
    assert found == sorted(found)
    assert all(length % 8 == 0 for length in found)
    assert max(b - a for a, b in pairwise(found)) < 3 * (40000 - 512) / 400
    assert found != lengths(400, 8, seed=4)


def test_a_length_is_held_against_the_fastest_longer_one():
    times = [(8, 5.0), (16, 4.0), (24, 6.0), (32, 5.5), (40, 5.5)]
    assert slower(times) == [(8, 16, 1.25), (24, 32, 6 / 5.5)]
    assert slower([(8, 1.0), (16, 2.0)]) == []


@pytest.mark.usefixtures("uncompiled")
def test_what_is_compiled_beside_others_is_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(problem: Problem) -> list[np.ndarray]:
        pairs = zip(problem.shapes, problem.dtypes, strict=True)
        return [np.zeros(shape, NUMPY_DTYPES[dtype]) for shape, dtype in pairs]

    def interleaved(calls: Mapping[str, Any], warmup: float, rep: float) -> dict[str, float]:
        columns = [call.args[0][0].shape[1] for call in calls.values()]
        return {name: 1e-3 * length for name, length in zip(calls, columns, strict=True)}

    order: list[str] = []

    @contextmanager
    def turn() -> Iterator[None]:
        order.append("turn")
        yield

    monkeypatch.setattr(Problem, "draw", draw)
    monkeypatch.setattr("bench.scan.awake", lambda: order.append("awake"))
    monkeypatch.setattr("warpsmith.testing.do_bench_interleaved", interleaved)
    make = partial(PROBLEMS["layer_norm_bwd"], 64, dtype="bfloat16")
    assert timed(make, (1024, 2048), 2.0, turn()) == pytest.approx([1024, 2048])
    assert order == ["awake", "turn"]  # nobody waits for the start of another process
