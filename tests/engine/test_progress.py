"""A bar is shown on a terminal, and only where compiling takes more than two seconds."""

import io
import sys
import threading
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import ops
from warpsmith.engine import progress
from warpsmith.engine.progress import Counter, counted
from warpsmith.knobs import Knobs


class Recorded:
    """A bar that nobody sees."""

    def __init__(self) -> None:
        self.drawn: list[tuple[int, int]] = []
        self.closed = 0

    def draw(self, done: int, total: int) -> None:
        self.drawn.append((done, total))

    def close(self) -> None:
        self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error from now on; a fixture comes before pytest puts its own in place."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def counter(clock: Clock) -> tuple[Counter, list[Recorded]]:
    opened: list[Recorded] = []

    def bar() -> Any:
        opened.append(Recorded())
        return opened[-1]

    return Counter(3, bar, clock), opened


def test_nothing_is_shown_for_two_seconds() -> None:
    clock = Clock()
    counting, opened = counter(clock)
    clock.now += 1.99
    counting.finished()
    counting.look()
    counting.close()
    assert opened == []


def test_then_a_bar_shows_what_is_there() -> None:
    clock = Clock()
    counting, opened = counter(clock)
    counting.finished()
    clock.now += 2
    counting.look()
    counting.finished()
    counting.close()
    (bar,) = opened
    assert bar.drawn == [(1, 3), (2, 3)]
    assert bar.closed == 1


def test_nothing_is_drawn_behind_the_end() -> None:
    clock = Clock()
    counting, opened = counter(clock)
    counting.close()
    clock.now += 5
    counting.look()
    assert opened == []


def test_a_terminal_has_the_bar_and_then_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    seen = terminal(monkeypatch)
    with counted(3, Knobs()) as finished:
        finished()
        finished()
    assert "warpsmith compiles kernels" in seen.getvalue()
    assert seen.getvalue().endswith("\x1b[2K")  # the line is erased


@pytest.mark.parametrize("case", ["a pipe", "the knob is off", "nothing to compile"])
def test_nothing_is_shown_elsewhere(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    seen: io.StringIO = terminal(monkeypatch)
    if case == "a pipe":
        seen = io.StringIO()
        monkeypatch.setattr(sys, "stderr", seen)
    threads = threading.active_count()
    total = 0 if case == "nothing to compile" else 3
    with counted(total, Knobs(progress=case != "the knob is off")) as finished:
        assert threading.active_count() == threads
        finished()
    assert seen.getvalue() == ""


def test_a_call_counts_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Recorded] = []

    def bar(stream: object) -> Recorded:
        bars.append(Recorded())
        return bars[-1]

    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "Bar", bar)
    terminal(monkeypatch)

    def several(x: Any, w: Any) -> Any:
        y = ops.linear(x, w)
        return y / ops.sum(y, [1], keepdim=True)

    given = [np.ones((64, 64), np.float16)] * 2
    kernels = warpsmith.fuse(several).lower(*given).compile().kernels
    assert len(kernels) == 2
    assert max(bars[-1].drawn) == (2, 2)
    assert all(bar.closed == 1 for bar in bars)
