"""The words by which the fields of a statement say what they are.

A field of a `Declared` class has a declaration in its metadata: it holds statements or scalar
expressions, defines names, is memory that the statement touches, a barrier that it uses, or plain::

    @dataclass(frozen=True, slots=True)
    class Store(Statement):
        buffer: Buffer = field(metadata=writes("index"))
        index: Expr = field(metadata=expression())
        value: Expr = field(metadata=expression())

`kernel/forms.py` collects the declarations of a class once, as it is defined. Walks, rewriting,
printing, the order of accesses and the protocol check know statements by them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from warpsmith.values import dataclass

KEY = "declaration"
"""Of a field's metadata."""


class Proxy(Enum):
    """The way by which memory is reached; accesses by different ones need a fence between."""

    GENERIC = "generic"
    ASYNC = "async"


class Done(Enum):
    """When an access is over: at once, or by which wait."""

    AT_ONCE = "at once"
    COPIES = "cp.async group"
    STORES = "bulk group"
    BYTES = "bytes at an mbarrier"
    PRODUCTS = "product group"


class Who(Enum):
    """The threads that issue one access, and how its elements are theirs."""

    EACH = "each thread"
    """Each thread elements of its own choice."""

    TOGETHER = "the threads together"
    """Each thread what its number says, whoever needs it."""

    WARP = "each warp"
    GROUP = "a warp group"
    ONE = "one thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How a buffer is touched; what is both read and written is updated.

    Attributes:
        words: the instruction.
        remote: the buffer is that of another block of the cluster.
    """

    reads: bool = False
    writes: bool = False
    proxy: Proxy = Proxy.GENERIC
    done: Done = Done.AT_ONCE
    who: Who = Who.EACH
    words: str
    remote: bool = False


READ = Effect(reads=True, words="threads read")
WRITE = Effect(writes=True, words="threads write")
UPDATE = Effect(reads=True, writes=True, words="threads update")


class Verb(Enum):
    """What a statement does at a barrier."""

    INIT = "begins its life"
    END = "ends its life"
    EXPECT = "says how many bytes are to come"
    ARRIVE = "arrives"
    COUNT = "has its bytes counted"
    WAIT = "waits for the end of a phase"


class Orders(Enum):
    """What a statement is to others besides what its fields say."""

    NOTHING = "they may be anywhere"
    MEETING = "threads meet, and know what all of them did"
    PART = "threads take part in what orders them only with another statement, or by itself"
    FENCE = "what one proxy did is known to the other"
    GROUP = "asynchronous accesses become a group, or groups are over"


# --- declarations ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Body:
    """Statements inside: `tuple[Statement, ...]`, in a field of the name `body`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Scalar expressions: one, none or a tuple of them."""


@dataclass(frozen=True, slots=True)
class Defines:
    """Names that get a value: a symbol, none, or what has `symbols`."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer, none or a tuple of them, that the statement touches.

    Attributes:
        effect: how; or the name of the statement's property that says how.
        index: name of the field or property that is the first element's index; empty where nobody
            knows it.
        count: elements from there on, or the name of what says so; empty where nobody knows it.
    """

    effect: Effect | str
    index: str
    count: int | str


@dataclass(frozen=True, slots=True)
class Kept:
    """Registers whose accesses the compiler is to keep on their side of the statement."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer that the statement needs for itself, and whose accesses it orders itself."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """An mbarrier, none, or several; the field may hold pairs of a barrier and an expression.

    Attributes:
        remote: it is that of another block of the cluster.
    """

    verb: Verb
    remote: bool


@dataclass(frozen=True, slots=True)
class Nested:
    """A `Declared` value, none or a tuple of them, whose own fields say what they are."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A constant, or a name that touches nothing."""


Declaration = Body | Expression | Defines | Memory | Kept | Scratch | Barrier | Nested | Plain
Declares = Mapping[str, Declaration]
"""Metadata of a field."""


def body() -> Declares:
    """The field holds the statements inside."""
    return {KEY: Body()}


def expression() -> Declares:
    """The field holds scalar expressions."""
    return {KEY: Expression()}


def defines() -> Declares:
    """The field is a name that the statement gives a value."""
    return {KEY: Defines()}


def access(effect: Effect | str, index: str = "", count: int | str = 1) -> Declares:
    """The field is memory that is touched as an effect, or a property of that name, says."""
    return {KEY: Memory(effect, index, count)}


def reads(index: str = "", count: int | str = 1) -> Declares:
    """Each thread reads elements of the field's buffer, and has them at once."""
    return access(READ, index, count)


def writes(index: str = "", count: int | str = 1) -> Declares:
    """Each thread writes elements of the field's buffer."""
    return access(WRITE, index, count)


def updates(index: str = "", count: int | str = 1) -> Declares:
    """Each thread changes elements of the field's buffer."""
    return access(UPDATE, index, count)


def keeps() -> Declares:
    """The field is registers that the compiler keeps on their side of the statement."""
    return {KEY: Kept()}


def needs() -> Declares:
    """The field is memory that the statement needs for itself, and orders itself."""
    return {KEY: Scratch()}


def at_barrier(verb: Verb, *, remote: bool = False) -> Declares:
    """The field is a barrier, with what the statement does there."""
    return {KEY: Barrier(verb, remote)}


def nested() -> Declares:
    """The field holds values that declare their own fields."""
    return {KEY: Nested()}


def plain() -> Declares:
    """The field is a constant, or a name that touches nothing."""
    return {KEY: Plain()}
