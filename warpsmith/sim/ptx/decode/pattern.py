"""The small language in which the tables write the suffixes of a mnemonic.

Suffixes are matched in order, or in any order where that fails; each is written

    ftz              a word that must be there
    ftz?             one that may be
    round=rn|rz?     one of several, which sets a field of the record
    type=$int        the same, with a named set of words
"""

from __future__ import annotations

from functools import cache

from warpsmith.values import dataclass

SETS = {
    "int": "u16|s16|u32|s32|u64|s64",
    "int32": "u32|s32",
    "int3264": "u32|s32|u64|s64",
    "rnd": "rn|rz|rm|rp",
    "bits": "b16|b32|b64",
    "scalar": "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64",
    "memory": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
    "compare": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan",
    "combine": "and|or|xor",
    "scope": "cta|cluster|gpu|sys",
    "shared": "shared|shared::cta|shared::cluster",
    "own": "shared|shared::cta",
    "atomic": "add|min|max|inc|dec|and|or|xor",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """One suffix of a pattern."""

    field: str
    words: tuple[str, ...]
    optional: bool


@cache
def slots(suffixes: str) -> tuple[Slot, ...]:
    """Parse the suffixes of a row."""
    found = []
    for item in suffixes.split():
        optional = item.endswith("?")
        field, _, words = item.removesuffix("?").rpartition("=")
        choices = [SETS[w[1:]] if w.startswith("$") else w for w in words.split("|")]
        found.append(Slot(field, tuple("|".join(choices).split("|")), optional))
    return tuple(found)


def fit(pattern: tuple[Slot, ...], words: tuple[str, ...]) -> dict[int, int] | tuple[int, set[str]]:
    """Which slot takes each word; or where the words stop to fit and what was expected there."""
    furthest = 0
    expected: set[str] = set()

    def attempt(slot: int, word: int) -> dict[int, int] | None:
        nonlocal furthest, expected
        if slot == len(pattern):
            if word == len(words):
                return {}
            if word > furthest:
                furthest, expected = word, set()
            return None
        here = pattern[slot]
        if word < len(words) and words[word] in here.words:
            rest = attempt(slot + 1, word + 1)
            if rest is not None:
                return {word: slot, **rest}
        elif word > furthest:
            furthest, expected = word, set(here.words)
        elif word == furthest:
            expected |= set(here.words)
        return attempt(slot + 1, word) if here.optional else None

    taken = attempt(0, 0) or _in_any_order(pattern, words)
    return (furthest, expected) if taken is None else taken


def _in_any_order(pattern: tuple[Slot, ...], words: tuple[str, ...]) -> dict[int, int] | None:
    """The same for suffixes in another order, as ptxas takes them; types must keep theirs."""
    taken: dict[int, int] = {}
    last_type = -1
    for index, word in enumerate(words):
        for number, slot in enumerate(pattern):
            is_type = slot.field.startswith("type")
            if number in taken.values() or word not in slot.words:
                continue
            if is_type and number < last_type:
                continue
            last_type = number if is_type else last_type
            taken[index] = number
            break
        else:
            return None
    if all(slot.optional or number in taken.values() for number, slot in enumerate(pattern)):
        return taken
    return None
