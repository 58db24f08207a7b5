"""Forms: what a mnemonic means, and the rows in which the tables write them.

A row of a table reads like a line of the PTX manual: the suffixes in the language of `pattern`,
then the operands, in PTX order:

    d                a register that is written, of the type of the instruction
    s                a register that is read, a constant or an address
    d:u32  s:2       the same with another type; `2` is `type2`, `wide` twice the width
    n                a constant integer
    [a]              an address
    [t]              a tensor address, `[map, {coordinates}]`
    {d}  {s}         a vector of `vector` registers;  {d*} of any length
    d|d:pred         a pair
    l                a label or list of labels
    x                an operand that means nothing here
    ...?             one that may be left out; its presence sets Flag.SIZED
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from itertools import product
from typing import Any

from warpsmith.sim.isa import Combine, Compare, Flag, Mode, Op, Round, Scope, Semantics, Space, Type
from warpsmith.sim.program import Meaning
from warpsmith.sim.ptx.decode.pattern import slots
from warpsmith.values import dataclass


class Take(Enum):
    """What an operand of an instruction is for."""

    DESTINATION = "a register to write"
    SOURCE = "a register, constant or address"
    CONSTANT = "a constant integer"
    ADDRESS = "an address in brackets"
    TENSOR = "a tensor address, `[map, {coordinates}]`"
    LABEL = "a label"
    IGNORED = "an operand"


@dataclass(frozen=True, slots=True)
class Role:
    """One scalar place among the operands; vectors repeat it `length` times, -1 for any."""

    take: Take
    type: Type = Type.NONE
    length: int = 0
    loose: bool = False  # the register may be wider than the type


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Meaning):
    """The record of a mnemonic with operands of a given shape, still without operands.

    `roles` has a tuple for each PTX operand: one role, or two for a pair.
    """

    roles: tuple[tuple[Role, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: suffixes, operands, and the fields that they leave fixed."""

    head: str
    op: Op
    suffixes: str
    operands: str
    fixed: tuple[tuple[str, Any], ...] = ()
    loose: bool = False


def row(
    head: str, op: Op, suffixes: str, operands: str, *, loose: bool = False, **fixed: Any
) -> Row:
    return Row(head, op, suffixes, operands, tuple(fixed.items()), loose)


def rows(head: str, op: Op, *forms: tuple[str, str], **fixed: Any) -> tuple[Row, ...]:
    """Lines that differ in their suffixes and operands alone."""
    return tuple(row(head, op, suffixes, operands, **fixed) for suffixes, operands in forms)


_SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED_CLUSTER,
    "local": Space.LOCAL,
    "const": Space.CONST,
    "param": Space.PARAM,
    "param::entry": Space.PARAM,
    "param::func": Space.LOCAL,
}
_MODES = {"l": Mode.LEFT, "r": Mode.RIGHT}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8, "x1": 1, "x2": 2, "x4": 4} | {
    f"{n}d": n for n in range(1, 6)
}
_SEMANTICS = {"weak": Semantics.WEAK, "volatile": Semantics.RELAXED}
_FLAGS = {
    "ftz": Flag.FTZ,
    "sat": Flag.SAT,
    "approx": Flag.APPROX,
    "full": Flag.FULL,
    "relu": Flag.RELU,
    "NaN": Flag.NAN,
    "xorsign": Flag.XORSIGN,
    "shiftamt": Flag.SHIFTAMT,
    "wrap": Flag.WRAP,
    "aligned": Flag.ALIGNED,
    "nc": Flag.NONCOHERENT,
    "trans": Flag.TRANSPOSE,
    "to": Flag.TO,
    "uni": Flag.UNIFORM,
    "read": Flag.READ,
    "noinc": Flag.NOINC,
    "noComplete": Flag.NOCOMPLETE,
    "expect_tx": Flag.EXPECT_TX,
    "parity": Flag.PARITY,
    "multicast::cluster": Flag.MULTICAST,
    "satfinite": Flag.SATFINITE,
}

_WIDER = {
    Type.U16: Type.U32,
    Type.S16: Type.S32,
    Type.U32: Type.U64,
    Type.S32: Type.S64,
}


def _shape(word: str) -> tuple[int, int, int]:
    """`m64n128k16` as its numbers."""
    m, _, rest = word[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


_FIELDS: Mapping[str, Callable[[str], Any]] = {
    "type": lambda word: Type[word.upper()],
    "type2": lambda word: Type[word.upper()],
    "round": lambda word: Round[word.upper()],
    "mode": lambda word: _MODES.get(word) or Mode[word.upper()],
    "compare": lambda word: Compare[word.upper()],
    "combine": lambda word: Combine[word.upper()],
    "space": lambda word: _SPACES[word],
    "semantics": lambda word: _SEMANTICS[word] if word in _SEMANTICS else Semantics[word.upper()],
    "scope": lambda word: Scope[word.upper()],
    "vector": lambda word: _VECTORS[word],
    "shape": _shape,
}
"""What a word says of each field of a record; words of other slots are flags, or mean nothing."""


def build(line: Row, words: tuple[str, ...], taken: dict[int, int]) -> Form:
    """The form that a row gives to words that fit it."""
    pattern = slots(line.suffixes)
    record: dict[str, Any] = {"op": line.op}
    flags = Flag.NONE
    for index, word in enumerate(words):
        field = pattern[taken[index]].field
        if field in _FIELDS:
            record[field] = _FIELDS[field](word)
        else:
            flags |= _FLAGS.get(word, Flag.NONE)
        if field == "semantics" and word == "volatile":
            record["scope"] = Scope.SYS
            flags |= Flag.VOLATILE
    for name, value in line.fixed:
        if name == "flags":
            flags |= value
        else:
            record.setdefault(name, value)
    return Form(**record, flags=flags)


@cache
def signatures(operands: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The shapes that a list of operands can have, each with its items."""
    choices = []
    for item in operands.split():
        if item.endswith("?"):
            choices.append([(), (item,)])
        else:
            choices.append([(item,)])
    found = []
    for choice in product(*choices):
        items = tuple(item for part in choice for item in part)
        found.append(("".join(_letter(item.removesuffix("?")) for item in items), items))
    return tuple(found)


def _letter(item: str) -> str:
    if item.startswith("["):
        return "t" if item == "[t]" else "a"
    if item.startswith("{"):
        return "v"
    return "p" if "|" in item else "s"


def roles(form: Form, items: tuple[str, ...], loose: bool) -> tuple[tuple[Role, ...], ...]:
    """The roles of operands for a form."""
    return tuple(
        tuple(_role(form, part, loose) for part in item.removesuffix("?").split("|"))
        for item in items
    )


def _role(form: Form, item: str, loose: bool) -> Role:
    length = 0
    if item.startswith("{"):
        item = item[1:-1]
        length = form.vector
        if "*" in item:
            item, length = item.replace("*", ""), -1
    if item == "[a]":
        return Role(Take.ADDRESS)
    if item == "[t]":
        return Role(Take.TENSOR, Type.S32, form.vector)
    name, _, suffix = item.partition(":")
    if suffix == "":
        type_ = form.type
    elif suffix == "2":
        type_ = form.type2
    elif suffix == "wide":
        type_ = _WIDER.get(form.type, form.type)
    else:
        type_ = Type[suffix.upper()]
    take = {
        "d": Take.DESTINATION,
        "s": Take.SOURCE,
        "n": Take.CONSTANT,
        "l": Take.LABEL,
        "x": Take.IGNORED,
    }[name]
    return Role(take, type_, length, loose)
