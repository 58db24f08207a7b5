"""Columns of a product of which others of the same head are read, as rotations of heads do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm

import numpy as np

from warpsmith.ir import integers
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.program import Program
from warpsmith.ir.reads import Read, at
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ir.turns import turn_of
from warpsmith.schedulers.matmul.params import Numbers
from warpsmith.schedulers.matmul.threads import GROUP_THREADS
from warpsmith.schedulers.matmul.ways import Times, Ways
from warpsmith.targets.family import HELD
from warpsmith.values import dataclass

WORD = 4

TABLE_SHARE = 0.25
"""What reading a byte of a table takes beside one of a residual: other heads have read it before.
Two of bfloat16 that no thread held added 19 us to 2048 x 4096 x 4096 (an H200, 2026-11-28)."""


def columns_in_groups(fusion: Program) -> int:
    """What the columns of a tile are multiples of, so that it has all that is read of each group;
    1 where no column is read in place of another.
    """
    turns = filter(None, map(turn_of, fusion.operations))
    return lcm(*(turn.group for turn in turns))


def reads_beside(fusion: Program, product: Matmul) -> Iterator[tuple[Read, TensorView]]:
    """What threads read of memory at places that rows and columns of a product say, and that."""
    products = (op for op in fusion.operations if isinstance(op, Matmul))
    operands = fusion.depends_on([operand for op in products for operand in op.operands])
    memory, before = {*fusion.input_tensors}, {*operands}
    reads = (op for op in fusion.operations if isinstance(op, Read) and op not in before)
    for read in reads:
        known = read.is_one and memory >= {*read.sources}
        if known and read.output.rank == product.output.rank:
            yield read, read.sources[0]


def reads_pairs(read: Read) -> bool:
    """Whether two neighbouring columns are neighbours in memory, the first at an even place."""
    (source,), (places,) = read.sources, read.places
    order = source.concrete_order()
    if read.output.shape_axes[-1].is_broadcast or not order or not source.contiguity[order[-1]]:
        return False
    own = at(read.output.rank - 1)
    others = (place for d, place in enumerate(places) if d != order[-1])
    return _goes_on(places[order[-1]], own) and all(_stays(place, own) for place in others)


@dataclass(frozen=True, slots=True)
class Table:
    """What threads read for each row and column.

    Attributes:
        columns: the next so many have the same; 0 where that is not known.
        size: bytes of an element.
        pairs: two columns are read at once.
    """

    columns: int
    size: int
    pairs: bool

    def held(self, passes: Numbers) -> Numbers:
        """Registers in which a thread has it for two rows of each 64."""
        size = self.size if self.pairs else WORD
        return passes * np.int64(self.columns * size // (2 * WORD))


def tables_of(fusion: Program, product: Matmul) -> tuple[Table, ...]:
    """The tables that are read beside a product, for each row."""
    found: list[Table] = []
    for read, memory in reads_beside(fusion, product):
        axes = read.output.shape_axes
        if not (axes[-1].is_broadcast or all(axis.is_broadcast for axis in axes[:-1])):
            counts = [period(place, at(read.output.rank - 1)) for place in read.places[0]]
            each = max(counts) if all(counts) else 0
            found.append(Table(each, memory.dtype.size, reads_pairs(read)))
    return tuple(found)


def beside_sums(tables: Sequence[Table], ways: Ways) -> Times:
    """Bytes of a residual that what threads read of tables for each element of a tile is as: none
    where they hold all of them."""
    sums = ways.rows * ways.columns // (GROUP_THREADS * np.where(ways.ping_pong, 1, ways.groups))
    room = np.array([HELD.get(each, 0) for each in ways.groups.tolist()], np.int64) - sums
    held, fits = np.zeros_like(room), ways.columns > 0
    for table in tables:
        held = held + table.held(ways.passes)
        fits = fits & (table.columns > 0) & (table.columns < ways.columns)
    each = sum(table.size for table in tables)
    return np.where(fits & (held <= room), 0.0, TABLE_SHARE * each)


def period(place: Expr, own: Expr) -> int:
    """Columns behind which a place is the same again; 0 where none are known."""
    if own not in place.walk():
        return 1
    if isinstance(place, Apply) and place.op == "mod":
        return integers.constant(place.args[1]) or 0
    found = [period(arg, own) for arg in place.args]
    return max(found) if found and all(found) else 0


def _goes_on(place: Expr, own: Expr) -> bool:
    if isinstance(place, Apply) and place.op == "mod":
        return _goes_on(place.args[0], own) and integers.divides(2, place.args[1])
    rest = integers.sub(place, own)
    return own not in rest.walk() and integers.divides(2, rest)


def _stays(place: Expr, own: Expr) -> bool:
    """Whether a place is the same for two neighbours."""
    if isinstance(place, Apply) and place.op == "floordiv":
        divisor = place.args[1]
        return _stays(place.args[0], own) or (
            _goes_on(place.args[0], own) and integers.divides(2, divisor)
        )
    if isinstance(place, Apply):
        return all(_stays(arg, own) for arg in place.args)
    return place != own


def is_of_columns(operation: Operation, product: Matmul) -> bool:
    """Whether an operation turns whole groups of a product's columns."""
    turn, columns = turn_of(operation), len(product.output.root) - 2
    if turn is None or operation.inputs[0] is not product.output or turn.dimension != columns:
        return False
    return integers.divides(turn.group, product.output.root[columns].extent)
