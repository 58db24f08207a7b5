"""PTX words to a module: directives, variables and functions."""

from __future__ import annotations

import re
from dataclasses import replace

from warpsmith.sim.ptx.body import parse_block
from warpsmith.sim.ptx.cursor import Cursor
from warpsmith.sim.ptx.declare import parse_declarations, parse_parameters
from warpsmith.sim.ptx.syntax import Block, Declaration, Function, Module
from warpsmith.sim.ptx.tokens import tokenize

_LINKING = (".visible", ".extern", ".weak", ".common")
_NUMBERED = {
    ".maxntid": 3,
    ".reqntid": 3,
    ".minnctapersm": 1,
    ".maxnctapersm": 1,
    ".maxnreg": 1,
    ".reqnctapercluster": 3,
    ".maxclusterrank": 1,
    ".noreturn": 0,
    ".explicitcluster": 0,
    ".blocksareclusters": 0,
    ".unique": 0,
}
"""Directives between the head of a function and its body, with the most numbers each takes."""


def parse(text: str) -> Module:
    """Parse a whole text. Raises SimulationError at the first word that does not fit."""
    cursor = Cursor(tokenize(text))
    version: tuple[int, int] = (0, 0)
    target = ""
    files: dict[int, str] = {}
    variables: list[Declaration] = []
    functions: list[Function] = []
    aliases: dict[str, str] = {}
    while cursor.word:
        word = cursor.word
        if word == ".version":
            cursor.take()
            number = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", cursor.word)
            if number is None:
                cursor.fail("a version such as `8.7`")
            cursor.take()
            version = (int(number[1]), int(number[2]))
        elif word == ".target":
            cursor.take()
            target = cursor.name("an architecture such as `sm_90a`")
            while cursor.accept(","):
                cursor.name("an option of `.target`")
        elif word == ".address_size":
            cursor.take()
            if cursor.integer() != 64:
                cursor.index -= 1
                cursor.fail("an address size of 64")
        elif word == ".file":
            number_, name = _file(cursor)
            files[number_] = name
        elif word == ".section":
            _section(cursor)
        elif word == ".pragma":
            cursor.take()
            _pragma(cursor)
        elif word == ".alias":
            cursor.take()
            other = cursor.name("the name of a function")
            cursor.expect(",")
            aliases[other] = cursor.name("the name of a function")
            cursor.expect(";")
        elif word == ";":
            cursor.take()
        elif word.startswith("."):
            linking = {cursor.take() for _ in iter(lambda: cursor.word in _LINKING, False)}
            if cursor.word in (".entry", ".func"):
                functions.append(_function(cursor))
            elif cursor.word in (".global", ".const", ".shared"):
                variables += parse_declarations(cursor, external=".extern" in linking)
            else:
                cursor.fail("a directive such as `.entry`, `.func`, `.global`")
        else:
            cursor.fail("a directive")
    named = {function.name: function for function in functions if function.body is not None}
    functions += [replace(named[of], name=name) for name, of in aliases.items() if of in named]
    return Module(
        version=version,
        target=target,
        files=files,
        variables=tuple(variables),
        functions=tuple(functions),
    )


def _file(cursor: Cursor) -> tuple[int, str]:
    cursor.take()
    number = cursor.integer()
    name = cursor.string().decode(errors="replace")
    while cursor.accept(","):
        cursor.integer()
    return number, name


def _pragma(cursor: Cursor) -> None:
    cursor.string()
    while cursor.accept(","):
        cursor.string()
    cursor.expect(";")


def _section(cursor: Cursor) -> None:
    """Debug sections mean nothing here."""
    cursor.take()
    cursor.take()
    cursor.expect("{")
    while not cursor.accept("}"):
        cursor.take()


def _function(cursor: Cursor) -> Function:
    line = cursor.line
    is_entry = cursor.take() == ".entry"
    directives: dict[str, tuple[int, ...]] = {}
    _attributes(cursor, directives)
    results: tuple[Declaration, ...] = ()
    if not is_entry and cursor.word == "(":
        results = parse_parameters(cursor)
        _attributes(cursor, directives)
    name = cursor.name("the name of a function")
    parameters = parse_parameters(cursor) if cursor.word == "(" else ()
    _attributes(cursor, directives)
    body: Block | None = None
    if cursor.word == "{":
        body = parse_block(cursor)
    else:
        cursor.expect(";")
    return Function(
        line=line,
        name=name,
        is_entry=is_entry,
        results=results,
        parameters=parameters,
        directives=directives,
        body=body,
    )


def _attributes(cursor: Cursor, directives: dict[str, tuple[int, ...]]) -> None:
    """Directives with numbers, `.attribute(...)`, `.abi_preserve n` and pragmas."""
    while cursor.word.startswith("."):
        word = cursor.word
        if word in _NUMBERED:
            cursor.take()
            numbers: list[int] = []
            while len(numbers) < _NUMBERED[word] and (not numbers or cursor.accept(",")):
                numbers.append(cursor.integer())
                if not 0 <= numbers[-1] < 1 << 20:
                    cursor.index -= 1
                    cursor.fail(f"a number from 0 to {(1 << 20) - 1}")
            directives[word] = tuple(numbers)
        elif word == ".pragma":
            cursor.take()
            _pragma(cursor)
        elif word == ".attribute":
            cursor.take()
            cursor.expect("(")
            while not cursor.accept(")"):
                cursor.take()
        elif word in (".abi_preserve", ".abi_preserve_control"):
            cursor.take()
            cursor.integer()
        else:
            cursor.fail(f"a directive among {', '.join(sorted(_NUMBERED))}")
