"""Locks that survive a fork, whose child has none of its parent's other threads."""

from __future__ import annotations

import os
from threading import RLock
from types import TracebackType
from typing import Any


class ProcessLock:
    """A lock among the threads of one process: a fork finds it free, whoever held it.

    The thread that holds it may take it again: what dies while memory is allocated may run any
    code.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[int, Any] = {}  # by the process

    def __enter__(self) -> None:
        process = os.getpid()
        lock = self._locks.get(process) or self._locks.setdefault(process, RLock())
        lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._locks[os.getpid()].release()
