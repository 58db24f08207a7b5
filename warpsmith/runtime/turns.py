"""Turns of threads that compile kernels: one runs Python, until it waits for NVRTC.

Threads that share Python evenly all come late to NVRTC, which needs none of it. NVRTC itself has
threads of its own, no more than there are cores: each takes tens of MiB while it compiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock

_HELD: ContextVar[Lock | None] = ContextVar("_HELD", default=None)
"""The turn that a thread has."""


@contextmanager
def taken(turn: Lock) -> Iterator[None]:
    """What runs inside has the turn, but for where it gives it up."""
    with turn:
        token = _HELD.set(turn)
        try:
            yield
        finally:
            _HELD.reset(token)


@contextmanager
def given_up() -> Iterator[None]:
    """What runs inside has no turn, whether or not what is around it has one."""
    turn = _HELD.get()
    if turn is None:
        yield
        return
    token = _HELD.set(None)
    turn.release()
    try:
        yield
    finally:
        turn.acquire()
        _HELD.reset(token)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def compilers() -> ThreadPoolExecutor:
    """The threads of this process in which NVRTC compiles, one a core, whoever asks."""
    return _compilers(os.getpid())


@lru_cache(maxsize=1)
def _compilers(process: int) -> ThreadPoolExecutor:
    """By the process: a fork has none of its parent's threads."""
    return ThreadPoolExecutor(cores(), "warpsmith-nvrtc")
