"""The version of nvFuser whose names these are, to be compared."""

from __future__ import annotations

import re
from functools import total_ordering


@total_ordering
class Version(str):
    """A version that is before others by its numbers, and not by their digits."""

    __slots__ = ()

    def _numbers(self) -> tuple[int, ...]:
        found = re.match(r"\d+(\.\d+)*", self)
        return tuple(map(int, found.group().split("."))) if found else ()

    def __lt__(self, other: str) -> bool:
        return self._numbers() < Version(other)._numbers()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._numbers() == Version(other)._numbers()

    __hash__ = str.__hash__


__version__ = Version("0.2.36+warpsmith")
