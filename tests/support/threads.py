"""Threads that do the same at once."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

_T = TypeVar("_T")


def in_threads(work: Callable[[_T], None], each: Collection[_T]) -> None:
    """Call `work` of each of these in a thread of its own, all at once; raises what it raises."""
    ready = Barrier(len(each))

    def begin(one: _T) -> None:
        ready.wait()
        work(one)

    with ThreadPoolExecutor(len(each)) as pool:
        list(pool.map(begin, each))
