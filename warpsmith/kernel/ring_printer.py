"""Statements about rings as readable text."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import (
    Advance,
    Arrive,
    Await,
    AwaitClock,
    AwaitCopies,
    Begin,
    Commit,
    Expect,
    FenceProxy,
    InitBarriers,
    InvalidateBarriers,
    Jump,
    Release,
    StartClock,
    TileCopy,
)
from warpsmith.kernel.roles import Skip


def ring_text(statement: Statement) -> str:
    """One statement of `kernel/rings.py`; the name of its class where it has no words."""
    match statement:
        case TileCopy():
            return _tile(statement)
        case Begin(cursor=cursor, slot=slot):
            start = "" if slot == integers.ZERO else f", from slot {slot!r}"
            return f"begin {cursor.name}, {cursor.stages} slots{start}"
        case Advance(cursor=cursor, by=by):
            return f"advance {cursor.name}{f' by {by}' if by > 1 else ''}"
        case Jump(cursor=cursor, by=by):
            return f"advance {cursor.name} by {by!r}"
        case InitBarriers(arrivals=arrivals):
            counts = ((b.name, "one a warp" if n is None else n) for b, n in arrivals)
            return f"initialize {', '.join(f'{name} ({count})' for name, count in counts)}"
        case InvalidateBarriers(barriers=barriers):
            return f"invalidate {', '.join(b.name for b in barriers)}"
        case Expect(barrier=b, slot=slot, bytes=amount, arrives=arrives):
            return (
                f"{'arrive and ' if arrives else ''}expect {amount!r} bytes at {b.name}[{slot!r}]"
            )
        case Await(barrier=b, slot=slot, parity=parity, of_cluster=of_cluster):
            whose = " of the cluster" if of_cluster else ""
            return f"await {b.name}[{slot!r}] parity {parity!r}{whose}"
        case StartClock():
            return "start the clock"
        case AwaitClock(times=times, nanoseconds=nanoseconds):
            return f"await {times!r} times {nanoseconds} ns on the clock"
        case Release(barrier=b, slot=slot):
            return f"release {b.name}[{slot!r}]"
        case Arrive(barrier=b, slot=slot):
            return f"arrive at {b.name}[{slot!r}]"
        case Skip(passages=passages):
            return f"skip the other groups' slots of {', '.join(p.buffer.name for p in passages)}"
        case FenceProxy(of_cluster=of_cluster):
            return f"fence for the TMA unit{' of the cluster' if of_cluster else ''}"
        case Commit(bulk=bulk):
            return f"commit {'bulk ' if bulk else ''}copies"
        case AwaitCopies(bulk=bulk, pending=pending):
            return f"await {'bulk ' if bulk else ''}copies but {pending} groups"
    return type(statement).__name__


def _tile(copy: TileCopy) -> str:
    box = ", ".join(
        f"{d.first!r} +{d.box}{f' by {d.step}' if d.step > 1 else ''}" for d in copy.dims
    )
    memory, shared = f"{copy.memory.name}[{box}]", f"{copy.shared.name}[{copy.index!r} ..]"
    target, source = (memory, shared) if copy.stores else (shared, memory)
    counted = f" at {copy.barrier[0].name}[{copy.barrier[1]!r}]" if copy.barrier else ""
    return f"{target} = {source} by {copy.how.value}{counted}"
