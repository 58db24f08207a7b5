"""Walks over the Kernel form: what statements hold, read and write, and how to rewrite them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.scalar import Apply, Expr, Symbol, substitute
from warpsmith.kernel.clusters import (
    ArriveRemote,
    LoadRemote,
    ReleaseRemote,
    StoreAsync,
    StoreRemote,
)
from warpsmith.kernel.nodes import (
    Accumulate,
    Buffer,
    CopyVector,
    Element,
    For,
    If,
    Let,
    Reduce,
    Statement,
    Store,
    WelfordMerge,
    WelfordStep,
)
from warpsmith.kernel.products import AwaitProducts, FenceProducts, Multiply, StoreMatrix
from warpsmith.kernel.rings import (
    Advance,
    Arrive,
    Await,
    AwaitClock,
    Begin,
    Drain,
    Expect,
    Fill,
    InitBarriers,
    Jump,
    Release,
    TileCopy,
)
from warpsmith.kernel.roles import Branch, Section, Turn

_PARENTS = For | If | Fill | Drain | Branch | Turn | Section

THREADS = tuple(Symbol(kind.name) for kind in BLOCK_TYPES)
"""Indices of a thread in its block, which every role counts for itself."""


def children(statement: Statement) -> tuple[Statement, ...]:
    """Statements inside a statement."""
    return statement.body if isinstance(statement, _PARENTS) else ()


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, parents first."""
    for statement in statements:
        yield statement
        yield from walk(children(statement))


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """Scalar expressions that a statement itself holds (not those of its children)."""
    match statement:
        case Let(value=value):
            return (value,)
        case For(extent=extent):
            return (extent,)
        case If(condition=condition):
            return (condition,)
        case Store(index=index, value=value) | Accumulate(index=index, value=value):
            return (index, value)
        case CopyVector(target_index=target, source_index=source):
            return (target, source)
        case WelfordStep(index=index, count_index=count, values=values, batch=batch):
            return (index, count, *values, *((batch.step,) if batch else ()))
        case WelfordMerge(index=index, part=part):
            return (index, *part)
        case Reduce(index=index, fresh=fresh):
            return (index,) if fresh is None else (index, fresh)
        case TileCopy(index=index, dims=dims, inside=inside, condition=condition, barrier=barrier):
            places = [e for dim in dims for e in (dim.first, dim.size, dim.stride)]
            return (index, *places, inside, condition, *((barrier[1],) if barrier else ()))
        case Expect(slot=slot, bytes=amount):
            return (slot, amount)
        case Await(slot=slot, parity=parity):
            return (slot, parity)
        case AwaitClock(times=times):
            return (times,)
        case Release(slot=slot) | Arrive(slot=slot) | Begin(slot=slot):
            return (slot,)
        case Jump(by=by):
            return (by,)
        case InitBarriers(arrivals=arrivals):
            return tuple(count for _, count in arrivals if count is not None)
        case Multiply(index=index, a=a, b=b, keep=keep):
            return (index, a.index, b.index, keep)
        case StoreMatrix(target_index=target, source_index=source):
            return (target, source)
        case StoreRemote(index=index, value=value, rank=rank):
            return (index, value, rank)
        case LoadRemote(target_index=target, source_index=source, rank=rank):
            return (target, source, rank)
        case StoreAsync(index=index, value=value, rank=rank, slot=slot):
            return (index, value, rank, slot)
        case ArriveRemote(slot=slot, rank=rank) | ReleaseRemote(slot=slot, rank=rank):
            return (slot, rank)
    return ()


def map_expressions(statement: Statement, new: Callable[[Expr], Expr]) -> Statement:
    """The statement, and all inside it, with `new` applied to every scalar expression."""
    match statement:
        case Let(symbol=symbol, value=value):
            return Let(symbol, new(value))
        case For(symbol=symbol, extent=extent, body=body, unroll=unroll, turns=turns):
            inner = tuple(map_expressions(s, new) for s in body)
            return For(symbol, new(extent), inner, unroll, turns)
        case If(condition=condition, body=body, uniform=uniform):
            return If(new(condition), tuple(map_expressions(s, new) for s in body), uniform)
        case Fill() | Drain() | Branch() | Turn() | Section():
            return replace(statement, body=tuple(map_expressions(s, new) for s in statement.body))
        case Store(buffer=buffer, index=index, value=value):
            return Store(buffer, new(index), new(value))
        case Accumulate(op=op, buffer=buffer, index=index, value=value):
            return Accumulate(op, buffer, new(index), new(value))
        case CopyVector() | StoreMatrix():
            return replace(
                statement,
                target_index=new(statement.target_index),
                source_index=new(statement.source_index),
            )
        case WelfordStep(batch=batch):
            return replace(
                statement,
                index=new(statement.index),
                count_index=new(statement.count_index),
                values=tuple(new(value) for value in statement.values),
                batch=batch and replace(batch, step=new(batch.step)),
            )
        case WelfordMerge(part=(mean, m2, count)):
            part = (new(mean), new(m2), new(count))
            return replace(statement, index=new(statement.index), part=part)
        case Reduce(index=index, fresh=fresh):
            fresh = None if fresh is None else new(fresh)
            return replace(statement, index=new(index), fresh=fresh)
        case TileCopy(dims=dims, barrier=barrier):
            return replace(
                statement,
                index=new(statement.index),
                dims=tuple(
                    replace(d, first=new(d.first), size=new(d.size), stride=new(d.stride))
                    for d in dims
                ),
                inside=new(statement.inside),
                condition=new(statement.condition),
                barrier=barrier and (barrier[0], new(barrier[1])),
            )
        case Expect():
            return replace(statement, slot=new(statement.slot), bytes=new(statement.bytes))
        case Await():
            return replace(statement, slot=new(statement.slot), parity=new(statement.parity))
        case AwaitClock():
            return replace(statement, times=new(statement.times))
        case Release() | Arrive() | Begin():
            return replace(statement, slot=new(statement.slot))
        case Jump():
            return replace(statement, by=new(statement.by))
        case InitBarriers(arrivals=arrivals):
            counts = tuple((b, None if n is None else new(n)) for b, n in arrivals)
            return replace(statement, arrivals=counts)
        case Multiply(index=index, a=a, b=b, keep=keep):
            return replace(
                statement,
                index=new(index),
                a=replace(a, index=new(a.index)),
                b=replace(b, index=new(b.index)),
                keep=new(keep),
            )
        case StoreRemote(index=index, value=value, rank=rank):
            return replace(statement, index=new(index), value=new(value), rank=new(rank))
        case LoadRemote(target_index=target, source_index=source, rank=rank):
            target, source, rank = new(target), new(source), new(rank)
            return replace(statement, target_index=target, source_index=source, rank=rank)
        case StoreAsync(index=index, value=value, rank=rank, slot=slot):
            index, value, rank, slot = new(index), new(value), new(rank), new(slot)
            return replace(statement, index=index, value=value, rank=rank, slot=slot)
        case ArriveRemote(slot=slot, rank=rank) | ReleaseRemote(slot=slot, rank=rank):
            return replace(statement, slot=new(slot), rank=new(rank))
    return statement


