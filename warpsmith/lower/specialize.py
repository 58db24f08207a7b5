"""The bodies of roles: each is lowered from its own operations, with loops of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.fusion import Fusion, Registers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Budgets, Reduce, Statement
from warpsmith.kernel.pipelines import By, Groups, OneStage, Pipeline, Section
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.roles import Branch, Role
from warpsmith.kernel.traversal import walk
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.channels import Channels
from warpsmith.lower.emit import Emitter
from warpsmith.lower.nests import Nests
from warpsmith.lower.roles import Roles
from warpsmith.lower.siblings import in_order_of_use, siblings_of
from warpsmith.lower.skips import Skips
from warpsmith.lower.threads import Threads, find_role_threads
from warpsmith.lower.vectors import Vectorizer
from warpsmith.targets.family import WARP, WARP_GROUP, Limits


def branches(
    fusion: Fusion, buffers: Buffers, roles: Roles, vectors: Vectorizer, limits: Limits
) -> tuple[Statement, ...]:
    """A branch for each role, producers first.

    Raises:
        ScheduleError: WS0249 where a role uses a stage in several buffers, WS0253 where its threads
            cannot be laid out, WS0254 where named barriers run out.
    """
    channels = Channels(fusion, buffers, roles)
    skips = Skips(buffers, channels, fusion.operations)
    siblings = siblings_of(buffers, roles)
    found: list[Branch] = []
    for name in roles.names:
        operations = in_order_of_use(roles, name)
        groups = channels.groups_along(name)
        threads = find_role_threads(operations, buffers.threads, buffers.domains, groups)
        leaves = Emitter(buffers.in_role(threads), vectors)
        nests = Nests(buffers.domains, threads, leaves, channels, skips, siblings, f"{name}_i")
        body = nests.build(operations)
        by_tma = all(op.outputs[0].copied_by.is_tma for op in operations)
        role = _role(name, threads, by_tma, body)
        found.append(Branch(role, body))
        for section in (s for s in walk(body) if isinstance(s, Section)):
            buffers.note(_order(role, section.pipeline))
    _check_turns(found)
    return _laid_out(found, limits)


def block_of(roles: Iterable[Role]) -> tuple[Expr, Expr, Expr]:
    """Threads of the block along x, y, z: all lie along x."""
    end: Expr = integers.ZERO
    for role in roles:
        if role.single:
            groups = role.first_warp // WARP_GROUP + 1
            end = integers.index(groups * WARP_GROUP * WARP)
        else:
            end = integers.add(role.first_warp * WARP, role.threads)
    return end, integers.ONE, integers.ONE


def budgets_of(registers: Registers) -> Budgets | None:
    """What is wished of the roles' registers; None leaves them what the launch gives."""
    if registers == "off":
        return None
    if registers == "auto":
        return Budgets()
    if isinstance(registers, Mapping):
        return Budgets(roles=tuple(registers.items()))
    return Budgets(pair=registers)


def _role(
    name: str,
    threads: Threads,
    by_tma: bool,
    body: Sequence[Statement],
) -> Role:
    """The role with its threads, not yet placed among the others."""
    tiles = [s for s in walk(tuple(body)) if isinstance(s, TileCopy)]
    x, y, z = (threads.extents.get(kind, integers.ONE) for kind in BLOCK_TYPES)
    if by_tma and all(tile.how.is_tma for tile in tiles):
        return Role(name, 0, (x, y, z), single=True)
    if by_tma:  # what TMA cannot copy, a warp group copies
        return Role(name, 0, (integers.index(WARP_GROUP * WARP), y, z))
    return Role(name, 0, (x, y, z), threads.groups_along)


def _order(role: Role, name: str) -> Pipeline:
    """The pipeline by which the groups of a role follow each other."""
    groups = Groups(role.groups, roles=(role.name,))
    return Pipeline(
        name=name,
        stages=role.groups,
        by=By.NOTHING,
        producer=role.name,
        consumers=(role.name,),
        groups=groups,
    )


def _laid_out(found: Sequence[Branch], limits: Limits) -> tuple[Statement, ...]:
    """Single warps first, then the roles of many threads, with their named barriers."""
    single = [branch for branch in found if branch.role.single]
    many = sorted(
        (branch for branch in found if not branch.role.single),
        key=lambda branch: not _is_whole(branch.role),
    )
    placed: list[Branch] = []
    for warp, branch in enumerate(single):
        placed.append(replace(branch, role=replace(branch.role, first_warp=warp)))
    first = WARP_GROUP * -(-len(single) // WARP_GROUP)
    barrier = 1
    for position, branch in enumerate(many):
        role = replace(branch.role, first_warp=first, barrier=barrier)
        _check_groups(role)
        placed.append(replace(branch, role=role))
        threads = integers.constant(role.threads)
        if position < len(many) - 1:
            if threads is None or threads % WARP:
                raise ScheduleError(
                    f"role `{role.name}` has {role.threads!r} threads, and so has "
                    f"`{many[-1].role.name}`: of several roles of many threads only one may have "
                    "other than whole warps, known when the kernel is compiled",
                    code="WS0253",
                    remedy=f"bind a multiple of {WARP} iterations to the block",
                )
            warps = threads // WARP
            first += WARP_GROUP * -(-warps // WARP_GROUP)
        if _meets_as_a_whole(branch):
            role = replace(role, common=barrier + role.groups)
            placed[-1] = replace(branch, role=role)
        barrier = role.barriers.stop
    if barrier > limits.named_barriers:
        groups = ", ".join(f"`{b.role.name}` {b.role.groups}" for b in many)
        raise ScheduleError(
            f"the groups of roles ({groups}) need {barrier - 1} named barriers, and a block has "
            f"{limits.named_barriers - 1} besides its own",
            code="WS0254",
            remedy="use fewer groups or roles",
        )
    return tuple(placed)


def _meets_as_a_whole(branch: Branch) -> bool:
    """Whether something is reduced across the groups of a role."""
    along = branch.role.groups_along
    reduces = (s for s in walk(branch.body) if isinstance(s, Reduce))
    return branch.role.groups > 1 and any(along in reduce.block_axes for reduce in reduces)


def _is_whole(role: Role) -> bool:
    """Whether the role's threads are whole warps, as many as is known."""
    threads = integers.constant(role.threads)
    return threads is not None and threads % WARP == 0


def _check_groups(role: Role) -> None:
    threads = integers.constant(role.group_threads)
    if role.groups > 1 and (threads is None or threads % WARP):
        raise ScheduleError(
            f"{role.groups} groups of role `{role.name}` take turns, each of "
            f"{role.group_threads!r} threads, which are not whole warps",
            code="WS0253",
            remedy=f"bind a multiple of {WARP} iterations to the other axes of the block",
        )


def _check_turns(found: Sequence[Branch]) -> None:
    """Each role fills, or uses, a stage in one place of its body."""
    for branch in found:
        seen: set[str] = set()
        for statement in walk(branch.body):
            if not isinstance(statement, OneStage):
                continue
            for name in statement.pipelines:
                if name in seen:
                    raise ScheduleError(
                        f"role `{branch.role.name}` comes by the stages of {name} in loops that "
                        "follow each other: the first would use up what the second waits for",
                        code="WS0249",
                        remedy=f"inline what reads {name} so that one loop does, or load it twice",
                    )
                seen.add(name)
