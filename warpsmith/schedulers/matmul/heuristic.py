"""Choice of a matrix product's schedule, by predicted time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul, Move, Pointwise
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation
from warpsmith.schedulers.matmul.blocks import carried
from warpsmith.schedulers.matmul.candidates import (
    CARRIED,
    FEW,
    candidates,
    few_columns,
    in_parts,
)
from warpsmith.schedulers.matmul.memory import Beside, beside, unloadable
from warpsmith.schedulers.matmul.model import (
    L2_LINE,
    counted_tiles,
    predicted_us,
    rows_cost,
)
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.prologues import Prologue, prologue_of
from warpsmith.schedulers.matmul.room import ONE_RESULT, loaded_columns
from warpsmith.schedulers.matmul.shape import is_computed, is_turned, shape_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import ROWS
from warpsmith.targets.family import Limits
from warpsmith.targets.target import Target

__all__ = [
    "MatmulParams",
    "candidates",
    "choose",
    "predicted_us",
    "product_of",
    "ranked",
    "unsupported_sizes",
]

FREE = ("set", "cast")
"""Operations that what is stored or loaded takes in any case."""

DRAW, DRAWING = "philox", 20
"""What draws a random number, and the operations that it is as: ten rounds of four instructions, of
which two take two slots, draw two that a thread needs, and three choose and convert each. Bias and
GELU, of 13 instructions with two of four slots, are as 10. Not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a call asks of a product.

    Attributes:
        m, n, k: of each of `batches`; m and n the other way round where operands are swapped.
        swapped: whether they are; then tiles are narrow, or operands computed.
        few: columns of narrow tiles; 0 where the product has more than one has.
        element: bytes of one of an operand.
        turned: for each operand, whether it lies along m or n.
        operations: behind the products, for each element of the result.
        draws: whether these draw random numbers.
        moved: how what is beside the operands is loaded and stored.
        products: that share their left operand.
        carried: registers that threads have for each sum besides it, where they carry it over
            blocks of k: one for the block's product, one for scales that columns do not share.
        groups: of a grouped product, none of whose tiles has rows of two.
        prologue: what the first operand's tiles take; None where they are loaded as they are.
    """

    m: int
    n: int
    k: int
    swapped: bool = False
    few: int = 0
    batches: int = 1
    element: int = 2
    turned: tuple[bool, bool] = (False, False)
    operations: int = 0
    draws: bool = False
    moved: Beside = ONE_RESULT
    products: int = 1
    carried: int = 0
    groups: int | None = None
    prologue: Prologue | None = None

    @property
    def has_epilogue(self) -> bool:
        """Whether anything is computed or loaded behind the products."""
        return bool(self.operations or self.moved.planes or self.moved.by_threads)

    @property
    def stored(self) -> tuple[int, int]:
        """Bytes of an element of each operand, or of what it is computed of, in memory."""
        return (self.prologue.element if self.prologue else self.element, self.element)

    def predicted(self, params: MatmulParams, target: Target) -> float:
        """Microseconds with these parameters."""
        touched: list[float] = []
        edges: list[int] = []
        columns = loaded_columns(params.tile[1], self.element, turned=self.turned[1])
        tile = params.tile[0], columns
        sides = zip(tile, (self.m, self.n), self.turned, self.stored, strict=True)
        for edge, extent, across, size in sides:
            line = (extent if across else self.k) * size
            edges.append((edge if across else params.tile[2]) * size)
            touched.append(rows_cost(edges[-1], line))
        spare = 0
        if self.groups is not None:  # the last tile of each group has half of its rows
            spare = (self.groups + 1) * params.tile[0] // 2
        sizes = (self.m + spare, self.n, self.k)
        planes = self.moved.planes if params.chunk else ()
        lines = sum(max(size, L2_LINE // params.chunk) for size in planes)
        epilogue = (self.operations, lines, self.moved.by_threads)
        return predicted_us(
            params,
            *sizes,
            target,
            self.batches,
            touched,
            epilogue,
            edges,
            products=self.products,
            prologue=self.prologue,
            written=self.moved.out or ONE_RESULT.out,
            groups=self.groups or 1,
            loaded=columns,
        )

    def ranked(self, problem: Problem) -> list[tuple[MatmulParams, float]]:
        """All candidates with the microseconds that they are predicted to take, fastest first."""
        grouped = self.groups is not None
        found = candidates(
            self.m + ((self.groups or 0) + 1) * 2 * ROWS if grouped else self.m,
            self.n,
            problem,
            few=self.few,
            swapped=self.swapped,
            element=self.element,
            moved=self.moved,
            epilogue=grouped or self.has_epilogue,  # searches take registers, too
            draws=self.draws,
            batches=self.batches,
            products=self.products,
            carried=self.carried,
            prologue=self.prologue,
            turned=self.turned[1],
        )
        if grouped:  # the others were never the fastest: docs/lessons/groups.md
            found = (p for p in found if p.cluster == (1, 1) and p.groups <= 2 and not p.ping_pong)
        if self.prologue is not None:
            found = (_whole(params, self.k) for params in found)
        elif self.products == 1 and not (self.carried or grouped):
            limits = problem.target.family.limits
            found = (way for params in found for way in self._in_parts(params, limits))
        timed = [(params, self.predicted(params, problem.target)) for params in found]
        return sorted(timed, key=lambda each: each[1])

    def _in_parts(self, params: MatmulParams, limits: Limits) -> Iterator[MatmulParams]:
        """A schedule, and those in which blocks of the grid have parts of k; none of groups that
        take turns where no block has a second tile.
        """
        tiles = self.batches * counted_tiles(params, self.m, self.n)[0]
        if params.ping_pong and tiles <= params.blocks:
            return
        yield params
        yield from in_parts(params, tiles, self.k, limits)


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
    walked, parts = (shape.batches, shape.rows, shape.columns), _carried(fusion, product)
    batches, m, n = (math.prod(sizes[p] for p in places) for places in walked)
    turned = (is_turned(product, swapped), is_turned(product, not swapped))
    by_group, behind = product.rows_and_groups, _behind(fusion, product)
    return Work(
        m=m,
        n=n,
        k=sizes[-1],
        swapped=swapped,
        few=0 if parts else few_columns(n, atom, turned=turned[1]),
        batches=batches,
        element=atom.size,
        turned=turned,
        operations=counted(behind),
        draws=any(isinstance(op, Pointwise) and op.op == DRAW for op in behind),
        moved=beside(fusion, product, shape, problem),
        products=len(products),
        carried=parts,
        groups=None if by_group is None else problem.size(by_group[1].extent),
        prologue=prologue_of(fusion, product.b if swapped else product.a),
    )


def _whole(params: MatmulParams, k: int) -> MatmulParams:
    """The parameters for a k that steps of all blocks divide, where they do."""
    step = params.tile[2] * params.splits
    return replace(params, whole=step) if k and k % step == 0 else params


def choose(fusion: Program, problem: Problem) -> MatmulParams:
    """The candidate of the smallest predicted time, for a problem of sizes that are supported."""
    return best_way(works_of(fusion, problem), problem)[0]


def ranked(fusion: Program, problem: Problem) -> list[tuple[MatmulParams, float]]:
    """All candidates with the microseconds that they are predicted to take, fastest first."""
    return fastest_first(works_of(fusion, problem), problem)


def works_of(fusion: Program, problem: Problem) -> tuple[Work, ...]:
    """What a call asks of the product as it is or, where its second operand is computed, with its
    operands swapped; of both where that makes columns few and no rows are of groups.
    """
    work = work_of(fusion, problem, swapped=is_computed(product_of(fusion).b))
    plain = work.products == 1 and work.prologue is None and not work.carried
    if plain and 0 < work.m <= FEW and work.groups is None:
        return work, work_of(fusion, problem, swapped=True)
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
    if works[0].prologue is None or fastest_first(works, problem):
        return ""
    return "no tile of its product has room for what its operand is computed from"


def best_way(works: Iterable[Work], problem: Problem) -> tuple[MatmulParams, float]:
    """The first of these, found once a call: the planner asks of each kernel around a product."""
    asked = tuple(works), problem.target
    found: tuple[MatmulParams, float] | None = problem.found.get(asked)
    if found is None:
        found = problem.found[asked] = fastest_first(asked[0], problem)[0]
    return found


def _behind(fusion: Program, product: Matmul) -> list[Operation]:
    """Operations behind a product, on each element of the result."""
    blocks = carried(fusion, product)
    inside = () if blocks is None else blocks.scaled
    before = fusion.depends_on([product.a, product.b])
    behind = (op for op in fusion.operations if op not in before)
    return [op for op in behind if op.outputs[0] not in inside]


def counted(operations: Iterable[Operation]) -> int:
    """How many operations on an element these are as, casts and copies left out."""
    pointwise = (op for op in operations if isinstance(op, Pointwise) and op.op not in FREE)
    return sum(DRAWING if op.op == DRAW else 1 for op in pointwise)


def _carried(fusion: Program, product: Matmul) -> int:
    """As of `Work`."""
    blocks = carried(fusion, product)
    if blocks is None:
        return 0
    spread = [load.definition for load in blocks.loads]
    times = [
        (move.repeats or (1, 1))[-2]
        for move in spread
        if isinstance(move, Move) and not move.output.shape_axes[-2].is_broadcast
    ]
    return 1 + any(each % CARRIED[0] != 0 for each in times)
