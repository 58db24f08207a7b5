"""A bar on standard error while the kernels of a call are compiled, where that takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from warpsmith.knobs import Knobs

AFTER_S = 2.0
"""Seconds for which nothing is shown."""


class Bar:
    """A bar on a terminal, which is gone when it is closed."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("warpsmith compiles kernels"),
            BarColumn(),
            MofNCompleteColumn(),
            console=Console(file=stream),
            transient=True,
            redirect_stdout=False,  # what the user's program prints is not ours
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("kernels", total=None)
        self._progress.start()

    def draw(self, done: int, total: int) -> None:
        """Show how many of all kernels are there."""
        self._progress.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


class Counter:
    """Counts kernels that are compiled, by any threads, and draws a bar once that takes long.

    Args:
        open_bar: gives the bar, when it is first drawn.
        clock: seconds.
    """

    def __init__(
        self, total: int, open_bar: Callable[[], Bar], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total, self._done = total, 0
        self._open = open_bar
        self._bar: Bar | None = None
        self._clock, self._start = clock, clock()
        self._closed = False
        self._lock = threading.Lock()

    def finished(self) -> None:
        """One more is there."""
        with self._lock:
            self._done += 1
            self._draw()

    def look(self) -> None:
        """Draw, if it is time."""
        with self._lock:
            self._draw()

    def close(self) -> None:
        """Nothing is drawn from now on, and no bar is left."""
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.close()

    def _draw(self) -> None:
        if self._closed or self._clock() - self._start < AFTER_S:
            return
        if self._bar is None:
            self._bar = self._open()
        self._bar.draw(self._done, self._total)


@contextmanager
def counted(total: int, knobs: Knobs) -> Iterator[Callable[[], None]]:
    """What is to be called as each of so many kernels is there. Only on a terminal a bar is shown,
    and only while the knob `progress` is on.
    """
    stream = sys.stderr
    if not total or not knobs.progress or stream is None or not stream.isatty():
        yield lambda: None
        return
    counter = Counter(total, lambda: Bar(stream))
    timer = threading.Timer(AFTER_S, counter.look)
    timer.daemon = True
    timer.start()
    try:
        yield counter.finished
    finally:
        timer.cancel()
        counter.close()
