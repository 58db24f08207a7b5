"""How the values of options are read, from the environment or from Python, and what may be said."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from warpsmith.values import dataclass


class Unfit(Exception):
    """A value that a parser cannot take; its text says what is allowed."""


def _directory(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if isinstance(value, str) and value.strip():
        return Path(value).expanduser()
    raise Unfit("the path of a directory")


def _optional_directory(value: object) -> Path | None:
    return None if value is None else _directory(value)


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    if isinstance(value, tuple | list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise Unfit("names separated by commas, or `all`")


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise Unfit("1, true, yes, on, 0, false, no, off")


def _switch_or_auto(value: object) -> bool | str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    try:
        return _switch(value)
    except Unfit as unfit:
        raise Unfit(f"auto, {unfit}") from None


def _seconds(value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not 1e-9 <= number <= 1e6:
        raise Unfit("seconds, from 1e-9 to 1e6")
    return number


def _count(value: object) -> int:
    try:
        number = int(value) if isinstance(value, str | int) else 0
    except ValueError:
        number = 0
    if isinstance(value, bool) or not 1 <= number <= 10**9:
        raise Unfit("a whole number from 1 to 10**9")
    return number


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is read, and what its type is called."""

    parse: Callable[[object], object]
    words: str


DIRECTORY = Kind(_directory, "directory")
OPTIONAL_DIRECTORY = Kind(_optional_directory, "directory")
NAMES = Kind(_words, "names")
SWITCH = Kind(_switch, "switch")
SWITCH_OR_AUTO = Kind(_switch_or_auto, "switch or `auto`")
SECONDS = Kind(_seconds, "number")
COUNT = Kind(_count, "number")


def one_of(*allowed: str) -> Kind:
    """The kind of a knob that takes one of some words."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value.strip().lower() in allowed:
            return value.strip().lower()
        raise Unfit(", ".join(allowed))

    return Kind(parse, ", ".join(f"`{word}`" for word in allowed))
