"""What the check says of blocks of the grid that wait for each other, such as those of a scan.

They wait for what blocks with lower numbers give. That ends, whatever the order of events, where

  * a block takes its number when it runs, before it waits for any other block: then all lower
    numbers belong to blocks that run, or are done, and so go on however few have room at once;
  * all blocks come by all waits, once each and in one order. Of what is waited for at a wait, a
    block gives its own part before it waits there, or when all with lower numbers have given
    theirs: the lowest one that waits anywhere has nobody to wait for.

What they give lies in a workspace that no other statement has, under words of its own.
"""

from __future__ import annotations

from collections import Counter

from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.reductions import ScanElements, waits_in_order
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile
from warpsmith.kernel.traversal import scratch, walk
from warpsmith.protocol.report import Told, error_of
from warpsmith.protocol.rules import Break, Broken, Rule


def check_numbers(kernel: Kernel) -> None:
    """Show that blocks wait for none of the grid that may not have started.

    Raises:
        ProtocolError: WS0921, with what a block waits by.
    """
    try:
        for wait in waits_in_order(kernel.body):
            _check(kernel, wait)
    except Broken as broken:
        raise error_of(kernel, Told(broken.found)) from None


def _check(kernel: Kernel, wait: ScanElements) -> None:
    """Check one wait.

    Raises:
        Broken: a block may wait for one that has not started, or for what nobody gives.
    """
    body, name = kernel.body, wait.buffers[0].name
    where = next((n for n, statement in enumerate(body) if statement is wait), None)
    if where is None or kernel.launch.cluster_blocks > 1:
        _broken(f"{name} is waited for where not every block comes by once, by itself", name)
    reads = [s for s in body[:where] if isinstance(s, ReadTile) and s.symbol == wait.block_number]
    if len(reads) != 1:
        _broken(f"{name} is waited for by {wait.block_number!r}, which no counter gives", name)
    taken = [s for s in walk(body) if isinstance(s, TakeTile)]
    before = [s for s in walk(body[: body.index(reads[0])]) if isinstance(s, TakeTile)]
    if len(taken) != 1 or taken != before or taken[0].target != reads[0].source:
        _broken(f"{name} is waited for by a number that is not the one that the block took", name)
    blocks = kernel.launch.grid[0]
    if taken[0].count != integers.ZERO or kernel.launch.grid[1:] != (integers.ONE,) * 2:
        _broken(f"{name} is waited for by numbers of which a block takes one of many", name)
    users = Counter(b.name for s in walk(body) for b in scratch(s))
    for buffer in (wait.workspace, wait.semaphore):
        if buffer is None or users[buffer.name] != 1:
            _broken(f"{name} is waited for at words that other statements have, too", name)
    if wait.semaphore is None or wait.semaphore.size != blocks:
        _broken(f"{name} is waited for at words of which not each block has one", name)


def _broken(got: str, buffer: str) -> None:
    wanted = (
        "each block takes its number from a counter, once and first of all, and comes by every "
        "wait once"
    )
    raise Broken(Break(rule=Rule.NUMBERS, got=got, wanted=wanted, buffer=buffer))
