"""What a PTX text says, as values: the result of parsing, before anything has a meaning."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, TypeAlias

from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name, perhaps with an offset (`array+16`), perhaps complemented (`!%p1`)."""

    name: str
    offset: int = 0
    negated: bool = False

    shape: ClassVar[str] = "s"


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer constant."""

    value: int

    shape: ClassVar[str] = "s"


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point constant: the bits of an f32 (`0f`) or of an f64."""

    bits: int
    width: int

    shape: ClassVar[str] = "s"


Scalar = Symbol | Literal | Real


@dataclass(frozen=True, slots=True)
class Vector:
    """Scalars in braces."""

    items: tuple[Scalar, ...]

    shape: ClassVar[str] = "v"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations, `d|p`."""

    first: Symbol
    second: Symbol

    shape: ClassVar[str] = "p"


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; the offset of a symbol is in the symbol."""

    base: Scalar

    shape: ClassVar[str] = "a"


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[map, {coordinates}]`."""

    base: Scalar
    coordinates: tuple[Scalar, ...]

    shape: ClassVar[str] = "t"


Argument = Symbol | Literal | Real | Vector | Pair | Address | TensorAddress


@dataclass(frozen=True, slots=True)
class Location:
    """What `.loc` says: number of the file, and line; the same of where that is inlined."""

    file: int
    line: int
    caller: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction. `shape` has a letter for each argument, so that forms can be told apart."""

    line: int
    mnemonic: str
    arguments: tuple[Argument, ...]
    shape: str
    guard: Symbol | None
    location: Location | None
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """`call (results), name, (arguments)`; `name` may be a register with a prototype."""

    line: int
    name: str
    results: tuple[Scalar, ...]
    arguments: tuple[Scalar, ...]
    guard: Symbol | None
    location: Location | None
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    """A place to jump to."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class TargetList:
    """`name: .branchtargets a, b;`."""

    line: int
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Registers:
    """`.reg .b32 %r<10>, %x;`: names with the length of their range, or None for a single one."""

    line: int
    type: str
    names: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class Initial:
    """A scalar of an initializer; a symbol may be asked for its generic address, or one byte."""

    value: Scalar
    generic: bool = False
    shift: int = 0
    masked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A variable in memory or a parameter.

    `dimensions` has -1 for one that is left open; `initial` nests as the braces do.
    """

    line: int
    space: str
    type: str
    name: str
    align: int = 0
    vector: int = 1
    dimensions: tuple[int, ...] = ()
    initial: tuple[Initial, ...] | None = None
    text: bytes | None = None
    external: bool = False


Item: TypeAlias = "Statement | Call | Label | TargetList | Registers | Declaration | Block"


@dataclass(frozen=True, slots=True)
class Block:
    """Items in braces: a scope of registers, variables and labels."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An entry or a device function; `body` is None where it is only declared.

    `directives` has the numbers of `.maxntid` and its kin.
    """

    line: int
    name: str
    is_entry: bool
    results: tuple[Declaration, ...]
    parameters: tuple[Declaration, ...]
    directives: dict[str, tuple[int, ...]]
    body: Block | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A whole text."""

    version: tuple[int, int]
    target: str
    files: dict[int, str] = field(default_factory=dict)
    variables: tuple[Declaration, ...] = ()
    functions: tuple[Function, ...] = ()
