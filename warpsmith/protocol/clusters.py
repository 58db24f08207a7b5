"""What the check asks of the text of blocks that work together.

Where blocks of a cluster reach each other's shared memory or barriers, all of them are run
together, and what they do to each other is steps like all others.
"""

from __future__ import annotations

from typing import NoReturn

from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import (
    MEETINGS,
    AnnounceStart,
    ArriveRemote,
    AwaitStart,
    ReleaseRemote,
)
from warpsmith.kernel.elected import ELECTED_WARP
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement
from warpsmith.kernel.rings import ELECTED, Await, InitBarriers, TileCopy
from warpsmith.kernel.succession import AwaitPrevious
from warpsmith.kernel.traversal import barrier_uses, barriers, children, is_remote, walk
from warpsmith.protocol.accesses import accesses
from warpsmith.protocol.rules import Rule, broken


def runs_together(kernel: Kernel) -> bool:
    """Whether all blocks of a cluster must be run to judge one of them."""
    return kernel.launch.cluster_blocks > 1 and any(
        is_remote(each) or (isinstance(each, TileCopy) and each.multicast is not None)
        for each in walk(kernel.body)
    )


def check_clusters(kernel: Kernel) -> None:
    """Check what a run of all blocks does not show.

    Raises:
        Broken: blocks are to meet inside a role, wait for each other's threads as for their own, or
            wait for a start that they did not announce, or that not all of them come by.
    """
    _check_start(kernel)
    readers: dict[str, bool] = {}
    for each in walk(kernel.body):
        for use in barrier_uses(each):
            if use.remote:
                readers[use.barrier.name] = isinstance(each, ArriveRemote | ReleaseRemote)
    for statement in kernel.body:
        role = (statement.agent.name,) if isinstance(statement, Branch) else ()
        for each in walk((statement,)):
            _check_meeting(each, role)
            if isinstance(each, Await) and each.barrier.name in readers:
                _check_wait(each, readers[each.barrier.name], role)


def _check_wait(wait: Await, readers: bool, role: tuple[str, ...]) -> None:
    """A wait for other blocks relies on what their arrivals, or bytes, publish, and on no more.

    Args:
        readers: they arrive when they have read; else their writes are counted.
    """
    if wait.of_cluster == readers:
        broken(
            Rule.SCOPE,
            "threads of other blocks arrive once they have read, and the wait is for their writes"
            if readers
            else "threads of other blocks arrive, and the wait is for those of its own",
            "it acquires what the whole cluster did where that is published, and only there",
            roles=role,
            buffer=wait.barrier.name,
        )


def _check_meeting(statement: Statement, role: tuple[str, ...]) -> None:
    if role and isinstance(statement, MEETINGS):
        broken(
            Rule.MEETING,
            "the blocks of a cluster are to meet inside a role",
            "all threads of all blocks meet, before the roles or after them",
            roles=role,
        )


def _check_start(kernel: Kernel) -> None:
    """One barrier serves all meetings: each arrival is followed by its own wait.

    That barriers were initialized is known behind the wait, and nothing else is. So nothing else
    is done before the start is announced, and nobody waits for a barrier, uses one that it has not
    initialized itself, or reaches into another block, until it was awaited; then it is the same to
    the block as if it met at the announcement.
    """
    announced, begun = False, True
    for statement in kernel.body:
        inside = [] if isinstance(statement, Branch) else list(walk(children(statement)))
        if any(isinstance(each, AnnounceStart | AwaitStart) for each in inside):
            _unpaired("is announced or awaited under a condition or in a loop")
        match statement:
            case AnnounceStart() if announced:
                _unpaired("is announced twice")
            case AwaitStart() if not announced:
                _unpaired("is awaited, and was not announced")
            case AnnounceStart() if not begun:
                _unpaired("is announced after shared memory is used")
            case AnnounceStart() | AwaitStart():
                announced = not announced
            case _ if announced and any(isinstance(s, MEETINGS) for s in (statement, *inside)):
                _unpaired("is not awaited before blocks meet")
            case _ if announced and _is_early(statement):
                _unpaired("is not awaited before a barrier is used, or another block is reached")
        begun = begun and not any(_uses_shared(s) for s in walk((statement,)))
    if announced:
        _unpaired("is never awaited")


def _is_early(statement: Statement, *, elected: bool = False) -> bool:
    """Whether it is among what no block does before it knows that all have started: it waits, or
    reaches into another block, or uses a barrier. The elected thread uses those it initialized.
    """
    elected |= isinstance(statement, If) and statement.condition in (ELECTED, ELECTED_WARP)
    return (
        isinstance(statement, Await)
        or is_remote(statement)
        or (bool(barriers(statement)) and not elected)
        or any(_is_early(inner, elected=elected) for inner in children(statement))
    )


def _uses_shared(statement: Statement) -> bool:
    if isinstance(statement, InitBarriers | AwaitPrevious):  # which is of global memory
        return False
    return bool(accesses(statement) or barriers(statement)) or statement.collective


def _unpaired(what: str) -> NoReturn:
    broken(
        Rule.MEETING,
        f"the start of a block {what}",
        "it is announced once and awaited once, before blocks of the cluster meet",
    )
