"""Mnemonics to forms: the tables of all families, searched once for each mnemonic."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from warpsmith.sim.isa import Flag
from warpsmith.sim.ptx.decode import (
    arithmetic,
    barriers,
    bits,
    control,
    conversion,
    copies,
    matrix,
    memory,
    unsupported,
)
from warpsmith.sim.ptx.decode.form import Form, Role, Row, Take, build, roles, signatures
from warpsmith.sim.ptx.decode.pattern import fit, slots
from warpsmith.sim.ptx.refusal import Refusal

__all__ = ["Form", "Role", "Take", "find"]


@cache
def heads() -> dict[str, tuple[Row, ...]]:
    """The rows of all tables by the first word of their mnemonics."""
    families = (arithmetic, bits, conversion, control, memory, copies, barriers, matrix)
    found: dict[str, tuple[Row, ...]] = {}
    for family in families:
        for line in family.ROWS:
            found[line.head] = (*found.get(line.head, ()), line)
    return found


@cache
def find(mnemonic: str, shape: str) -> Form:
    """The form of a mnemonic whose arguments have a shape (a letter each, see `syntax`).

    Raises Refusal where there is none: it says what was expected.
    """
    head, *rest = mnemonic.split(".")
    words = tuple(rest)
    reason = unsupported.reason(mnemonic)
    if reason:
        raise Refusal(f"`{mnemonic}` is not supported: {reason}")
    hinted = "L2::cache_hint" in words
    if hinted:
        if not shape.endswith("s"):
            raise Refusal(f"`{mnemonic}` takes a cache policy as its last operand")
        shape = shape[:-1]
    lines = heads().get(head)
    if lines is None:
        raise Refusal(f"unknown instruction `{mnemonic}`")
    furthest, expected = -1, set[str]()
    shapes: list[tuple[str, tuple[str, ...]]] = []
    for line in lines:
        taken = fit(slots(line.suffixes), words)
        if isinstance(taken, tuple):
            if taken[0] > furthest:
                furthest, expected = taken[0], set(taken[1])
            elif taken[0] == furthest:
                expected |= taken[1]
            continue
        for letters, items in signatures(line.operands):
            if letters != shape:
                shapes.append((letters, items))
                continue
            form = build(line, words, taken)
            if any(item.endswith("?") for item in items):
                form = replace(form, flags=form.flags | Flag.SIZED)
            places = roles(form, items, line.loose)
            if hinted:
                places = (*places, (Role(Take.IGNORED),))
            return matrix.checked(replace(form, roles=places), mnemonic)
    if shapes:
        known = dict.fromkeys(", ".join(_shown(item) for item in items) for _, items in shapes)
        wanted = " or ".join(f"`{operands}`" if operands else "none" for operands in known)
        raise Refusal(f"`{mnemonic}` takes operands {wanted}; got {_counted(shape)}")
    raise Refusal(_misfit(mnemonic, head, words, furthest, expected))


def _misfit(
    mnemonic: str, head: str, words: tuple[str, ...], furthest: int, expected: set[str]
) -> str:
    before = ".".join((head, *words[:furthest]))
    choice = ", ".join(f".{word}" for word in sorted(expected)) or "nothing more"
    if furthest < len(words):
        got = f"got `.{words[furthest]}` in `{mnemonic}`"
    else:
        got = "got its end"
    return f"`{before}` takes one of {choice} next, {got}"


def _shown(item: str) -> str:
    item = item.removesuffix("?")
    names = {"d": "d", "s": "a", "n": "constant", "l": "label", "x": "policy"}
    if item.startswith("["):
        return "[map, {coordinates}]" if item == "[t]" else "[address]"
    if item.startswith("{"):
        return "{...}"
    if "|" in item:
        return "d|p"
    return names[item.partition(":")[0]]


def _counted(shape: str) -> str:
    names = {"s": "a", "v": "{...}", "a": "[address]", "t": "[map, {coordinates}]", "p": "d|p"}
    return f"`{', '.join(names[letter] for letter in shape)}`" if shape else "none"
