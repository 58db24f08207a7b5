"""Clusters as CUDA text: the launch bound, a block's rank, and statements about other blocks."""

from __future__ import annotations

from warpsmith.codegen.teams import Team
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.clusters import (
    MEETINGS,
    RANK,
    AnnounceStart,
    ArriveRemote,
    AwaitStart,
    ReleaseRemote,
    StoreAsync,
    SynchronizeCluster,
)
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import is_remote, walk
from warpsmith.kernel.waits import WatchedAwait
from warpsmith.targets.family import Limits


def is_of_cluster(statement: Statement) -> bool:
    """Whether `cluster_lines` prints it."""
    waits = isinstance(statement, Await) and statement.of_cluster
    return waits or isinstance(statement, MEETINGS) or is_remote(statement)


def cluster_bound(kernel: Kernel, limits: Limits) -> str:
    """What stands before the kernel's name, ` __cluster_dims__(2, 1, 1)`; empty without clusters.

    Raises InternalError for a cluster that the target does not run, and for statements about other
    blocks where there are none.
    """
    cluster, blocks = kernel.launch.cluster, kernel.launch.cluster_blocks
    if min(cluster) < 1 or blocks > limits.cluster_blocks:
        raise InternalError(f"{kernel.name}: the target runs no cluster of {cluster} blocks")
    if blocks > 1:
        return f" __cluster_dims__({', '.join(map(str, cluster))})"
    for statement in walk(kernel.body):
        if is_of_cluster(statement):
            what = type(statement).__name__
            raise InternalError(f"{kernel.name}: {what} in a launch without clusters")
    return ""


def rank_lines(kernel: Kernel, value: ValueText) -> list[str]:
    """Declares this block's rank in its cluster; alone it is 0."""
    declared = f"const {value.type_name(DataType.Index)} {RANK}"
    if kernel.launch.cluster_blocks == 1:
        return [f"{declared} = 0;"]
    value.pieces.add("cluster")
    return [f"{declared} = ws_cluster_rank();"]


def cluster_lines(statement: Statement, value: ValueText, team: Team | None) -> list[str]:
    """The lines of one statement of `kernel/clusters.py`, or of a wait of the whole cluster.

    Args:
        team: that runs it; None for an elected thread.
    """
    match statement:
        case AnnounceStart() | AwaitStart() | SynchronizeCluster():
            if team is None or team.pieces:
                what = type(statement).__name__
                raise InternalError(f"{what} is for all threads, and stands in a role")
            value.pieces.add("cluster")
            return [_meeting(statement)]
        case StoreAsync(buffer=buffer, index=index, value=stored, rank=rank):
            if statement.bytes not in (4, 8):
                raise InternalError(f"{buffer.name} has elements of no 4 or 8 bytes for st.async")
            value.pieces |= {"remote_async", "barrier"}
            place = f"{_place(buffer, index, value)}, {value(rank)}"
            barrier = _place(statement.barrier, statement.stage, value)
            return [f"ws_remote_store_async({place}, {value(stored)}, {barrier});"]
        case ArriveRemote(barrier=barrier, stage=stage, ranks=ranks):
            value.pieces.add("remote_barrier")
            place = _place(barrier, stage, value)
            return [f"ws_remote_arrive({place}, {value(rank)});" for rank in ranks]
        case ReleaseRemote(barrier=barrier, stage=stage, ranks=ranks):
            if team is None:
                raise InternalError(
                    "ReleaseRemote is for warps, and stands in a role of one thread"
                )
            value.pieces.add("remote_barrier")
            end, place = team.release, _place(barrier, stage, value)
            return [f"ws_remote_release({place}, {value(r)}{end});" for r in ranks]
        case WatchedAwait(stage=stage, site=site, limit=limit):
            value.pieces.add("cluster_watchdog")
            end = f"{site.number}, {value(stage)}, {limit}ull"
            return [f"ws_cluster_wait({_waited(statement, value)}, {end});"]
        case Await():
            value.pieces.add("remote_barrier")
            return [f"ws_cluster_wait({_waited(statement, value)});"]
    raise InternalError(f"{type(statement).__name__} is no statement about clusters")


def _meeting(statement: AnnounceStart | AwaitStart | SynchronizeCluster) -> str:
    match statement:
        case AnnounceStart():
            return "ws_cluster_started();"
        case AwaitStart():
            return "ws_cluster_await_start();"
    return f"ws_cluster_meet();{f'  // {statement.why}' if statement.why else ''}"


def _waited(wait: Await, value: ValueText) -> str:
    return f"{_place(wait.barrier, wait.stage, value)}, {value(wait.parity)}"


def _place(buffer: Buffer, index: Expr, value: ValueText) -> str:
    if buffer.memory is not MemoryType.shared:
        raise InternalError(
            f"{buffer.name} is not in shared memory, and other blocks cannot reach it"
        )
    return value.address(buffer, index)
