"""How many blocks share the keys of a head, and how long attention takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from warpsmith.schedulers.attention.loops import SIDE
from warpsmith.schedulers.attention.shape import Shape
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

STAGES = (3, 2, 1)
"""Tiles of keys and values that a block may have room for."""

BESIDE_BYTES, REGISTERS = 8192, 104
"""Of shared memory, what a block has beside tiles; and registers of a thread."""

FLIGHT_BYTES = 65536
"""Asked for by a multiprocessor at once, with which memory is busy."""

MEMORY_SHARE = 0.87
"""Of the memory's rate, what is read then."""

SPREAD_POWER, ENOUGH = 0.25, 0.9
"""Of the share of multiprocessors that have a block, up to that: 64 read 0.84 of what all do
(docs/lessons/few_rows.md)."""

TILE_US = 0.8
"""What a block takes for a tile that is there. An estimate."""

MEET_US, JOIN_US, AT_ONCE = 1.5, 0.9, 4
"""Until the last block of a head knows that it is, and what it takes to join so many others at
once. Estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionParams(Params):
    """A schedule of attention.

    Attributes:
        blocks: that share the keys of a head; each has every so manieth tile.
        stages: of tiles of keys and values.
        pairs: of elements of queries are loaded at once.
    """

    blocks: int
    stages: int
    pairs: bool = True


def choose(shape: Shape, problem: Problem) -> AttentionParams:
    """The fastest by the model; of equal ones that of fewer blocks."""
    return min(candidates(shape, problem), key=lambda each: each[1])[0]


def candidates(shape: Shape, problem: Problem) -> Iterator[tuple[AttentionParams, float]]:
    """Ways to share heads out, with the microseconds that each is predicted to take."""
    target, limits = problem.target, problem.target.family.limits
    heads = max(1, prod(problem.size(axis.extent) for axis in shape.axes["P"]))
    tiles = max(1, *(problem.size(axis.extent) for axis in shape.axes["C"]))
    keys, depth, columns = (shape.extent(letter) or 0 for letter in "TDE")
    size = 2 * keys * (depth + columns)
    by_registers = limits.blocks_of(REGISTERS, WARP * keys // SIDE)
    for blocks in range(1, max(1, min(2 * target.sm_count // heads, tiles)) + 1):
        each = -(-tiles // blocks)
        for stages in (n for n in STAGES if n <= each):
            by_memory = limits.sm_shared // (stages * size + BESIDE_BYTES)
            at_once = target.sm_count * min(by_memory, by_registers)
            if at_once >= heads * blocks or (at_once and blocks == 1):
                flight = min(heads * blocks, at_once) * stages * size / target.sm_count
                spread = min(heads * blocks / (ENOUGH * target.sm_count), 1.0) ** SPREAD_POWER
                rate = target.rates.memory * MEMORY_SHARE * spread
                rate *= min(flight / FLIGHT_BYTES, 1.0)
                waves = -(-heads * blocks // at_once)
                us = max(heads * tiles * size / rate, waves * each * TILE_US)
                if blocks > 1:
                    us += MEET_US + -(-blocks // AT_ONCE) * JOIN_US
                yield AttentionParams(blocks=blocks, stages=stages), us
