"""The parts of a user's files that a program comes from."""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from warpsmith.callers import Line
from warpsmith.values import dataclass

Lines = tuple[Line, ...]

_AROUND = 2
_MOST = 200
"""Lines of a function that are shown; of a longer one, those around each line that counts."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file with its number, counted from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """What is shown of one file.

    Attributes:
        index: of the file among those that are shown; part of the names of its lines.
        parts: runs of lines; between two of them there are others.
    """

    index: int
    file: str
    parts: tuple[tuple[SourceLine, ...], ...]

    @property
    def name(self) -> str:
        """Of the file, without its folder."""
        return PurePath(self.file).name


def sources_of(lines: Iterable[Line]) -> tuple[Source, ...]:
    """The functions that the lines stand in; of a file that cannot be read, the lines alone."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for file, number in lines:
        wanted[file].add(number)
    return tuple(
        Source(index, file, tuple(_parts(file, numbers)))
        for index, (file, numbers) in enumerate(sorted(wanted.items()))
    )


def _parts(file: str, numbers: set[int]) -> Iterator[tuple[SourceLine, ...]]:
    text = [line.rstrip("\n") for line in linecache.getlines(file)]
    if max(numbers) > len(text):
        yield tuple(SourceLine(number, "(not found)") for number in sorted(numbers))
        return
    shown: set[int] = set()
    functions = _functions("\n".join(text))
    for number in numbers:
        around = [each for each in functions if number in each and len(each) <= _MOST]
        widest = max(around, key=len, default=range(number - _AROUND, number + _AROUND + 1))
        shown.update(each for each in widest if 1 <= each <= len(text))
    run: list[SourceLine] = []
    for number in sorted(shown):
        if run and number > run[-1].number + 1:
            yield tuple(run)
            run = []
        run.append(SourceLine(number, text[number - 1]))
    yield tuple(run)


def _functions(text: str) -> list[range]:
    """The lines of each function, decorators among them; none where the text is not Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    return [
        range(
            min([node.lineno, *(d.lineno for d in node.decorator_list)]), (node.end_lineno or 0) + 1
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
