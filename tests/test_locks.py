"""Locks of a process, and of the one that it forks while a thread holds them."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.threads import in_threads
from warpsmith.locks import ProcessLock
from warpsmith.runtime.disk import Limited
from warpsmith.runtime.recent import Kind, Recent
from warpsmith.sim import library

SECONDS = 5.0


def in_fork(work: Callable[[], None]) -> int:
    """The exit status of a fork that does the work; it is killed where it takes too long."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    end = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def forked_while_held(lock: ProcessLock, work: Callable[[], None]) -> int:
    """The same, while another thread of this process holds a lock."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock.own:
            held.set()
            over.wait(2 * SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(SECONDS)
    try:
        return in_fork(work)
    finally:
        over.set()
        thread.join()


def keeps(folder: Path) -> tuple[ProcessLock, Callable[[], None]]:
    kind = Kind(lambda knobs: 4)
    cache: Recent[int, int] = Recent(kind)

    def work() -> None:
        cache.put(1, 1)

    return kind._lock, work


def writes(folder: Path) -> tuple[ProcessLock, Callable[[], None]]:
    limited = Limited(folder, 100)
    return limited._lock, lambda: limited.added(1)


def simulates(folder: Path) -> tuple[ProcessLock, Callable[[], None]]:
    def work() -> None:
        library.library()

    library.library()
    return library._LOADING, work


@pytest.mark.parametrize("case", [keeps, writes, simulates])
def test_a_fork_goes_on_while_a_thread_holds_a_lock(
    case: Callable[[Path], tuple[ProcessLock, Callable[[], None]]], tmp_path: Path
) -> None:
    assert forked_while_held(*case(tmp_path)) == 0


def test_a_thread_that_forks_while_it_holds_a_lock_gives_it_back_in_both() -> None:
    lock = ProcessLock()

    def free() -> bool:
        taken = threading.Event()

        def take() -> None:
            with lock.own:
                taken.set()

        threading.Thread(target=take, daemon=True).start()
        return taken.wait(SECONDS)

    child = -1
    try:
        with lock.own:
            child = os.fork()
        status = 0 if free() else 1
    except BaseException:
        status = 2
    if child == 0:
        os._exit(status)
    assert (status, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) == (0, 0)


def test_threads_exclude_each_other() -> None:
    lock, seen = ProcessLock(), [0]

    def work(_: int) -> None:
        for _ in range(50):
            with lock.own, lock.own:
                before = seen[0]
                time.sleep(0)
                seen[0] = before + 1

    in_threads(work, range(4))
    assert seen == [200]
