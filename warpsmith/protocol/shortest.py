"""The shortest run that breaks a rule, to be told in place of one that is long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warpsmith.errors import ProtocolError
from warpsmith.kernel.kernel import Kernel
from warpsmith.protocol.extract import skeleton_of
from warpsmith.protocol.launched import launch_values
from warpsmith.protocol.memory import check_shared
from warpsmith.protocol.report import Told, error_of, history_of
from warpsmith.protocol.resources import check_resources
from warpsmith.protocol.rules import Break, Broken
from warpsmith.protocol.sizes import Block, shortened, sizes_for, symbols_of
from warpsmith.targets.family import Limits

SHORTEST = 40
"""Iterations up to which shorter runs are sought that go wrong in the same way."""

LONGEST_TOLD = 1 << 16
"""Steps of all actors up to which a run is kept to be told."""


def explained(
    kernel: Kernel, values: Mapping[str, int], block: Block, found: Break, limits: Limits
) -> ProtocolError:
    """The error, with the shortest run that breaks the same rule at the same place."""
    own = _told(kernel, values, block, limits, found)
    if own is None or own.skeleton is None:
        return error_of(kernel, Told(found) if own is None else own)
    wanted = _kind(own)
    similar: Told | None = None
    for count in range(SHORTEST):
        for short, sizes in _shorter(kernel, values, block, count):
            told = _told(short, sizes, block, limits)
            if told is None or told.skeleton is None:
                continue
            if told.skeleton.steps < own.skeleton.steps and _kind(told) == wanted:
                return error_of(kernel, told)
            if told.found.rule is found.rule:
                similar = similar or told
    if own.skeleton.steps > LONGEST_TOLD and similar is not None:
        return error_of(kernel, similar)
    return error_of(kernel, own)


def _shorter(
    kernel: Kernel, values: Mapping[str, int], block: Block, count: int
) -> Iterable[tuple[Kernel, Mapping[str, int]]]:
    """The kernel in which no loop that sizes, or constants, decide runs more than so often."""
    names = tuple(name for name in symbols_of(kernel) if name in values)
    sizes = sizes_for(kernel, values, block, names, count)
    if sizes is not None:
        least = {name: min(size, values[name]) for name, size in sizes.items()}
        yield kernel, least
        yield shortened(kernel, count), least
    yield shortened(kernel, count), values


def _told(
    kernel: Kernel,
    values: Mapping[str, int],
    block: Block,
    limits: Limits,
    found: Break | None = None,
) -> Told | None:
    """How a kernel breaks a rule; None if it does not.

    Args:
        found: the break, if it is known: a run that is too long is told by it alone.
    """
    known = launch_values(kernel, values, block)
    try:
        check_shared(kernel, known, limits)
        check_resources(kernel, known, limits)
        skeleton = skeleton_of(kernel, known)
    except Broken as broken:
        return Told(broken.found)
    if skeleton.steps > LONGEST_TOLD:
        return Told(found, skeleton) if found is not None else None
    run = history_of(skeleton)
    if run is None:
        return None
    sizes = ", ".join(f"{name}={value}" for name, value in values.items())
    where = f"block {block}{f' with {sizes}' if sizes else ''}:"
    return Told(run[0], skeleton, run[1], where)


def _kind(told: Told) -> tuple[object, ...]:
    """What must be the same in a shorter run."""
    found, skeleton = told.found, told.skeleton
    if skeleton is None:
        return (found.rule, found.got)
    barrier = skeleton.barriers[found.barrier].name if found.barrier >= 0 else ""
    place = skeleton.places[found.place].buffer if found.place >= 0 else ""
    actor = skeleton.actors[found.actor].role if found.actor >= 0 else ""
    return (found.rule, barrier, place, actor)
