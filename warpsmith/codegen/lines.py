"""Lines of CUDA text, indented by two spaces a level."""

from __future__ import annotations

from collections.abc import Iterable


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def block(lines: Iterable[str], head: str = "") -> list[str]:
    """The lines between braces, after `head`."""
    return [f"{head} {{" if head else "{", *indented(lines), "}"]


def each_lane(width: int, text: str) -> list[str]:
    """A statement for every `k` below `width`."""
    return ["#pragma unroll", f"for (int k = 0; k < {width}; ++k) {text}"]
