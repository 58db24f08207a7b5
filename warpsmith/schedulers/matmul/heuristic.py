"""Choice of a matrix product's schedule, by predicted time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.program import Program
from warpsmith.schedulers.matmul.blocks import Spread, at_once, carried, read_each_step
from warpsmith.schedulers.matmul.candidates import (
    MOST_COLUMNS,
    STEP,
    candidates,
    columns_together,
    few_columns,
)
from warpsmith.schedulers.matmul.memory import Beside, beside, in_fours, unloadable
from warpsmith.schedulers.matmul.model import counted_tiles, predicted_us
from warpsmith.schedulers.matmul.operations import LONG, behind_product, counted
from warpsmith.schedulers.matmul.params import Count, MatmulParams, Numbers, dividing
from warpsmith.schedulers.matmul.partials import (
    counted_parts,
    part_bytes,
    reduced_as,
    whole_chunks,
)
from warpsmith.schedulers.matmul.passing import read_once
from warpsmith.schedulers.matmul.prologues import Prologue, prologue_of
from warpsmith.schedulers.matmul.random import random_beside, share_behind
from warpsmith.schedulers.matmul.room import ONE_RESULT, loaded_columns, shared_by
from warpsmith.schedulers.matmul.sectors import L2_LINE, rows_cost
from warpsmith.schedulers.matmul.shape import is_computed, is_turned, shape_of
from warpsmith.schedulers.matmul.shared_stages import with_shared_stages
from warpsmith.schedulers.matmul.shares import with_last_parts, with_parts
from warpsmith.schedulers.matmul.turned_columns import (
    Table,
    beside_sums,
    columns_in_groups,
    tables_of,
)
from warpsmith.schedulers.matmul.ways import Times, Ways
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import ROWS
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

__all__ = [
    "MatmulParams",
    "candidates",
    "choose",
    "predicted_us",
    "product_of",
    "ranked",
    "unsupported_sizes",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a call asks of a product.

    Attributes:
        m, n, k: of each of `batches`; m and n the other way round where operands are swapped.
        swapped: whether they are; then tiles are narrow, operands computed, or results turned.
        few: columns of narrow tiles; 0 where the product has more than one has.
        element: bytes of one of an operand.
        odd: whether instructions have an odd number of eight columns, too.
        turned: for each operand, whether it lies along m or n.
        operations: behind the products, for each element of the result.
        drawn: more of these, which may be beside the products.
        moved: how what is beside the operands is loaded and stored.
        products: that share their left operand.
        in_a_row: kernels that multiply as much, this one among them, one after the other.
        scales: that differ along k.
        fours: as of the parameters.
        groups: of a grouped product, none of whose tiles has rows of two.
        begun: reductions of the results that threads begin: of columns, and of rows.
        prologue: what the first operand's tiles take; None where they are loaded as they are.
        tables: what threads read for each row and column, the same for each head.
        whole: what columns of a tile are multiples of, where others are read in place of some.
    """

    m: int
    n: int
    k: int
    swapped: bool = False
    few: int = 0
    batches: int = 1
    element: int = 2
    odd: bool = True
    turned: tuple[bool, bool] = (False, False)
    operations: int = 0
    drawn: int = 0
    moved: Beside = ONE_RESULT
    products: int = 1
    in_a_row: int = 1
    scales: tuple[Spread, ...] = ()
    fours: tuple[str, ...] = ()
    groups: int | None = None
    begun: tuple[int, int] = (0, 0)
    prologue: Prologue | None = None
    tables: tuple[Table, ...] = ()
    whole: int = 1

    @property
    def has_epilogue(self) -> bool:
        """Whether anything is computed or loaded behind the products."""
        return bool(self.whole > 1 or self.operations or self.moved.planes or self.moved.by_threads)

    @property
    def crowded(self) -> bool:
        """Whether threads load something beside the products, or compute at length."""
        long = self.operations + self.drawn >= LONG
        beside = self.moved.loaded or self.moved.by_threads or self.whole > 1
        return bool(beside or long)

    @property
    def stored(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Bytes of an element of each operand, or of what it is computed of, and of how many."""
        return self.prologue.stored if self.prologue else (self.element, 1), (self.element, 1)

    def predicted(self, params: MatmulParams, target: Target) -> float:
        """Microseconds with these parameters."""
        return float(self.priced(Ways.of(params), target)[0])

    def priced(self, ways: Ways, target: Target) -> Times:
        """Microseconds with each of these schedules."""
        columns = self.loaded_columns(ways)
        touched: list[Times] = []
        edges: list[Numbers] = []
        tile = (ways.rows, ways.rows), (ways.columns, columns)
        sides = zip(tile, (self.m, self.n), self.turned, self.stored, strict=True)
        for (own, edge), extent, across, (size, packed) in sides:
            line = (extent if across else self.k) * size // packed
            edges.append((edge if across else ways.depth) * size // packed)
            begin = np.where(across & (extent > own), np.gcd(line, own * size // packed), line)
            touched.append(rows_cost(edges[-1], begin))
        spare: Count = 0
        if self.groups is not None:  # the last tiles of each group have half of their rows
            spare = (self.groups + 1) * ways.rows * ways.down // 2
        chunk = np.maximum(ways.chunk, 1)
        lines = sum((np.maximum(size, L2_LINE // chunk) for size in self.moved.planes), 0 * chunk)
        waits = (ways.ping_pong == 0) & (ways.load_stages > 0)  # so do blocks that it loads for
        lines = lines * (ways.chunk > 0) * np.where(waits, ways.down * ways.across, 1)
        operations = self.operations + self.drawn * share_behind(ways, self.k)
        by_threads = self.moved.by_threads + beside_sums(self.tables, ways)
        epilogue = (operations, lines, by_threads)
        down = shared_by(ways.down, ways.columns, turned=self.turned[1])
        parts = self.batches * self.m * self.n * part_bytes(self.begun, ways)
        return parts / target.rates.memory + predicted_us(
            ways,
            self.m + spare,
            self.n,
            self.k,
            target,
            self.batches,
            touched,
            epilogue,
            edges,
            products=self.products,
            in_a_row=self.in_a_row,
            prologue=self.prologue,
            written=self.moved.out or ONE_RESULT.out,
            groups=self.groups or 1,
            loaded=columns,
            loaders=(ways.across, down),
            scales=read_each_step(self.scales, ways.rows, ways.columns),
        )

    def loaded_columns(self, ways: Ways) -> Numbers:
        """Columns that a stage holds of each one's tiles."""
        widths = {
            each: loaded_columns(each, self.element, turned=self.turned[1])
            for each in {*ways.columns.tolist()}
        }
        return np.array([widths[each] for each in ways.columns.tolist()], np.int64)

    def ranked(self, problem: Problem) -> list[tuple[MatmulParams, float]]:
        """All candidates with the microseconds that they are predicted to take, fastest first."""
        ways = self.ways(problem)
        us = self.priced(ways, problem.target)
        order = np.argsort(us, kind="stable").tolist()
        return [(self._made(ways[place], problem.target), float(us[place])) for place in order]

    def best(self, problem: Problem) -> list[tuple[MatmulParams, float]]:
        """The first of these alone; none where there are none."""
        ways = self.ways(problem)
        us = self.priced(ways, problem.target)
        first = [int(np.argmin(us))] if len(ways) else []
        return [(self._made(ways[place], problem.target), float(us[place])) for place in first]

    def ways(self, problem: Problem) -> Ways:
        """All candidates."""
        grouped = self.groups is not None
        found = candidates(
            self.m + ((self.groups or 0) + 1) * 2 * ROWS if grouped else self.m,
            self.n,
            problem,
            few=self.few,
            swapped=self.swapped,
            element=self.element,
            moved=self.moved,
            crowded=grouped or self.crowded,  # searches take registers, too
            batches=self.batches,
            products=self.products,
            line=self.k * self.element,
            scales=self.scales,
            scaled=at_once(self.k) if self.scales else 0,
            prologue=self.prologue,
            turned=self.turned[1],
            odd=self.odd,
        )
        if self.whole > 1:  # blocks have whole groups of columns, and one thread all of each
            found = found.at((found.columns % self.whole == 0) & (found.kept % self.whole == 0))
        if self.few and problem.chained:  # docs/lessons/generation.md
            found = found.at(found.down * found.across == 1)
        if grouped:  # others were never the fastest, or timed: docs/lessons/groups.md
            pairs = (found.down * found.across <= 2) & (found.groups <= 2) & (found.ping_pong == 0)
            narrow = (found.lines == 1) | (found.columns == self.few)
            found = found.at(pairs & narrow & (found.passes == 1))
            beside = columns_together(self.n, found.columns * found.across)
            found = replace(found, group=beside)  # of two sums, others may be the last to join each
            return with_last_parts(found) if self.products == 1 else found
        tiles, places = (self.batches * n for n in counted_tiles(found, self.m, self.n))
        if self.scales:
            return with_last_parts(replace(found, fours=self.fours), tiles, places)
        if self.prologue is not None or self.products > 1:
            return found
        again = (found.ping_pong == 0) | (tiles > found.blocks)  # else none has a second tile
        limits = problem.target.family.limits
        if any(self.begun):
            parted = found.at(again & whole_chunks(self.begun, found))
        else:
            parted = with_parts(found.at(again), tiles[again], self.k, limits)
        return with_shared_stages(parted, self.loaded_columns(parted), self.k, self.moved, limits)

    def _made(self, params: MatmulParams, target: Target) -> MatmulParams:
        """With what follows from sizes: which operands leave the L2 first, and steps that divide
        k, where an operand is computed, or scales come at once."""
        sizes, once = (self.m, self.n, self.k), (False, False)
        if self.groups is None:
            once = read_once(params, sizes, self.turned[1], self.element, self.batches, target)
        whole = dividing(params, self.k, computed=self.prologue is not None)
        return replace(params, whole=whole, once_read=once)


def product_of(fusion: Program) -> Matmul:
    """The first product of a fusion."""
    return products_of(fusion)[0]


def products_of(fusion: Program) -> list[Matmul]:
    """The products of a fusion, which have one left operand and the same dimensions."""
    return [op for op in fusion.operations if isinstance(op, Matmul)]


def work_of(fusion: Program, problem: Problem, *, swapped: bool = False) -> Work:
    """What a call asks of the products of a fusion, or of one with its operands swapped."""
    products = products_of(fusion)
    product = products[0]
    atom = atom_for(product, problem.target.family.atoms)
    assert atom is not None, f"`refusal` admitted {product.output.name}, which no atom computes"
    shape = shape_of(product).swapped if swapped else shape_of(product)
    sizes = [problem.size(axis.extent) for axis in product.output.root]
    walked, blocks = (shape.batches, shape.rows, shape.columns), carried(fusion, product)
    batches, m, n = (math.prod(sizes[p] for p in places) for places in walked)
    turned = (is_turned(product, swapped), is_turned(product, not swapped))
    by_group, behind = product.rows_and_groups, behind_product(fusion, product)
    begun = counted_parts(fusion)
    return Work(
        m=m,
        n=n,
        k=sizes[-1],
        swapped=swapped,
        few=0 if blocks and not swapped else few_columns(n, atom, turned=turned[1]),
        batches=batches,
        element=atom.size,
        odd=atom.takes(MOST_COLUMNS - STEP),
        turned=turned,
        operations=counted(behind) + reduced_as(begun),
        drawn=random_beside(behind),
        moved=beside(fusion, product, shape, problem),
        products=len(products),
        scales=tuple(s.swapped if swapped else s for s in blocks.scales.values()) if blocks else (),
        fours=in_fours(fusion, product, problem),
        groups=None if by_group is None else problem.size(by_group[1].extent),
        begun=begun,
        prologue=prologue_of(fusion, product.b if swapped else product.a),
        tables=tables_of(fusion, product),
        whole=columns_in_groups(fusion),
    )


def choose(fusion: Program, problem: Problem) -> MatmulParams:
    """The candidate of the smallest predicted time, for a problem of sizes that are supported."""
    return best_way(works_of(fusion, problem), problem)[0]


def ranked(fusion: Program, problem: Problem) -> list[tuple[MatmulParams, float]]:
    """All candidates with the microseconds that they are predicted to take, fastest first."""
    return fastest_first(works_of(fusion, problem), problem)


def works_of(fusion: Program, problem: Problem) -> tuple[Work, ...]:
    """What a call asks of the product or, where its second operand is computed, of it swapped; of
    both where that makes columns few, or results are turned on their way."""
    work = work_of(fusion, problem, swapped=is_computed(product_of(fusion).b))
    plain = work.products == 1 and work.prologue is None and work.whole == 1
    if plain and work.groups is None and min(work.m, work.n) and not any(work.begun):
        other = work_of(fusion, problem, swapped=True)
        if other.few or (other.moved.staged and not work.scales):
            return work, other
    return (work,)


def fastest_first(works: Iterable[Work], problem: Problem) -> list[tuple[MatmulParams, float]]:
    """Candidates of all ways to compute one product."""
    return sorted((way for work in works for way in work.ranked(problem)), key=lambda way: way[1])


def unsupported_sizes(fusion: Program, problem: Problem) -> str:
    """Why no tile of a call can be loaded, or has room; empty where one is.

    What threads hold of an operand that they compute may leave none.
    """
    if reason := unloadable(fusion, problem):
        return reason
    works = works_of(fusion, problem)
    if any(works[0].begun) and not any(len(work.ways(problem)) for work in works):
        return "no tile of its product is staged whole, of which threads could reduce columns"
    if works[0].prologue is None or any(len(work.ways(problem)) for work in works):
        return ""
    return "no tile of its product has room for what its operand is computed from"


def best_way(works: Iterable[Work], problem: Problem) -> tuple[MatmulParams, float]:
    """The first of these, found once a call: the planner asks of each kernel around a product."""
    asked = tuple(works), problem.target, problem.chained
    found: tuple[MatmulParams, float] | None = problem.found.get(asked)
    if found is None:
        first = (way for work in asked[0] for way in work.best(problem))
        found = problem.found[asked] = min(first, key=lambda way: way[1])
    return found
