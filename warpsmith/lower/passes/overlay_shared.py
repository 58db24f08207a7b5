"""Let buffers of shared memory that are never alive together have the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, If, Statement, Synchronize
from warpsmith.kernel.pipelines import Scope
from warpsmith.kernel.rings import (
    ELECTED,
    AwaitCopies,
    FenceProxy,
    InitBarriers,
    InvalidateBarriers,
    TileCopy,
)
from warpsmith.kernel.traversal import barriers, read, walk, written
from warpsmith.layouts.lifetimes import Life, packed
from warpsmith.values import dataclass

LEAST_SAVED = 1024
"""Bytes for which threads meet once more. A block's share is handed out in units of 128."""


def overlay_shared(kernel: Kernel) -> Kernel:
    """Place buffers by their lifetimes, counted in statements of the kernel's outermost list.

    A buffer that takes over another one's bytes waits until all threads are done with the old one.
    Barriers live as long as their ring: those whose bytes are taken over are invalidated, and those
    that take over bytes are initialized then, not at the kernel's start.

    Before::

        for i turns T1 of 64 KiB: ...
        for j turns T2 of 64 KiB: ...

    After, with 64 KiB in all::

        for i: ...
        fence; meet; if elected: { invalidate ring0's barriers; initialize ring1's }; meet
        for j: ...

    Scratch of reductions, and what no ring guards, keep bytes of their own: their barriers stand
    already, and no barrier is added for them; so does what blocks of a cluster fill for each other,
    some of which are ahead of others. Roles run at the same time, and so all their buffers are
    alive together.
    """
    if kernel.branches:
        return kernel
    lives = _lifetimes(kernel)
    if any(integers.constant(life.buffer.size) is None for life in lives):
        return kernel  # where one ends the launch decides
    if not any(a.span.last < b.span.first for a in lives for b in lives):
        return kernel
    offsets = packed([life.span for life in lives])
    placed = [_Place(life, offsets[life.buffer.name]) for life in lives]
    taken = [
        (old, new)
        for old in placed
        for new in placed
        if old.life.span.last < new.life.span.first and old.meets(new)
    ]
    apart = sum(life.span.size for life in lives)
    together = max(place.offset + place.life.span.size for place in placed)
    if not taken or apart - together < LEAST_SAVED:
        return kernel
    late = {new.life.buffer.name for _, new in taken}
    body: list[Statement] = []
    ended: set[str] = set()
    for position, statement in enumerate(kernel.body):
        news = [new for _, new in taken if new.life.span.first == position]
        if news:
            olds = [old for old, new in taken if new in news and old.life.buffer.name not in ended]
            body += _handover(kernel, olds, news)
            ended |= {old.life.buffer.name for old in olds}
        body += _without_late(statement, late)
    return replace(kernel, body=tuple(body), offsets=tuple(offsets.items()))


@dataclass(frozen=True, slots=True)
class _Life:
    """A guarded buffer, and the outermost statements that it is alive in, as a span of them."""

    buffer: Buffer
    span: Life
    arrivals: Expr | None = integers.ZERO


@dataclass(frozen=True, slots=True)
class _Place:
    """A life at its offset."""

    life: _Life
    offset: int

    def meets(self, other: _Place) -> bool:
        """Whether the two have bytes in common."""
        return self.offset < other.offset + other.life.span.size and (
            other.offset < self.offset + self.life.span.size
        )


def _lifetimes(kernel: Kernel) -> list[_Life]:
    """Lives of the guarded buffers, the largest first."""
    inits = [s for s in kernel.body if isinstance(s, InitBarriers)]
    arrivals = {b.name: n for init in inits for b, n in init.arrivals}
    seen: dict[str, list[int]] = {}
    for position, statement in enumerate(kernel.body):
        if isinstance(statement, InitBarriers):
            continue
        for inner in walk((statement,)):
            for buffer in (*read(inner), *written(inner), *barriers(inner)):
                seen.setdefault(buffer.name, []).append(position)
    apart = {
        name
        for pipeline in kernel.pipelines
        if pipeline.scope is Scope.CLUSTER
        for name in (*pipeline.names, *(barrier.name for barrier in pipeline.barriers))
    }
    lives = [
        _Life(b, _span(b, seen[b.name]), arrivals.get(b.name, integers.ZERO))
        for b in kernel.shared
        if b.guarded and b.name in seen and b.name not in apart
    ]
    return sorted(lives, key=lambda life: (-life.buffer.alignment, -life.span.size))


def _span(buffer: Buffer, positions: Sequence[int]) -> Life:
    size = (integers.constant(buffer.size) or 0) * buffer.dtype.size
    return Life(buffer.name, size, min(positions), max(positions), max(buffer.alignment, 16))


def _handover(kernel: Kernel, olds: list[_Place], news: list[_Place]) -> list[Statement]:
    """Meet before bytes change hands, and again where barriers do.

    `olds` are the owners that have not given up their memory to somebody else before.
    """
    names = ", ".join(dict.fromkeys(old.life.buffer.name for old in olds))
    result: list[Statement] = []
    stored = {
        s.shared.name
        for s in walk(kernel.body)
        if isinstance(s, TileCopy) and s.stores and s.how.is_tma
    }
    if any(old.life.buffer.name in stored for old in olds):
        result.append(If(ELECTED, (AwaitCopies(bulk=True),)))
    if olds:
        result += [FenceProxy(), Synchronize(f"{names} give up their memory")]
    gone = dict.fromkeys(old.life.buffer for old in olds if old.life.arrivals != integers.ZERO)
    fresh = {
        new.life.buffer: new.life.arrivals for new in news if new.life.arrivals != integers.ZERO
    }
    if gone:
        result.append(InvalidateBarriers(tuple(gone)))
        if not fresh:
            result.append(Synchronize("its barriers are gone"))
    if fresh:
        result += [InitBarriers(tuple(fresh.items())), Synchronize("barriers are ready")]
    return result


def _without_late(statement: Statement, late: set[str]) -> list[Statement]:
    """The statement, initializing no barriers that do not have their bytes yet."""
    if not isinstance(statement, InitBarriers):
        return [statement]
    arrivals = tuple((b, n) for b, n in statement.arrivals if b.name not in late)
    return [replace(statement, arrivals=arrivals)] if arrivals else []