def replace_symbols(statement: Statement, mapping: dict[Expr, Expr]) -> Statement:
    """The statement, and all inside it, with symbols replaced, in indices of elements too."""

    def new(expr: Expr) -> Expr:
        if isinstance(expr, Element):
            return Element(expr.buffer, new(expr.index))
        if isinstance(expr, Apply) and any(isinstance(node, Element) for node in expr.walk()):
            return Apply(expr.op, tuple(map(new, expr.args)), expr.dtype)
        return substitute(expr, mapping)

    return map_expressions(statement, new)


def defined(statement: Statement) -> tuple[Symbol, ...]:
    """Names that a statement gives a value, or a new one."""
    match statement:
        case For(symbol=symbol) | Let(symbol=symbol):
            return (symbol,)
        case Reduce(last=last) if last is not None:
            return (last,)
        case Begin(cursor=cursor) | Advance(cursor=cursor) | Jump(cursor=cursor):
            return cursor.symbols
        case Branch():
            return THREADS
    return ()


def written(statement: Statement) -> tuple[Buffer, ...]:
    """Buffers that a statement itself writes."""
    match statement:
        case Store(buffer=buffer) | Accumulate(buffer=buffer):
            return (buffer,)
        case StoreRemote(buffer=buffer) | StoreAsync(buffer=buffer):
            return (buffer,)
        case CopyVector(target=target) | LoadRemote(target=target):
            return (target,)
        case WelfordStep(mean=mean, m2=m2, count=count, batch=batch):
            collected = (batch.shift, batch.sum, batch.squares) if batch else ()
            return (mean, m2, count, *collected)
        case WelfordMerge(mean=mean, m2=m2, count=count):
            return (mean, m2, count)
        case Reduce(buffers=buffers):
            return buffers
        case TileCopy(shared=shared, memory=memory, stores=stores):
            return (memory if stores else shared,)
        case Multiply(accumulators=accumulators):
            return (accumulators,)
        case FenceProducts(accumulators=changed) | AwaitProducts(accumulators=changed):
            return changed
        case StoreMatrix(target=target):
            return (target,)
    return ()


def barriers(statement: Statement) -> tuple[Buffer, ...]:
    """Barriers that a statement itself arms, waits at or arrives at."""
    match statement:
        case Expect(barrier=barrier) | Await(barrier=barrier):
            return (barrier,)
        case Release(barrier=barrier) | Arrive(barrier=barrier):
            return (barrier,)
        case TileCopy(barrier=(barrier, _)):
            return (barrier,)
        case ArriveRemote(barrier=barrier) | ReleaseRemote(barrier=barrier):
            return (barrier,)
        case StoreAsync(barrier=barrier):
            return (barrier,)
    return ()


def read(statement: Statement) -> tuple[Buffer, ...]:
    """Buffers that a statement itself reads."""
    found = [
        node.buffer
        for expr in expressions(statement)
        for node in expr.walk()
        if isinstance(node, Element)
    ]
    match statement:
        case CopyVector(source=source) | LoadRemote(source=source):
            found.append(source)
        case Accumulate(buffer=buffer):
            found.append(buffer)
        case Reduce(buffers=buffers):
            found.extend(buffers)
        case TileCopy(shared=shared, memory=memory, stores=stores):
            found.append(shared if stores else memory)
        case Multiply(accumulators=accumulators, a=a, b=b):
            found.extend((accumulators, a.buffer, b.buffer))
        case FenceProducts(accumulators=changed) | AwaitProducts(accumulators=changed):
            found.extend(changed)
        case StoreMatrix(source=source):
            found.append(source)
    return tuple(found)
