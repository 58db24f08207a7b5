"""Let reductions across threads that wait for nothing of each other be one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import (
    Buffer,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Let,
    Statement,
    Store,
)
from warpsmith.kernel.reductions import Accumulate, Reduce, WelfordStep
from warpsmith.kernel.traversal import map_bodies, read, walk, written
from warpsmith.values import dataclass

_CROSSED = (
    Accumulate,
    CopyVector,
    Declare,
    For,
    If,
    Let,
    Store,
    WelfordStep,
)
"""Statements past which a reduction may move, if they do not touch what it reduces."""


def join_reductions(kernel: Kernel) -> Kernel:
    """Reduce several values at once, where the first are not needed before the last are there.

    Each reduction across warps has its threads meet twice, whatever the number of its values. It
    takes place where the last of those that it joins stood, and what is done with the results of
    the first ones behind it. Only reductions of one operation over the same axes of the block, in
    one list of statements, are joined; and those for which all blocks of a grid meet.

    Before::

        reduce T1 by sum over block_x;  T2[0] = f(..);  reduce T2 by sum over block_x

    After::

        T2[0] = f(..);  T1_T2[0] = T1[0];  T1_T2[1] = T2[0]
        reduce T1_T2 by sum over block_x;  T1[0] = T1_T2[0];  T2[0] = T1_T2[1]
    """
    joined = _Joined()
    body = _statements(kernel.body, joined)
    if not joined.gone:
        return kernel
    shared, parameters = (
        tuple(buffer for buffer in buffers if buffer.name not in joined.gone)
        for buffers in (kernel.shared, kernel.parameters)
    )
    return replace(
        kernel,
        body=body,
        shared=(*shared, *joined.made),
        parameters=(*parameters, *joined.workspaces),
    )


@dataclass(slots=True)
class _Joined:
    """Scratch that is not needed any more, by name, and what is needed instead: in shared memory,
    and in that of the grid.
    """

    gone: set[str] = field(default_factory=set)
    made: list[Buffer] = field(default_factory=list)
    workspaces: list[Buffer] = field(default_factory=list)


def _statements(statements: tuple[Statement, ...], joined: _Joined) -> tuple[Statement, ...]:
    result: list[Statement] = []
    waiting: list[Reduce] = []
    later: list[Statement] = []

    def take_place() -> None:
        result.extend((*_together(waiting, joined), *later))
        waiting.clear()
        later.clear()

    for statement in statements:
        statement = map_bodies(statement, lambda body: _statements(body, joined))
        if not (_crosses(statement, waiting) and _passes(statement, later)):
            if _uses(statement):
                later.append(statement)
                continue
            take_place()
        if isinstance(statement, Reduce) and _is_joined(statement):
            if waiting and not _alike(waiting[0], statement):
                take_place()
            waiting.append(statement)
            continue
        result.append(statement)
    take_place()
    return tuple(result)


def _uses(statement: Statement) -> bool:
    """Whether a statement only moves values between registers and global memory."""
    inner = tuple(walk((statement,)))
    return all(isinstance(each, If | Store | CopyVector) for each in inner) and all(
        buffer.memory in (MemoryType.local, MemoryType.global_)
        for each in inner
        for buffer in (*read(each), *written(each))
    )


def _passes(statement: Statement, later: Sequence[Statement]) -> bool:
    """Whether a statement may as well come before such uses of results."""
    inner, others = tuple(walk((statement,))), tuple(walk(tuple(later)))
    changed = {buffer.name for each in inner for buffer in written(each)}
    used = {buffer.name for each in inner for buffer in read(each)} | changed
    return changed.isdisjoint(b.name for each in others for b in read(each)) and used.isdisjoint(
        b.name for each in others for b in written(each)
    )


def _is_joined(reduce: Reduce) -> bool:
    alone = not reduce.grid_axes or reduce.meets
    return alone and not reduce.kept and len(reduce.buffers) == 1


def _crosses(statement: Statement, waiting: Sequence[Reduce]) -> bool:
    """Whether the reductions may as well come after the statement."""
    own = {buffer.name for reduce in waiting for buffer in reduce.buffers}
    return not own or all(
        isinstance(inner, (*_CROSSED, Reduce))
        and (inner is statement or not inner.collective)
        and own.isdisjoint(buffer.name for buffer in (*read(inner), *written(inner)))
        for inner in walk((statement,))
    )


def _alike(first: Reduce, other: Reduce) -> bool:
    a, b = first.buffers[0], other.buffers[0]
    return (first.carry, first.block_axes, first.grid_axes, first.blocks, a.dtype) == (
        other.carry,
        other.block_axes,
        other.grid_axes,
        other.blocks,
        b.dtype,
    )


def _together(waiting: Sequence[Reduce], joined: _Joined) -> list[Statement]:
    """The reductions as one, between the copies of their values."""
    if len(waiting) < 2:
        return list(waiting)
    first = waiting[0]
    values = [
        (reduce.buffers[0], integers.add(reduce.index, k))
        for reduce in waiting
        for k in range(reduce.elements)
    ]
    names = [reduce.buffers[0].name for reduce in waiting]
    size = integers.index(len(values))
    packed = Buffer("_".join(names), first.buffers[0].dtype, MemoryType.local, size)
    room = integers.add(*(reduce.scratch.size for reduce in waiting))
    scratch = replace(first.scratch, name=f"{packed.name}_scratch", size=room)
    joined.gone |= {reduce.scratch.name for reduce in waiting}
    joined.made.append(scratch)
    into = (Store(packed, integers.index(k), Element(*value)) for k, value in enumerate(values))
    back = (
        Store(buffer, index, Element(packed, integers.index(k)))
        for k, (buffer, index) in enumerate(values)
    )
    reduce = replace(
        first,
        buffers=(packed,),
        index=integers.ZERO,
        elements=len(values),
        scratch=scratch,
    )
    if first.workspace is not None and first.semaphore is not None:
        reduce = replace(reduce, workspace=_of_all(waiting, joined, packed.name))
        joined.gone |= {each.semaphore.name for each in waiting[1:] if each.semaphore is not None}
    return [Declare(packed), *into, reduce, *back]


def _of_all(waiting: Sequence[Reduce], joined: _Joined, name: str) -> Buffer:
    """Global memory through which blocks exchange the values of several reductions."""
    old = [each.workspace for each in waiting if each.workspace is not None]
    joined.gone |= {buffer.name for buffer in old}
    made = replace(
        old[0], name=f"{name}_parts", size=integers.add(*(buffer.size for buffer in old))
    )
    joined.workspaces.append(made)
    return made
