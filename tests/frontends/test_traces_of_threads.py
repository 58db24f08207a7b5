"""Threads that trace one function for different classes of arguments at the same time."""

import threading
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.threads import in_threads
from warpsmith import knobs
from warpsmith.frontends.fuse import Fused


def test_each_thread_gets_a_trace_that_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find no trace; one is kept first, and does not serve the other."""
    fused = warpsmith.fuse(lambda x, y: x + y)
    both = threading.Barrier(2, timeout=30)
    trace = Fused._trace

    def together(self: Fused, args: tuple[Any, ...]) -> Any:
        made = trace(self, args)
        both.wait()
        return made

    monkeypatch.setattr(Fused, "_trace", together)
    shapes = ((4, 8), (4, 1))
    results: dict[tuple[int, int], np.ndarray] = {}

    def call(shape: tuple[int, int]) -> None:
        with knobs.scope(device="reference"):
            results[shape] = fused(np.ones((4, 8), np.float32), np.ones(shape, np.float32))

    in_threads(call, shapes)
    assert {shape: result.shape for shape, result in results.items()} == dict.fromkeys(
        shapes, (4, 8)
    )
    assert fused.traces == 2
