"""What the check, which runs one block, says of blocks that work together.

Where the blocks of a cluster meet, the threads of each one do. Blocks do alike: what one does to
the shared memory of others is taken as done to its own. So a meeting of the cluster is missed where
the block itself needs one, and not where only its start or its end does. Barriers at which other
blocks arrive cannot be judged by one block, and are refused.
"""

from __future__ import annotations

from typing import NoReturn

from warpsmith.kernel.clusters import (
    ArriveRemote,
    ReleaseRemote,
    StoreAsync,
    SynchronizeCluster,
)
from warpsmith.kernel.nodes import Kernel
from warpsmith.kernel.rings import Await
from warpsmith.kernel.roles import Branch
from warpsmith.kernel.traversal import walk
from warpsmith.protocol.rules import Break, Broken, Rule


def check_clusters(kernel: Kernel) -> None:
    """Check what needs no run.

    Raises:
        Broken: blocks arrive at each other's barriers, or are to meet inside a role.
    """
    for statement in kernel.body:
        role = (statement.role.name,) if isinstance(statement, Branch) else ()
        for each in walk((statement,)):
            match each:
                case SynchronizeCluster() if role:
                    _broken(
                        Rule.MEETING,
                        "the blocks of a cluster are to meet inside a role",
                        "all threads of all blocks meet, before the roles or after them",
                        role,
                    )
                case ArriveRemote(barrier=barrier) | ReleaseRemote(barrier=barrier):
                    _refused(f"arrivals at {barrier.name} of another block", role, barrier.name)
                case StoreAsync(barrier=barrier):
                    _refused(f"bytes for {barrier.name} of another block", role, barrier.name)
                case Await(barrier=barrier, of_cluster=True):
                    _refused(f"a wait for other blocks at {barrier.name}", role, barrier.name)


def _refused(what: str, roles: tuple[str, ...], barrier: str) -> NoReturn:
    _broken(
        Rule.CLUSTER,
        f"{what} cannot be judged",
        "the simulator runs whole clusters",
        roles,
        barrier,
    )


def _broken(
    rule: Rule, got: str, wanted: str, roles: tuple[str, ...], buffer: str = ""
) -> NoReturn:
    raise Broken(Break(rule=rule, got=got, wanted=wanted, roles=roles, buffer=buffer))
