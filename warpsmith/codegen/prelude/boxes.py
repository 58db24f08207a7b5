"""Copies of boxes by the TMA unit: a function for each number of dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.codegen.prelude.piece import Piece, filled, laid

RANKS = range(1, 6)


def of_each_rank(piece: Piece) -> Iterator[Piece]:
    """What stands behind `//@ each rank` for one to five dimensions, coordinates fastest first."""
    start, _, each = piece.text.partition("//@ each rank\n")
    texts = [start] if start.strip() else []
    texts += [filled(each, _words(rank)) for rank in RANKS]
    yield replace(piece, text="".join(map(laid, texts)))


def _words(rank: int) -> dict[str, str]:
    """Of one number of dimensions. So many operands stand before the coordinates as the words
    `FROM` and `BEHIND` say: where those stand, and which number comes then.
    """
    names = [f"c{d}" for d in range(rank)]
    words = {
        "RANK": str(rank),
        "PLACE": ", ".join(f"int {name}" for name in names),
        "OPERANDS": ", ".join(f'"r"({name})' for name in names),
    }
    for before in range(1, 5):
        words[f"FROM_{before}"] = ", ".join(f"%{before + d}" for d in range(rank))
        words[f"BEHIND_{before}"] = str(before + rank)
    return words
