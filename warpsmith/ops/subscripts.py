"""The equation of an `einsum`, read: a label for each dimension of the operands and the result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.values import dataclass

_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """A letter, or a dimension that an ellipsis covers, counted from the right: 1 is the last."""

    letter: str
    covered: int = 0

    @property
    def told(self) -> str:
        if self.letter:
            return f"subscript {self.letter!r}"
        return f"dimension -{self.covered} of the ellipsis"


@dataclass(frozen=True, slots=True)
class Subscripts:
    """Labels of each operand's dimensions, and of the result's."""

    operands: tuple[tuple[Label, ...], ...]
    result: tuple[Label, ...]


def parsed(equation: str, ranks: Sequence[int]) -> Subscripts:
    """The labels of operands of such ranks. Raises DefinitionError for what does not fit."""
    if not isinstance(equation, str):
        raise _refusal(equation, f"it is of type {type(equation).__name__}", "give a string")
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != len(ranks):
        raise _refusal(
            equation,
            f"it has subscripts for {len(terms)} operands, and got {len(ranks)}",
            "give the subscripts of each operand, with commas between",
        )
    operands = tuple(
        _labels(equation, term, k, rank)
        for k, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    )
    counts = Counter(label for labels in operands for label in labels)
    covered = max((label.covered for label in counts), default=0)
    ellipsis = tuple(Label("", k) for k in range(covered, 0, -1))
    if not arrow:
        once = sorted(label for label, count in counts.items() if label.letter and count == 1)
        return Subscripts(operands, (*ellipsis, *once))
    before, dots, after = _split(equation, wanted, "the result")
    result = (*map(Label, before), *(ellipsis if dots else ()), *map(Label, after))
    for label, count in Counter(result).items():
        if label not in counts:
            raise _refusal(
                equation, f"{label.told} of the result is no operand's", "leave it out there"
            )
        if count > 1:
            raise _refusal(
                equation, f"{label.told} stands twice in the result", "name it once there"
            )
    return Subscripts(operands, result)


def _labels(equation: str, term: str, position: int, rank: int) -> tuple[Label, ...]:
    before, dots, after = _split(equation, term, f"operand {position}")
    covered = rank - len(before) - len(after)
    if covered < 0 or (covered and not dots):
        raise _refusal(
            equation,
            f"operand {position} has {rank} dimensions and {len(before) + len(after)} subscripts",
            "give a letter for each, or an ellipsis `...` for some",
        )
    ellipsis = (Label("", k) for k in range(covered, 0, -1))
    labels = (*map(Label, before), *ellipsis, *map(Label, after))
    for label, count in Counter(labels).items():
        if count > 1:
            raise _refusal(
                equation,
                f"{label.told} stands twice in operand {position}, and diagonals are not taken",
                "give it two letters, and multiply with a mask of where they are equal, "
                "eq of two iotas",
            )
    return labels


def _split(equation: str, term: str, whose: str) -> tuple[str, str, str]:
    """The letters before an ellipsis, the ellipsis or nothing, the letters behind it."""
    found = _TERM.fullmatch(term)
    if found is None:
        raise _refusal(
            equation,
            f"{term!r} of {whose} cannot be read",
            "subscripts are letters and at most one ellipsis `...`",
        )
    before, dots, after = found.groups()
    return before, dots or "", after


def _refusal(equation: object, why: str, remedy: str) -> DefinitionError:
    return DefinitionError(f"einsum got {equation!r}: {why}", code="WS0148", remedy=remedy)
