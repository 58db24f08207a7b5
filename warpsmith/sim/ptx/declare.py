"""Declarations of variables and parameters, with their initializers."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.sim.ptx.cursor import Cursor
from warpsmith.sim.ptx.syntax import Declaration, Initial, Literal, Symbol

SIZES = {
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "f16": 2,
    "bf16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "b128": 16,
    "texref": 8,
    "samplerref": 8,
    "surfref": 8,
}
"""Bytes of each type that a variable can have."""

_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_LARGEST = 1 << 40
_LONGEST_ROW = 1 << 16  # of an initializer that leaves the end of a row open
_DEEPEST = 20


def parse_declarations(cursor: Cursor, external: bool = False) -> list[Declaration]:
    """`.space [.align n] [.v4] .type name[..][= ..], name...;`"""
    declarations = []
    line = cursor.line
    space = cursor.take()
    kind = _type(cursor)
    while True:
        made = replace(_declared(cursor, line, space, kind), external=external)
        if cursor.accept("="):
            if cursor.word.startswith('"'):
                made = replace(made, text=cursor.string())
            else:
                made = replace(made, initial=tuple(_initializer(cursor, made.dimensions, 0)))
        declarations.append(made)
        if not cursor.accept(","):
            break
    cursor.expect(";")
    return declarations


def parse_parameters(cursor: Cursor) -> tuple[Declaration, ...]:
    """`(.param .b64 name, .reg .b32 name, ...)`"""
    parameters: list[Declaration] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",")
        line = cursor.line
        if cursor.word not in (".param", ".reg"):
            cursor.fail("`.param`, `.reg` or `)`")
        space = cursor.take()
        parameters.append(_declared(cursor, line, space, _type(cursor)))
    return tuple(parameters)


def _declared(cursor: Cursor, line: int, space: str, kind: tuple[int, int, str]) -> Declaration:
    """The next name with its dimensions, of this alignment, vector length and type."""
    align, vector, type_ = kind
    name, dimensions = _declarator(cursor)
    return Declaration(
        line=line,
        space=space[1:],
        type=type_,
        name=name,
        align=align,
        vector=vector,
        dimensions=dimensions,
    )


def _type(cursor: Cursor) -> tuple[int, int, str]:
    """Alignment, vector length and type."""
    align, vector, type_ = 0, 1, ""
    while cursor.word.startswith(".") or cursor.word == ".attribute":
        word = cursor.take()
        if word == ".align":
            align = cursor.integer("an alignment")
            if align < 1 or align > 1 << 20 or align & (align - 1):
                cursor.index -= 1
                cursor.fail("a power of two of at most 2^20")
        elif word in _VECTORS:
            vector = _VECTORS[word]
        elif word[1:] in SIZES or word == ".pred":
            type_ = word[1:]
        elif word == ".attribute":
            cursor.expect("(")
            while not cursor.accept(")"):
                cursor.take()
        elif word == ".ptr":  # what the parameter points to: .global, .align
            while cursor.word in (".global", ".shared", ".const", ".local", ".align"):
                if cursor.take() == ".align":
                    cursor.integer("an alignment")
        else:
            cursor.index -= 1
            cursor.fail("a type such as `.b32`")
    if not type_:
        cursor.fail("a type such as `.b32`")
    return align, vector, type_


def _declarator(cursor: Cursor) -> tuple[str, tuple[int, ...]]:
    name = cursor.name("the name of a variable")
    dimensions: list[int] = []
    elements = 1
    while cursor.accept("["):
        if cursor.accept("]"):
            dimensions.append(-1)
            continue
        size = cursor.integer("a length")
        elements *= max(size, 1)
        if size < 0 or elements > _LARGEST:
            cursor.index -= 1
            cursor.fail(f"a length from 0 to {_LARGEST}")
        cursor.expect("]")
        dimensions.append(size)
    return name, tuple(dimensions)


def _initializer(cursor: Cursor, dimensions: tuple[int, ...], depth: int) -> list[Initial]:
    """Scalars in order, rows filled up with zeros where a brace closes early."""
    if not cursor.accept("{"):
        return [_initial(cursor)]
    if depth > _DEEPEST:
        cursor.fail(f"at most {_DEEPEST} nested braces")
    inner = dimensions[1:]
    row = 1
    for size in inner:
        row *= max(size, 1)
    values: list[Initial] = []
    while not cursor.accept("}"):
        if values:
            cursor.expect(",")
        nested = cursor.word == "{"
        part = _initializer(cursor, inner, depth + 1)
        if nested and len(part) < row:
            if row > _LONGEST_ROW:
                cursor.fail(f"rows of at most {_LONGEST_ROW} elements")
            part += [Initial(Literal(0))] * (row - len(part))
        values += part
    return values


def _initial(cursor: Cursor) -> Initial:
    """A constant, `symbol+4`, `generic(symbol)`, or one byte of an address: `0xFF00(symbol)`."""
    if cursor.word == "generic":
        cursor.take()
        cursor.expect("(")
        value = cursor.scalar()
        cursor.expect(")")
        offset = cursor.integer() if cursor.word in ("+", "-") else 0
        if isinstance(value, Symbol) and offset:
            value = Symbol(value.name, value.offset + offset)
        return Initial(value, generic=True)
    value = cursor.scalar()
    if isinstance(value, Literal) and cursor.word == "(":
        mask = value.value
        shift = next((s for s in range(0, 64, 8) if mask == 0xFF << s), -1)
        if shift < 0:
            cursor.fail("a mask of one byte before `(`")
        cursor.take()
        inner = _initial(cursor)
        cursor.expect(")")
        return Initial(inner.value, generic=inner.generic, shift=shift, masked=True)
    return Initial(value)
