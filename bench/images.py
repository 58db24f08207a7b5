"""Batches of images: their sizes, in both memory formats, and problems made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

from bench.problem import ITEM_BYTES, Builder, Problem

SUITE = "batch_norm"
Call = Callable[..., Any]

BATCHES, CHANNELS, SIDES = (4, 512), (32, 2048), (7, 160)
"""From which numbers to which others sizes are drawn, evenly by their logarithm."""

CHANNEL_STEP = 32
LEAST_ELEMENTS, MOST_ELEMENTS = 2**20, 2**26
"""Of all images together."""


@dataclass(frozen=True, slots=True)
class Images:
    """A batch of images: how many, their channels, their height and width, and the format."""

    batch: int
    channels: int
    side: int
    inner: bool

    @property
    def shape(self) -> tuple[int, ...]:
        sides = (self.side, self.side)
        return (
            (self.batch, *sides, self.channels)
            if self.inner
            else (self.batch, self.channels, *sides)
        )

    @property
    def over(self) -> list[bool]:
        """Per dimension, whether batch norm reduces it."""
        return [d != (3 if self.inner else 1) for d in range(4)]

    @property
    def reduced(self) -> list[int]:
        return [d for d, gone in enumerate(self.over) if gone]

    @property
    def area(self) -> list[bool]:
        """Per dimension, whether it is height or width."""
        return [d in ((1, 2) if self.inner else (2, 3)) for d in range(4)]

    @property
    def count(self) -> int:
        """Elements of a channel."""
        return self.batch * self.side**2

    def outer(self, x: Any) -> Any:
        """PyTorch's view, channels the second dimension."""
        return x.permute(0, 3, 1, 2) if self.inner else x

    def back(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1) if self.inner else x


def drawn(source: Random, *, inner: bool) -> Images:
    """Images of any batch and side, their channels a multiple of `CHANNEL_STEP`."""

    def number(least: int, most: int, step: int = 1) -> int:
        found: float = least * (most / least) ** source.random()
        return round(found / step) * step

    while True:
        batch, channels = number(*BATCHES), number(*CHANNELS, CHANNEL_STEP)
        found = Images(batch, channels, number(*SIDES), inner)
        if LEAST_ELEMENTS <= math.prod(found.shape) <= MOST_ELEMENTS:
            return found


def problem_of(
    name: str,
    images: Images,
    dtype: str,
    programs: tuple[Call, Call, Call],
    *,
    full: int = 1,
    vectors: tuple[tuple[int, ...], ...],
    saved: int = 0,
    peers: Mapping[str, Builder] = MappingProxyType({}),
) -> Problem:
    """`full` inputs of the images' shape come first; `vectors` are the shapes of the rest, floats.

    `saved` floats are written beside the result.
    """
    eager, fused, define = programs
    elements = math.prod(images.shape)
    return Problem(
        suite=SUITE,
        name=name + ("_nhwc" if images.inner else ""),
        shapes=(images.shape,) * full + vectors,
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        builders=peers,
        in_float=tuple(range(full, full + len(vectors))),
        known_as=(images.batch, images.channels, images.side, images.side),
        bytes_written=elements * ITEM_BYTES[dtype] + saved * ITEM_BYTES["float"],
    )
