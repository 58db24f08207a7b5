"""Damaged texts are read or refused, and never break the reader."""

import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.ptx.test_kernels import CUDA, TEXTS, compile_ptx
from warpsmith.errors import SimulationError
from warpsmith.sim.ptx import read

WORD = re.compile(r"[\w.%$:]+|\S")


@cache
def words(path: Path | None) -> tuple[str, ...]:
    text = compile_ptx(CUDA) if path is None else path.read_text()
    return tuple(re.findall(rf"\s+|{WORD.pattern}", text))


def take(pieces: list[str]) -> None:
    """Read a text; SimulationError is the one error that may come."""
    with suppress(SimulationError):
        read("".join(pieces), "calls")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([None, *TEXTS[:3]]), st.floats(0, 1))
def test_a_text_that_ends_early(path: Path | None, part: float) -> None:
    pieces = words(path)
    take(list(pieces[: int(part * len(pieces))]))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([None, *TEXTS[:3]]), st.data())
def test_words_in_the_place_of_others(path: Path | None, data: st.DataObject) -> None:
    pieces = list(words(path))
    index = st.integers(0, len(pieces) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        to, of = data.draw(index), data.draw(index)
        pieces[to] = data.draw(st.sampled_from([pieces[of], "", "{", "}", "%r1", ".b32", "0x"]))
    take(pieces)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_anything_within_a_body(body: str) -> None:
    take([".version 8.8 .target sm_90a .address_size 64 .entry calls() {", body, "}"])
