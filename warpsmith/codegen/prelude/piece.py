"""Parts of the prelude, and the files of CUDA that they are read from.

In a file `//@ NAME: NEEDS` begins a part. Lines with `///` are for who reads the file: kernels go
without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from warpsmith.values import dataclass

_NOTE = re.compile(r"^///.*\n", re.MULTILINE)
_START = re.compile(r"^//@ (\w+)(?:: (.+))?\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Device code that a kernel includes only when it needs it: parsing costs compile time.

    Every name that `text` defines begins with `ws_`. It includes no header, and defines nothing
    but templates and `__device__ __forceinline__` functions, so what is unused costs no code; only
    the watchdog has variables, which hosts write to.
    `needs` names the pieces that have to stand before it.
    """

    name: str
    needs: tuple[str, ...] = ()
    text: str


def pieces_of(file: str) -> Iterator[Piece]:
    """The parts of a file beside this one; those with words in capitals are still to be filled."""
    text = Path(__file__).with_name(f"{file}.cuh").read_text("utf-8")
    _, *parts = _START.split(_NOTE.sub("", text))
    for name, needs, code in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Piece(name=name, needs=tuple(needs.split(", ")) if needs else (), text=laid(code))


def laid(code: str) -> str:
    """Code with one empty line before it."""
    return f"\n{code.strip()}\n"


def filled(text: str, words: Mapping[str, str]) -> str:
    """A text with words in place of what stands for them, one after the other."""
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text
