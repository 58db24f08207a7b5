"""Order what threads, copies and products do to memory: barriers, waits, fences and groups."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.ordering.explain import orders, starts
from warpsmith.lower.ordering.plan import planned


def order(kernel: Kernel) -> Kernel:
    """Put what every dependence through shared memory needs, and no more.

    Rules:
      MEET    threads meet between an access and one by other threads that depends on it, as late as
              may be; where stages are turned, a barrier of another iteration between them counts.
      GROUP   copies of threads, stores by the TMA unit and products run in groups: committed once a
              turn, waited for before the barrier, the arrival or the access that relies on them.
      FENCE   what threads wrote, and the TMA unit or wgmma reads, they fence before they meet, or
              before they say that a stage is full. What threads read, and the TMA unit overwrites,
              is fenced by the one thread that asks for the copy.
      DELAY   one group of products stays on its way from iteration to iteration; the stages that it
              reads are released an iteration later.
      CLUSTER all blocks of the cluster meet before one reaches into another's memory, so that all
              have started, and before any of them ends.

    Before, with two stages::

        for i: { T1[stage..] = f(..);  if elected: { T2[i, ..] = T1[stage..] by tma };  advance }

    After::

        for i: { T1[stage..] = f(..);  fence;  if elected: { await all stores };  meet
                 if elected: { T2[i, ..] = T1[stage..] by tma;  commit };  advance }
        if elected: { await all stores }

    Each role's statements are ordered on their own, and its threads, not those of the block, meet.
    Between roles only rings pass memory. The scratch of `Reduce` is ordered by the reduction.

    Raises:
        InternalError: an edge that nothing can order where it is.
    """
    if not kernel.shared or kernel.orders:
        return kernel
    plan = planned(kernel)
    found = orders(plan)
    if plan.scopes[0].agent is None:
        body = plan.scopes[0].root.statements()
    else:
        bodies = {scope.name: scope.root.statements() for scope in plan.scopes}
        body = kernel.map_branches(lambda b: replace(b, body=bodies[b.agent.name])).body
    if not found and body == kernel.body:
        return kernel
    body, started = starts(body, found)
    return replace(kernel, body=body, orders=(*started, *found))
