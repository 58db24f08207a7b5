"""What the check says of kernels that start while the one before them still runs."""

from __future__ import annotations

from typing import NoReturn

from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.succession import AwaitPrevious, touched_globally
from warpsmith.kernel.traversal import walk, written
from warpsmith.protocol.report import Told, error_of
from warpsmith.protocol.rules import Broken, Rule, broken


def check_start(kernel: Kernel) -> None:
    """Show that a kernel that is launched early touches no global memory before it may.

    Raises:
        ProtocolError: WS0918, with the buffer that is touched.
    """
    try:
        await_first(kernel)
    except Broken as failure:
        raise error_of(kernel, Told(failure.found)) from None


def await_first(kernel: Kernel) -> None:
    """Check what needs no run.

    All threads come by every statement of the kernel's own body. Those inside others count as
    touches and as nothing else, so a wait that only some threads or roles come by is none.

    Raises:
        Broken: global memory is touched before the wait, or nobody waits.
    """
    if not kernel.early:
        return
    for statement in walk(kernel.body):
        for buffer in written(statement):
            if buffer.name in kernel.settled:
                _unawaited(f"{buffer.name} is read before the wait, and written", buffer.name)
    for statement in kernel.body:
        if isinstance(statement, AwaitPrevious):
            return
        touched = touched_globally(statement, kernel.settled)
        if touched:
            partly = any(isinstance(each, AwaitPrevious) for each in walk((statement,)))
            _unawaited(
                f"{touched[0]} is touched "
                + ("where only some threads have waited" if partly else "before the wait"),
                touched[0],
            )
    _unawaited("it never waits", "")


def _unawaited(got: str, buffer: str) -> NoReturn:
    wanted = "all threads wait for the kernel before, which may still run"
    broken(Rule.START, got, wanted, buffer=buffer)
