"""Work of several processes, each item under a time limit; a process that hangs is replaced."""

import faulthandler
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Lost:
    """An item without a result.

    Attributes:
        reason: why, in words; `hung` says that it took longer than it may.
    """

    reason: str
    hung: bool


START_S = 120.0
"""Seconds in which a process must have imported what it needs: no item's time."""


@dataclass(slots=True)
class _Worker(Generic[Item]):
    """A process, which says when it is ready, and then takes one item after the other.

    Attributes:
        extra: seconds that its first item may take longer.
    """

    process: Any
    door: Connection
    extra: float
    ready: bool = False
    item: Item | None = None
    deadline: float = 0.0

    def take(self, item: Item | None, seconds: float) -> None:
        """Have the item next; it is sent once the process is ready."""
        self.item = item
        if item is None:
            return
        self.deadline = time.monotonic() + (seconds + self.extra if self.ready else START_S)
        if self.ready:
            self.extra = 0.0
            self.door.send(item)


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    jobs: int,
    seconds: float,
    first: float = 0.0,
    spoils: Callable[[Result], bool] = lambda result: False,
) -> Iterator[tuple[Item, Result | Lost]]:
    """`function` of every item, by `jobs` new processes, as they finish.

    A process that is not done with an item after `seconds` is killed, and so is one whose result
    `spoils` it for others.

    Args:
        first: seconds that the first item of a process may take longer.
    """
    context = multiprocessing.get_context("spawn")

    def started() -> _Worker[Item]:
        mine, theirs = context.Pipe()
        given = (function, theirs, seconds)
        process = context.Process(target=_serve, args=given, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine, first)

    waiting = iter(items)
    workers = [started() for _ in range(jobs)]
    try:
        for worker in workers:
            worker.take(next(waiting, None), seconds)
        while any(worker.item is not None for worker in workers):
            busy = {worker.door: worker for worker in workers if worker.item is not None}
            soonest = min(worker.deadline for worker in busy.values())
            wait(list(busy), timeout=max(soonest - time.monotonic(), 0.0))
            for worker in list(busy.values()):
                item = worker.item
                assert item is not None
                late = time.monotonic() > worker.deadline
                if worker.door.poll():  # asked last: what came late came
                    try:
                        result = worker.door.recv()
                    except (EOFError, ConnectionError):
                        worker.process.join()
                        result = Lost(f"the process died ({worker.process.exitcode})", False)
                elif late:
                    limit = f"{seconds:.0f} s" if worker.ready else f"{START_S:.0f} s of its start"
                    result = Lost(f"no result after {limit}", True)
                else:
                    continue
                if not (worker.ready or isinstance(result, Lost)):
                    worker.ready = True
                    worker.take(item, seconds)
                    continue
                if isinstance(result, Lost) or spoils(result):
                    worker.process.kill()
                    workers[workers.index(worker)] = worker = started()
                worker.take(next(waiting, None), seconds)
                yield item, result
    finally:
        for worker in workers:
            worker.process.kill()


def _serve(function: Callable[[Any], Any], door: Connection, seconds: float) -> None:
    """Say that all is imported, then give results, and tell where all threads are when one takes
    half as long as it may.
    """
    door.send(None)
    while True:
        try:
            item = door.recv()
        except (EOFError, ConnectionError):
            return
        faulthandler.dump_traceback_later(seconds / 2)
        result = function(item)
        faulthandler.cancel_dump_traceback_later()
        door.send(result)
