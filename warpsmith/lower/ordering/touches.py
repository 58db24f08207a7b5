"""What each statement does to memory: by which proxy, when it is done, and which threads do it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.clusters import LoadRemote, StoreAsync, StoreRemote
from warpsmith.kernel.nodes import (
    Accumulate,
    Buffer,
    CopyVector,
    Element,
    Reduce,
    Statement,
    Store,
    WelfordMerge,
    WelfordStep,
)
from warpsmith.kernel.products import Multiply, StoreMatrix
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import expressions


class Proxy(Enum):
    """The way by which memory is reached; accesses by different ones need a fence between."""

    GENERIC = "generic"
    ASYNC = "async"


class Done(Enum):
    """When an access is over."""

    AT_ONCE = "at once"
    COPIES = "cp.async group"
    STORES = "bulk group"
    BYTES = "bytes at an mbarrier"
    PRODUCTS = "product group"


class Who(Enum):
    """The threads that take part in one access, and how its elements are theirs."""

    EACH = "each thread"
    """Each thread elements of its own choice."""

    TOGETHER = "the threads together"
    """Each thread what its number says, whoever needs it."""

    WARP = "each warp"
    GROUP = "a warp group"
    ONE = "one thread"


@dataclass(frozen=True, slots=True)
class Touch:
    """What one statement does to one buffer.

    Attributes:
        index: first element, or the one; decides the slot.
        what: the instruction, in words.
        remote: it is done to the memory of another block of the cluster.
    """

    buffer: Buffer
    index: Expr
    writes: bool
    proxy: Proxy
    done: Done
    who: Who
    what: str
    remote: bool = False


def touches(statement: Statement) -> Iterator[Touch]:
    """What a statement itself does, its children aside."""
    for expr in expressions(statement):
        for node in expr.walk():
            if isinstance(node, Element):
                yield _plain(node.buffer, node.index, writes=False)
    match statement:
        case Store(buffer=buffer, index=index):
            yield _plain(buffer, index, writes=True)
        case Accumulate(buffer=buffer, index=index):
            yield _plain(buffer, index, writes=False)
            yield _plain(buffer, index, writes=True)
        case CopyVector():
            yield _plain(statement.source, statement.source_index, writes=False)
            yield _copied(statement)
        case WelfordStep(mean=mean, m2=m2, count=count, index=index):
            yield from (_plain(buffer, index, writes=True) for buffer in (mean, m2, count))
        case WelfordMerge(mean=mean, m2=m2, count=count, index=index):
            yield from (_plain(buffer, index, writes=True) for buffer in (mean, m2, count))
        case Reduce(buffers=buffers, index=index):
            yield from (_plain(buffer, index, writes=True) for buffer in buffers)
        case TileCopy():
            yield from _tile(statement)
        case Multiply(accumulators=accumulators, index=index, a=a, b=b):
            read = (Proxy.ASYNC, Done.PRODUCTS, Who.GROUP, "wgmma reads")
            yield Touch(a.buffer, a.index, False, *read)
            yield Touch(b.buffer, b.index, False, *read)
            sums = (Proxy.ASYNC, Done.PRODUCTS, Who.GROUP, "wgmma accumulates")
            yield Touch(accumulators, index, True, *sums)
        case StoreMatrix(target=target, target_index=to, source=source, source_index=index):
            yield _plain(source, index, writes=False)
            yield Touch(target, to, True, Proxy.GENERIC, Done.AT_ONCE, Who.WARP, "stmatrix writes")
        case StoreRemote(buffer=buffer, index=index):
            yield _remote(buffer, index, writes=True)
        case StoreAsync(buffer=buffer, index=index):
            sent = _remote(buffer, index, writes=True)
            yield replace(sent, done=Done.BYTES, what="threads send to another block")
        case LoadRemote():
            yield _remote(statement.source, statement.source_index, writes=False)
            yield _plain(statement.target, statement.target_index, writes=True)


def _plain(buffer: Buffer, index: Expr, *, writes: bool) -> Touch:
    what = "threads write" if writes else "threads read"
    return Touch(buffer, index, writes, Proxy.GENERIC, Done.AT_ONCE, Who.EACH, what)


def _remote(buffer: Buffer, index: Expr, *, writes: bool) -> Touch:
    what = f"threads {'write' if writes else 'read'} in another block"
    return replace(_plain(buffer, index, writes=writes), what=what, remote=True)


def _copied(copy: CopyVector) -> Touch:
    if not copy.asynchronous:
        return _plain(copy.target, copy.target_index, writes=True)
    how = (Proxy.GENERIC, Done.COPIES, Who.EACH, "cp.async writes")
    return Touch(copy.target, copy.target_index, True, *how)


def _tile(copy: TileCopy) -> Iterator[Touch]:
    into = not copy.stores
    if copy.how.is_tma:
        done = Done.BYTES if into else Done.STORES
        name = "TMA load writes" if into else "TMA store reads"
        yield Touch(copy.shared, copy.index, into, Proxy.ASYNC, done, Who.ONE, name)
        name = "TMA load reads" if into else "TMA store writes"
        yield Touch(copy.memory, integers.ZERO, not into, Proxy.ASYNC, done, Who.ONE, name)
        return
    asynchronous = copy.how is LoadStoreOpType.cp_async
    done = Done.COPIES if asynchronous else Done.AT_ONCE
    name = f"{'cp.async' if asynchronous else 'threads'} {'write' if into else 'read'}"
    name += "s" if asynchronous else ""
    yield Touch(copy.shared, copy.index, into, Proxy.GENERIC, done, Who.TOGETHER, name)
    yield Touch(
        copy.memory, integers.ZERO, not into, Proxy.GENERIC, Done.AT_ONCE, Who.TOGETHER, name
    )
