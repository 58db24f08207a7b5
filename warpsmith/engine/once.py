"""What several ask for and one makes."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is made by whoever asks first, while the others wait for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: list[T] = []

    def __call__(self, make: Callable[[], T]) -> T:
        with self._lock:
            if not self._made:
                self._made.append(make())
            return self._made[0]
