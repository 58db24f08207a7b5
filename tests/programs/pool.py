"""Work of several processes, each item under a time limit; a process that hangs is replaced."""

from __future__ import annotations

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


@dataclass(slots=True)
class _Worker(Generic[Item]):
    process: Any
    door: Connection
    item: Item | None = None
    deadline: float = 0.0


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    jobs: int,
    seconds: float,
    spoils: Callable[[Result], bool] = lambda result: False,
) -> Iterator[tuple[Item, Result | Lost]]:
    """`function` of every item, by `jobs` new processes, as they finish.

    A process that is not done with an item after `seconds` is killed, and so is one whose result
    `spoils` it for others.
    """
    context = multiprocessing.get_context("spawn")

    def started() -> _Worker[Item]:
        mine, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(function, theirs, seconds), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine)

    waiting = iter(items)
    workers = [started() for _ in range(jobs)]
    try:
        for worker in workers:
            _hand_out(worker, waiting, seconds)
        while any(worker.item is not None for worker in workers):
            busy = {worker.door: worker for worker in workers if worker.item is not None}
            soonest = min(worker.deadline for worker in busy.values())
            ready = wait(list(busy), timeout=max(soonest - time.monotonic(), 0.0))
            for worker in list(busy.values()):
                item = worker.item
                assert item is not None
                late = time.monotonic() > worker.deadline
                if worker.door in ready:
                    try:
                        result = worker.door.recv()
                    except (EOFError, ConnectionError):
                        worker.process.join()
                        result = Lost(f"the process died ({worker.process.exitcode})", False)
                elif late:
                    result = Lost(f"no result after {seconds:.0f} s", True)
                else:
                    continue
                if isinstance(result, Lost) or spoils(result):
                    worker.process.kill()
                    workers[workers.index(worker)] = worker = started()
                _hand_out(worker, waiting, seconds)
                yield item, result
    finally:
        for worker in workers:
            worker.process.kill()


def _hand_out(worker: _Worker[Item], waiting: Iterator[Item], seconds: float) -> None:
    worker.item = next(waiting, None)
    worker.deadline = time.monotonic() + seconds
    if worker.item is not None:
        worker.door.send(worker.item)


def _serve(function: Callable[[Any], Any], door: Connection, seconds: float) -> None:
    """Give results, and tell where all threads are when one takes half as long as it may."""
    while True:
        try:
            item = door.recv()
        except (EOFError, ConnectionError):
            return
        faulthandler.dump_traceback_later(seconds / 2)
        result = function(item)
        faulthandler.cancel_dump_traceback_later()
        door.send(result)
