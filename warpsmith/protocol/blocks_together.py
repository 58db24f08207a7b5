"""What the check says of blocks of the grid that wait for each other, whichever starts first.

They meet at a word that counts them. All waits end, and each finds what it waits for, where

  * all blocks run at once: a launch that starts together has that, or is refused;
  * every thread of every block comes by every meeting, once each and in one order, and waits for
    nobody outside of its block in between: then those who have come by the fewest meetings go on;
  * each meeting has a word, and a place for what is exchanged, that no other statement has, and a
    word for each group of blocks that meets, whichever round they come in.
"""

from __future__ import annotations

from collections import Counter

from warpsmith.ir import integers
from warpsmith.ir.domains import GRID_TYPES
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Let
from warpsmith.kernel.reductions import Reduce, waits_in_order
from warpsmith.kernel.traversal import scratch, walk
from warpsmith.protocol.report import Told, error_of
from warpsmith.protocol.rules import Break, Broken, Rule


def check_meetings(kernel: Kernel) -> None:
    """Show that blocks wait for none that may not come.

    Raises:
        ProtocolError: WS0923, with what is reduced where they meet.
    """
    try:
        for meeting in walk(kernel.body):
            if isinstance(meeting, Reduce) and meeting.meets:
                _check(kernel, meeting)
    except Broken as broken:
        raise error_of(kernel, Told(broken.found)) from None


def _check(kernel: Kernel, meeting: Reduce) -> None:
    """Check one meeting.

    Raises:
        Broken: a block may wait for one that does not run, or does not come.
    """
    name, launch = meeting.buffers[0].name, kernel.launch
    if not launch.together:
        _broken(f"{name} is needed by blocks that need not run at once", name)
    rounds = [
        each
        for each in kernel.body
        if isinstance(each, For) and any(inner is meeting for inner in each.body)
    ]
    bodies = [kernel.body, *(each.body for each in rounds)]
    if sum(statement is meeting for body in bodies for statement in body) != 1:
        _broken(f"{name} is reduced where not every thread of every block comes by once", name)
    if launch.cluster_blocks > 1 or waits_in_order(kernel.body):
        _broken(f"{name} is reduced where blocks wait for each other in other ways, too", name)
    users = Counter(buffer.name for each in walk(kernel.body) for buffer in scratch(each))
    for buffer in (meeting.workspace, meeting.semaphore):
        if buffer is None or users[buffer.name] != 1:
            _broken(f"{name} is reduced at words that other statements have, too", name)
    axes = zip(GRID_TYPES, launch.grid, strict=True)
    apart = (extent for kind, extent in axes if kind not in meeting.grid_axes)
    if rounds:
        if not _is_round(kernel, meeting, rounds[0]):
            _broken(
                f"{name} is reduced in a loop in which blocks may meet at words of others", name
            )
    elif meeting.semaphore is None or meeting.semaphore.size != integers.mul(*apart):
        _broken(f"{name} is reduced by groups of blocks of which not each has a word", name)
    elif meeting.shared is not None:
        _broken(f"{name} is reduced at words that do not follow from the place of a block", name)


def _is_round(kernel: Kernel, meeting: Reduce, loop: For) -> bool:
    """Whether blocks of one place along the first axis of the grid have the same rounds, in each of
    which they meet at words of a group that no others have: its number is their place, and grows
    from round to round by as many places as there are, until it is that of all groups.
    """
    if meeting.grid_axes != GRID_TYPES[1:2] or kernel.launch.grid[2] != integers.ONE:
        return False
    at_once, splits, _ = kernel.launch.grid
    place, share = (
        Symbol(kind.name, extent=extent)
        for kind, extent in zip(GRID_TYPES[:2], (at_once, splits), strict=True)
    )
    lets = (each for each in (*kernel.body, *loop.body) if isinstance(each, Let))
    named: dict[Expr, Expr] = {**dict(kernel.derived), **{let.symbol: let.value for let in lets}}
    shared, word = meeting.shared, meeting.semaphore
    if shared is None or word is None:
        return False
    group = integers.add(place, integers.mul(loop.symbol, at_once))
    rounds = integers.ceildiv(integers.sub(word.size, place), at_once)
    wanted = (rounds, share, splits, integers.mul(group, splits), group)
    found = (loop.extent, shared.number, shared.count, shared.place, shared.segment)
    return all(
        _written_out(each, named) == _written_out(other, named)
        for each, other in zip(found, wanted, strict=True)
    )


def _written_out(value: Expr, named: dict[Expr, Expr]) -> Expr:
    """A value without names that statements give."""
    while (further := substitute(value, named)) != value:
        value = further
    return value


def _broken(got: str, buffer: str) -> None:
    wanted = "all blocks run at once, and each comes by every meeting once, at words of its own"
    raise Broken(Break(rule=Rule.TOGETHER, got=got, wanted=wanted, buffer=buffer))
