"""Entries of a spec, each checked for what it must be. A refusal names the entry and the rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from warpsmith.errors import SimulationError
from warpsmith.sim.machine import Dim3

Spec = Mapping[str, Any]


def refuse(what: str, rule: str = "") -> NoReturn:
    """Raise the error of a spec that does not fit."""
    raise SimulationError(what, code="WS0801", remedy=rule)


def shown(value: object) -> str:
    """A value as a message quotes it: not longer than a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."


def listed(names: Sequence[str]) -> str:
    """Some names, or `none`."""
    if len(names) > 20:
        return f"{', '.join(names[:20])} and {len(names) - 20} more"
    return ", ".join(names) or "none"


def is_integer(value: object) -> bool:
    """A number of JSON or Python without a fraction; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def integer(value: object, what: str, low: int = 0, high: int = (1 << 63) - 1) -> int:
    """A number from `low` to `high`."""
    if not is_integer(value):
        refuse(f"{what} is {shown(value)}", f"it must be an integer from {low} to {high}")
    assert isinstance(value, int)
    if not low <= value <= high:
        refuse(f"{what} is {shown(value)}", f"it must be from {low} to {high}")
    return value


def integers(
    value: object, what: str, length: tuple[int, int], low: int = 0, high: int = (1 << 63) - 1
) -> tuple[int, ...]:
    """A list of numbers from `low` to `high`; `length` has its least and its most entries."""
    least, most = length
    if not isinstance(value, list | tuple):
        refuse(f"{what} is {shown(value)}", "it must be a list of integers")
    if not least <= len(value) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        refuse(f"{what} has {len(value)} entries", f"it must have {wanted}")
    return tuple(integer(each, f"{what}[{at}]", low, high) for at, each in enumerate(value))


def positive(value: object, what: str) -> float:
    """A finite number that is not negative."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not 0 <= value < math.inf:  # type: ignore[operator]
        refuse(f"{what} is {shown(value)}", "it must be a number that is not negative")
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        refuse(f"{what} is {shown(value)}", "it must be a number that a double can hold")


def word(value: object, what: str) -> str:
    """A string."""
    if not isinstance(value, str):
        refuse(f"{what} is {shown(value)}", "it must be a string")
    return value


def table(value: object, what: str, known: Sequence[str] = ()) -> Mapping[str, Any]:
    """An object, with no other entries than those `known`, where any are."""
    if not isinstance(value, Mapping):
        refuse(f"{what} is {shown(value)}", "it must be an object")
    for key in value:
        if not isinstance(key, str):
            refuse(f"{what} has an entry {shown(key)}", "names of entries are strings")
        if known and key not in known:
            refuse(f"{what} has an entry {shown(key)}", f"entries are {', '.join(known)}")
    return value


def dim3(spec: Spec, key: str, default: Dim3 | None = None) -> Dim3:
    """One to three positive extents; those that are not given are 1."""
    value = spec.get(key, default)
    if value is None:
        refuse(f"the spec has no `{key}`", "give one to three positive integers")
    x, y, z = (*integers(value, f"`{key}`", (1, 3), 1, (1 << 31) - 1), 1, 1)[:3]
    return (x, y, z)
