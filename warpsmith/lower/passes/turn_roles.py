"""Order what roles do to the slots that pass between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from warpsmith.errors import InternalError
from warpsmith.kernel.nodes import Kernel, Statement, Synchronize
from warpsmith.kernel.rings import InitBarriers
from warpsmith.kernel.roles import Branch, Passage, Section, Skip, Turn
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.lower.turning.between import RoleRing
from warpsmith.lower.turning.loads import loads_by_tma
from warpsmith.lower.turning.orders import Orders
from warpsmith.lower.turning.parts import Statements, only_fills


def turn_roles(kernel: Kernel) -> Kernel:
    """Replace turns by waits, arrivals and cursors, and give each ring its barriers.

    Every role counts its own turns: nothing is computed from a loop's index, so roles may walk in
    different loops, and skip what they like as long as the others skip it too.

    Before::

        role load, one elected thread:
            for i < n: { one slot of T1: fill T1: T1[..] = T0[i, ..] by tma }
        role compute, 128 threads:
            for i < n: { one slot of T1: T2[i, ..] = f(T1[..]) }

    After::

        initialize ring0_full (1), ring0_empty (4);  meet
        role load, one elected thread:
            begin ring0_load
            for i < n: { await empty; fence; expect bytes; T1[slot..] = T0[i, ..];  advance }
        role compute, 128 threads:
            begin ring0_compute
            for i < n: { await full;  T2[i, ..] = f(T1[slot..]);  release empty;  advance }
    """
    found = [s for s in kernel.body if isinstance(s, Branch)]
    if not found:
        return kernel
    rings = _rings(found)
    orders = {b.role.name: Orders(b) for b in found}
    body = [_branch(branch, rings, orders[branch.role.name]) for branch in found]
    counts = [count for ring in rings for count in ring.arrivals]
    counts += [count for order in orders.values() for count in order.arrivals]
    start = (InitBarriers(tuple(counts)), Synchronize("barriers are ready")) if counts else ()
    return replace(
        kernel,
        body=(*start, *body),
        shared=(*kernel.shared, *(barrier for barrier, _ in counts)),
        rings=tuple(ring.described for ring in rings),
    )


@dataclass(frozen=True, slots=True)
class _Site:
    """A turn of a role, by its number among all turns of the kernel."""

    role: str
    number: int
    turn: Turn


def _rings(found: list[Branch]) -> list[RoleRing]:
    """Passages are one ring where the same turns fill and use them, alike."""
    sites: dict[Passage, list[_Site]] = {}
    number = 0
    for branch in found:
        for statement in walk(branch.body):
            if isinstance(statement, Turn):
                number += 1
                for passage in statement.passages:
                    sites.setdefault(passage, []).append(_Site(branch.role.name, number, statement))
    together: dict[tuple[object, ...], list[Passage]] = {}
    for passage, places in sites.items():
        wanted = [passage.producer, *passage.consumers]
        if sorted(site.role for site in places) != sorted(wanted):
            raise InternalError(f"{passage.buffer.name}: turns of {[s.role for s in places]}")
        places.sort(key=lambda site, wanted=wanted: wanted.index(site.role))  # type: ignore[misc]
        fills = only_fills(places[0].turn.body, (passage.buffer.name,))
        alike = (passage.stages, passage.groups, passage.share, passage.in_turn, passage.ring)
        key = (*(site.number for site in places), *alike, loads_by_tma(fills))
        together.setdefault(key, []).append(passage)
    roles = {branch.role.name: branch.role for branch in found}
    return [
        RoleRing(
            f"ring{number}",
            tuple(passages),
            roles,
            sites[passages[0]][0].turn.body,
            {site.role: site.turn.body for site in sites[passages[0]][1:]},
        )
        for number, passages in enumerate(together.values())
    ]


def _branch(branch: Branch, rings: list[RoleRing], orders: Orders) -> Branch:
    role = branch.role.name
    mine = [r for r in rings if role in (r.passages[0].producer, *r.passages[0].consumers)]
    body = _turned(branch.body, role, mine, orders)
    begin = [s for ring in mine for s in ring.begin(role)]
    return replace(branch, body=(*begin, *orders.begin(), *body))


def _turned(statements: Statements, role: str, rings: list[RoleRing], orders: Orders) -> Statements:
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Turn):
            body = _turned(statement.body, role, rings, orders)
            here = _of(rings, statement.passages)
            fills = [ring for ring in here if ring.passages[0].producer == role]
            uses = [ring for ring in here if ring not in fills]
            for ring in (*reversed(fills), *uses):  # each fill goes before the others
                body = ring.turned(role, body)
            result += body
        elif isinstance(statement, Skip):
            for ring in _of(rings, statement.passages):
                result += ring.skip(role)
        elif isinstance(statement, Section):
            result += orders.ordered(statement.name, _turned(statement.body, role, rings, orders))
        else:
            turned = partial(_turned, role=role, rings=rings, orders=orders)
            result.append(map_bodies(statement, turned))
    return tuple(result)


def _of(rings: list[RoleRing], passages: Iterable[Passage]) -> list[RoleRing]:
    wanted = set(passages)
    return [ring for ring in rings if wanted & set(ring.passages)]
