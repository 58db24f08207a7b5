"""Nodes of the Kernel form.

A kernel is a tree of frozen statements over buffers. Conditions, indices and values are scalar
expressions (`ir/scalar.py`); `Element` reads a buffer in one. Each class says what it becomes in
CUDA. Statements that every thread of the block must reach together say so (`collective`), and that
those of a warp are enough (`of_warps`).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.integers import TRUE, ZERO
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.effects import (
    WRITE,
    Done,
    Effect,
    Orders,
    access,
    body,
    defines,
    expression,
    plain,
    reads,
    writes,
)
from warpsmith.kernel.forms import Declared
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one tensor. `size` counts elements; local ones become register arrays.

    Attributes:
        guarded: the accesses are ordered by a pipeline, and need no other barrier.
        alignment: bytes that a shared buffer's address is a multiple of.
        packed: bools in registers take a bit each.
    """

    name: str
    dtype: DataType
    memory: MemoryType
    size: Expr
    written: bool = True
    guarded: bool = False
    alignment: int = 16
    packed: bool = False


COPIED = Effect(writes=True, done=Done.COPIES, words="cp.async writes")
"""By `cp.async` of threads that each choose their elements."""


class Element(Expr):
    """The value of `buffer[index]`."""

    __slots__ = ("args", "buffer", "index")

    def __init__(self, buffer: Buffer, index: Expr) -> None:
        self.buffer = buffer
        self.index = index
        self.args = (index,)
        self.dtype = buffer.dtype
        self._hash = hash((Element, buffer.name, index))

    def __reduce__(self) -> tuple[Any, ...]:
        return Element, (self.buffer, self.index)

    def key(self) -> tuple[object, ...]:
        return (self.buffer.name, self.index)

    def __repr__(self) -> str:
        return f"{self.buffer.name}[{self.index!r}]"


@dataclass(frozen=True, slots=True)
class Statement(Declared, orders=Orders.NOTHING):
    """Base of the statements.

    Attributes:
        number: by which `Kernel.orders` knows a statement that orders others; 0 for all others.
    """

    collective: ClassVar[bool] = False
    of_warps: ClassVar[bool] = False

    number: int = field(default=0, compare=False, repr=False, kw_only=True, metadata=plain())


@dataclass(frozen=True, slots=True)
class Declare(Statement, orders=Orders.NOTHING):
    """A local buffer comes into being, uninitialized: `T buffer[size];`"""

    words = "{buffer.name}: {buffer.dtype}[{buffer.size}] {buffer.memory}{buffer.packed: bits}"

    buffer: Buffer = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """A named value that does not change: `const T symbol = value;`"""

    words = "{symbol} = {value}"

    symbol: Symbol = field(metadata=defines())
    value: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class For(Statement):
    """A counted loop from 0; `unroll` becomes `#pragma unroll`, else the loop stays rolled, with
    `together` iterations in a row.

    `pipelines` names those of which each iteration passes a stage, until they are lowered.
    """

    words = "for {symbol} < {extent}{unroll: unrolled}{pipelines: passes %}"

    symbol: Symbol = field(metadata=defines())
    extent: Expr = field(metadata=expression())
    body: tuple[Statement, ...] = field(metadata=body())
    unroll: bool = field(metadata=plain())
    pipelines: tuple[str, ...] = field(default=(), metadata=plain())
    together: int = field(default=1, metadata=plain())


@dataclass(frozen=True, slots=True)
class If(Statement):
    """Statements that run where `condition` holds.

    None of them is collective, unless the condition is `uniform`: equal in all threads of a block.
    """

    words = "if {condition}"

    condition: Expr = field(metadata=expression())
    body: tuple[Statement, ...] = field(metadata=body())
    uniform: bool = field(default=False, metadata=plain())


@dataclass(frozen=True, slots=True)
class Store(Statement):
    """`buffer[index] = value;`"""

    words = "{buffer} = {value}"

    buffer: Buffer = field(metadata=writes("index"))
    index: Expr = field(metadata=expression())
    value: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class CopyVector(Statement):
    """`width` adjacent elements in one memory access; the types of both sides are equal.

    A `streaming` load leaves no copy in L1; what an `evict_last` one brings into the L2 is
    the last to go. An `asynchronous` one, from global to shared memory, is `cp.async`; where it
    is not `inside`, it writes zeros and reads nothing.

    A load from `anywhere` may begin between multiples of its size in a source of so many elements,
    and before or end behind it: it takes accesses of 8 bytes, and what is outside is anything. One
    that goes `around` begins inside of it, and goes on behind its end at its beginning.

    A store of more than 16 bytes is `by_pairs` where neighbouring lanes have neighbouring vectors:
    two lanes exchange parts, so that each access of a warp writes whole sectors.
    """

    words = "{target} = {source} x{width}{by_pairs:, by pairs}"

    target: Buffer = field(metadata=access("copied", "target_index", "width"))
    target_index: Expr = field(metadata=expression())
    source: Buffer = field(metadata=reads("source_index", "width"))
    source_index: Expr = field(metadata=expression())
    width: int = field(metadata=plain())
    streaming: bool = field(default=False, metadata=plain())
    evict_last: bool = field(default=False, metadata=plain())
    asynchronous: bool = field(default=False, metadata=plain())
    inside: Expr = field(default=TRUE, metadata=expression())
    anywhere: Expr = field(default=ZERO, metadata=expression())
    around: bool = field(default=False, metadata=plain())
    by_pairs: bool = field(default=False, metadata=plain())

    @property
    def copied(self) -> Effect:
        """What becomes of the target."""
        return COPIED if self.asynchronous else WRITE


@dataclass(frozen=True, slots=True)
class PrefetchVector(Statement, orders=Orders.NOTHING):
    """What a thread loads later comes to the L2: `prefetch.global`. No result depends on it."""

    words = "prefetch {source.name}[{index}]"

    source: Buffer = field(metadata=plain())
    index: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class Synchronize(Statement, orders=Orders.MEETING):
    """All threads of the block meet; within the body of a role, those of its group."""

    collective: ClassVar[bool] = True
    words = "synchronize  ({why})"
    why: str = field(default="", metadata=plain())


@dataclass(frozen=True, slots=True)
class Comment(Statement, orders=Orders.NOTHING):
    """A line of words in the CUDA text."""

    words = "# {text}"

    text: str = field(metadata=plain())
