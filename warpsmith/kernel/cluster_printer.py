"""Statements about clusters as readable text."""

from __future__ import annotations

from warpsmith.kernel.clusters import (
    AnnounceStart,
    ArriveRemote,
    AwaitStart,
    LoadRemote,
    ReleaseRemote,
    StoreAsync,
    StoreRemote,
    SynchronizeCluster,
)
from warpsmith.kernel.nodes import Statement


def cluster_text(statement: Statement) -> str | None:
    """One statement of `kernel/clusters.py`; None for any other."""
    match statement:
        case AnnounceStart():
            return "say that the block has started"
        case AwaitStart():
            return "await the start of all blocks"
        case SynchronizeCluster(why=why):
            return f"synchronize the cluster  ({why})"
        case StoreRemote(buffer=b, index=index, value=value, rank=rank):
            return f"{b.name}[{index!r}] of block {rank!r} = {value!r}"
        case LoadRemote(target=t, target_index=to, source=s, source_index=index, rank=rank):
            return f"{t.name}[{to!r}] = {s.name}[{index!r}] of block {rank!r}"
        case StoreAsync(buffer=b, index=index, value=value, rank=rank, barrier=at, slot=slot):
            counted = f"counted at {at.name}[{slot!r}]"
            return f"{b.name}[{index!r}] of block {rank!r} = {value!r}, {counted}"
        case ArriveRemote(barrier=b, slot=slot, rank=rank):
            return f"arrive at {b.name}[{slot!r}] of block {rank!r}"
        case ReleaseRemote(barrier=b, slot=slot, rank=rank):
            return f"release {b.name}[{slot!r}] of block {rank!r}"
    return None
