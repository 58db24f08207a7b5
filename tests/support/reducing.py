"""Combining values: what reductions mean, step by step and across threads and blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tests.support.memory import Cell
from warpsmith.ir.carry import Carry
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.kernel.reductions import Reduce, ScanElements
from warpsmith.ops.joining import join

if TYPE_CHECKING:
    from tests.support.interpreter import Lanes

Cells = tuple[Cell, ...]


def combine(carry: Carry, a: Cells, b: Cells) -> Cells:
    """Two states as one."""
    defined = np.asarray(True)
    for cell in (*a, *b):
        defined = defined & cell.defined
    values = join(carry, tuple(c.data for c in a), tuple(c.data for c in b))
    return tuple(Cell(value, defined) for value in values)


def welford_step(mean: Cell, m2: Cell, count: Cell, value: Cell) -> tuple[Cell, Cell]:
    """(mean, m2) after one more value; `count` counts it already."""
    defined = mean.defined & m2.defined & count.defined & value.defined
    with np.errstate(all="ignore"):
        delta = value.data - mean.data
        new = mean.data + delta / count.data
        spread = m2.data + delta * (value.data - new)
    return Cell(new, defined), Cell(spread, defined)


def open_batch(values: Sequence[Cell], mean: Cell, count: Cell, *, joined: bool) -> Cells:
    """(shift, sum, squares) at the start of a batch: shifted by the mean so far, or by the first
    values' own where joined values are the first.
    """
    kind = mean.data.dtype.type
    shift = np.broadcast_to(mean.data, count.data.shape)
    if joined:
        own = sum(value.data for value in values[1:]) + values[0].data
        shift = np.where(count.data == 0, own * kind(1 / len(values)), mean.data).astype(kind)
    defined = mean.defined & count.defined & values[0].defined
    zero = Cell(np.zeros_like(shift), defined)
    return Cell(shift, defined), zero, zero


def collect(batch: Cells, values: Sequence[Cell]) -> Cells:
    """(shift, sum, squares) with more values."""
    shift, total, squares = batch
    for value in values:
        defined = total.defined & value.defined & shift.defined
        with np.errstate(all="ignore"):
            distance = value.data - shift.data
            total = Cell(total.data + distance, defined)
            squares = Cell(squares.data + distance * distance, defined)
    return shift, total, squares


def close_batch(batch: Cells, m2: Cell, count: Cell, added: int) -> Cells:
    """(mean, m2) after a batch of `added` values; `count` does not count them yet."""
    shift, total, squares = batch
    defined = total.defined & m2.defined & count.defined
    with np.errstate(all="ignore"):
        step = total.data / (count.data + count.data.dtype.type(added))
        spread = m2.data + squares.data - total.data * step
    return Cell(shift.data + step, defined), Cell(spread, defined)


def reduce_across(
    reduce: Reduce, lanes: Lanes, cells: Cells, arrival: np.ndarray
) -> tuple[Cells, Cell]:
    """Values of all threads after a reduction, and whether each has the final one.

    Where it is for the first threads alone, the others hold nothing that may be used.

    Threads of blocks that do not arrive last hold nothing that may be used.
    """
    kept = [axis for axis in BLOCK_TYPES if axis not in reduce.block_axes]
    keys = [lanes.block_of, *(lanes.places[axis.name] for axis in kept)]
    cells = _within(reduce.carry, cells, _groups(keys)) if reduce.block_axes else cells
    if reduce.first:
        at_zero = [lanes.places[axis.name] == 0 for axis in reduce.block_axes]
        first = np.logical_and.reduce(at_zero)
        cells = tuple(Cell(cell.data, cell.defined & first) for cell in cells)
    if not reduce.grid_axes:
        return cells, Cell(np.ones(lanes.count, np.bool_), np.ones(lanes.count, np.bool_))
    others = [axis for axis in GRID_TYPES if axis not in reduce.grid_axes]
    segment = _groups([lanes.places[axis.name] for axis in others] or [lanes.block_of * 0])
    own = [lanes.places[axis.name] for axis in BLOCK_TYPES]
    cells = _within(reduce.carry, cells, _groups([segment, *own]))
    rank = arrival[lanes.block_of]
    latest = np.zeros(int(segment.max()) + 1, rank.dtype)
    np.maximum.at(latest, segment, rank)
    last = latest[segment] == rank
    return (
        tuple(Cell(cell.data, cell.defined & last) for cell in cells),
        Cell(last, np.ones(lanes.count, np.bool_)),
    )


def scan_across(
    scan: ScanElements,
    lanes: Lanes,
    values: Sequence[Cells],
    running: Cells,
    row: np.ndarray,
    part: np.ndarray,
) -> tuple[list[Cells], Cells]:
    """Values of all threads after a scan, element by element, and the state behind them.

    Blocks of a row follow each other by their part of it, and in each of its turns the threads
    along the scanned axis, the first one first, or the last turn and thread if from the end.
    """
    kept = [axis for axis in BLOCK_TYPES if axis not in scan.block_axes]
    group = _groups([row, *(lanes.places[axis.name] for axis in kept)])
    place = np.zeros(lanes.count, np.int64)
    for axis in scan.block_axes:
        place = lanes.places[axis.name]
    found = [tuple(Cell(c.data.copy(), c.defined.copy()) for c in cells) for cells in values]
    state = tuple(_spread(cell, lanes.count) for cell in running)
    way = -1 if scan.reverse else 1
    each = scan.elements // scan.turns
    turns = product(range(scan.turns)[::way], range(int(place.max()) + 1)[::way])
    for at, (turn, thread) in product(range(int(part.max()) + 1), tuple(turns)):
        mine = (part == at) & (place == thread)
        for element in range(turn * each, turn * each + each)[::way]:
            cells = tuple(_spread(cell, lanes.count) for cell in values[element])
            sides = (cells, state) if scan.reverse else (state, cells)
            joined = combine(scan.carry, *sides)
            given = state if scan.exclusive else joined
            found[element] = tuple(
                Cell(np.where(mine, new.data, old.data), np.where(mine, new.defined, old.defined))
                for new, old in zip(given, map(_wide(lanes.count), found[element]), strict=True)
            )
            state = tuple(_of_group(cell, mine, group) for cell in joined)
    return found, state


def _spread(cell: Cell, count: int) -> Cell:
    return Cell(np.broadcast_to(cell.data, (count,)), np.broadcast_to(cell.defined, (count,)))


def _wide(count: int) -> Callable[[Cell], Cell]:
    return lambda cell: _spread(cell, count)


def _of_group(cell: Cell, mine: np.ndarray, group: np.ndarray) -> Cell:
    """To all threads of a group the value of the one among them whose turn it is."""
    leader = np.zeros(int(group.max()) + 1, np.int64)
    leader[group[mine]] = np.flatnonzero(mine)
    return Cell(cell.data[leader][group], cell.defined[leader][group])


def _groups(keys: list[np.ndarray]) -> np.ndarray:
    """Number of the group of each thread; groups agree on all keys."""
    stacked = np.stack([np.asarray(key) for key in keys])
    return np.unique(stacked, axis=1, return_inverse=True)[1].reshape(-1)


def _within(carry: Carry, cells: Cells, group: np.ndarray) -> Cells:
    """Each thread gets the combination of its group, as a tree over the group's threads."""
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    starts = np.cumsum(counts) - counts
    width = int(counts.max())
    steps = np.arange(width)
    there = steps < counts[:, None]
    lanes = order[np.where(there, starts[:, None] + steps, starts[:, None])]
    total = tuple(Cell(c.data[lanes], c.defined[lanes]) for c in cells)
    while width > 1:
        half = (width + 1) // 2
        low = tuple(Cell(c.data[:, : width - half], c.defined[:, : width - half]) for c in total)
        high = tuple(Cell(c.data[:, half:width], c.defined[:, half:width]) for c in total)
        exists = there[:, half:width]
        for whole, merged in zip(total, combine(carry, low, high), strict=True):
            np.copyto(whole.data[:, : width - half], merged.data, where=exists)
            np.copyto(whole.defined[:, : width - half], merged.defined, where=exists)
        width = half
    return tuple(Cell(c.data[:, 0][group], c.defined[:, 0][group]) for c in total)
