"""Turns of threads that compile kernels: one runs Python, until it waits for NVRTC.

Threads that share Python evenly all come late to NVRTC, which needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
