"""Locks that survive a fork, whose child has none of its parent's other threads."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any


class ProcessLock:
    """A lock among the threads of one process: a fork finds it free, whoever held it.

    What dies while memory is allocated may run any code: the thread that holds the lock may take it
    again, or fork, and no interrupt comes between taking it and what gives it back.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[int, AbstractContextManager[Any]] = {}  # by the process

    @property
    def own(self) -> AbstractContextManager[Any]:
        """The lock of this process, to be held by `with`."""
        process = os.getpid()
        return self._locks.get(process) or self._locks.setdefault(process, RLock())
