"""Choice of tiles and stages for a matrix product, by predicted time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul, Move, Pointwise
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation
from warpsmith.schedulers.matmul.blocks import carried
from warpsmith.schedulers.matmul.memory import Beside, beside, unsupported_sizes
from warpsmith.schedulers.matmul.model import DEPTH_BYTES, SECTOR, SUM_BYTES, predicted_us
from warpsmith.schedulers.matmul.params import STORED, MatmulParams, kept
from warpsmith.schedulers.matmul.shape import is_turned, shape_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import ROWS, Atom
from warpsmith.targets.family import BUDGETS, WARP, WARP_GROUP, Limits
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

STEP = 32
"""What the columns of a tile are multiples of."""

MOST_COLUMNS = 256
"""Whose sums of 64 rows a warp group holds."""

TILES = tuple((2 * ROWS, columns) for columns in range(MOST_COLUMNS, STEP, -STEP))
"""Rows and columns of tiles, of two warp groups."""

SMALL = tuple((ROWS, columns) for columns in range(MOST_COLUMNS, 0, -STEP))
"""Those of one warp group, for products of few rows or few tiles."""

LARGE = tuple((3 * ROWS, columns) for columns in range(MOST_COLUMNS, STEP, -STEP))
"""Those of three warp groups."""

TURNS = (2, 3)
"""Warp groups that may take turns, with a tile each of `TILES` or `SMALL`."""

GROUP_THREADS = WARP_GROUP * WARP
OTHER_REGISTERS = (48, 64)
"""Of a thread besides its sums: where results are stored as they are, and behind an epilogue."""

CARRIED = (128, 64, 32)
"""Columns of tiles of which threads carry sums over blocks of k: all of one have one scale, where
128 share it."""

CARRYING_REGISTERS = 32
"""Of a thread besides these sums, a block's product and their scales: 25 of 128 x 128."""

FREE = ("set", "cast")
"""Operations that what is stored or loaded takes in any case."""

DRAWING = 30
"""Operations that a random number is as: ten rounds of six instructions draw two that a thread
needs. Counted, not timed."""

CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4))
"""Blocks of a cluster along m and n: each loads a part of what they share of an operand."""

SPLITS = tuple(range(2, 9))
"""Blocks of a cluster that may have parts of k of one tile: where each keeps a share of the
results, or tiles are narrow and what blocks have summed is little."""

MOST_ROUNDS = 2
"""Rounds of tiles that parts of k may make, at most: with more of them all blocks are busy."""

FEW = 64
"""Up to so many rows or columns a narrow tile has all of them: the columns of one instruction."""

LINES = (1, 2, 4)
"""Lines of `DEPTH_BYTES` of k that a stage may hold of narrow tiles: bytes that lie together."""

IN_FLIGHT = 96 * 1024
"""Bytes that the loads of one block bring at a time, where tiles are narrow: a multiprocessor's
share of the memory's bandwidth is some 36 KiB in each microsecond of a load's latency."""

LEAST_SWIZZLE = 32
"""Bytes of a line that a swizzle permutes, at least."""

FEWEST_STAGES = 4
"""With fewer, products wait for loads."""

BARRIER_BYTES = 1024
"""Shared memory of a block that barriers and alignment take."""

MOST_STAGES = 8

CHUNKS = (64, 32, 16)
CHUNK_BYTES = 128
"""Columns that chunks of what is beside the operands may have, and the most bytes of them, which a
swizzle permutes."""

CHUNK_STAGES = 2
"""Of the pipelines that load and store chunks."""

ONE_RESULT = Beside(staged=("",), out=2, widest=2)
"""One result of 16 bits, and nothing beside it."""

GROUP = 16
"""Most tiles along m that are computed beside each other, so that operands are met in L2 again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a call asks of a product.

    Attributes:
        m, n, k: of each of `batches`; m and n the other way round where operands are swapped.
        swapped: whether they are; then tiles are narrow.
        few: columns of narrow tiles; 0 where the product has more than one has.
        element: bytes of one of an operand.
        turned: for each operand, whether it lies along m or n.
        operations: behind the products, for each element of the result.
        moved: how what is beside the operands is loaded and stored.
        products: that share their left operand.
        carried: registers that threads have for each sum besides it, where they carry it over
            blocks of k: one for the block's product, one for scales that columns do not share.
        groups: of a grouped product, none of whose tiles has rows of two.
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
    moved: Beside = ONE_RESULT
    products: int = 1
    carried: int = 0
    groups: int | None = None

    @property
    def epilogue(self) -> tuple[int, int, int]:
        """Operations, and bytes that the TMA unit and that threads load, for each element."""
        return self.operations, self.moved.each, self.moved.by_threads

    def predicted(self, params: MatmulParams, target: Target) -> float:
        """Microseconds with these parameters."""
        unaligned: list[bool] = []
        edges: list[int] = []
        for edge, extent, across in zip(params.tile, (self.m, self.n), self.turned, strict=False):
            line = (extent if across else self.k) * self.element
            edges.append((edge if across else params.tile[2]) * self.element)
            unaligned.append(math.gcd(line, edges[-1]) % SECTOR != 0)
        halves = 0  # the last tile of each group has half of its rows
        if self.groups is not None:  # of numbers without rows, groups that take turns skip none
            halves = (
                (2 * self.groups + 2 if params.ping_pong else self.groups) * params.tile[0] // 2
            )
        sizes = (self.m + halves, self.n, self.k)
        operations, ahead, by_threads = self.epilogue
        epilogue = (operations, ahead if params.chunk else 0, by_threads)
        return predicted_us(
            params, *sizes, target, self.batches, unaligned, epilogue, edges, self.products
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
            epilogue=grouped or any(self.epilogue),  # searches take registers, too
            products=self.products,
            carried=self.carried,
        )
        if grouped:  # some numbers of tiles have no rows, and cost a block next to nothing
            found = (
                replace(p, dynamic=p.cluster == (1, 1) and p.splits == 1 and not p.ping_pong)
                for p in found
                if p.cluster[0] == 1
            )
        timed = [(params, self.predicted(params, problem.target)) for params in found]
        return sorted(timed, key=lambda each: each[1])


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
    by_group = product.rows_and_groups
    return Work(
        m=m,
        n=n,
        k=sizes[-1],
        swapped=swapped,
        few=0 if parts else _few(n, atom, turned=turned[1]),
        batches=batches,
        element=atom.size,
        turned=turned,
        operations=_operations(fusion, product),
        moved=beside(fusion, product, shape, problem),
        products=len(products),
        carried=parts,
        groups=None if by_group is None else problem.size(by_group[1].extent),
    )


def _few(columns: int, atom: Atom, *, turned: bool) -> int:
    """Columns of a tile that has all of a product's where these are few; else 0.

    Args:
        turned: their operand lies along them: pieces of it are at least a swizzle's 32 bytes.
    """
    step = LEAST_SWIZZLE // atom.size if turned else 1
    wide = (c for c in atom.columns if columns <= c <= FEW and c % step == 0)
    return next(wide, 0) if columns else 0


def choose(fusion: Program, problem: Problem) -> MatmulParams:
    """The candidate of the smallest predicted time, for a problem of sizes that are supported."""
    return ranked(fusion, problem)[0][0]


def ranked(fusion: Program, problem: Problem) -> list[tuple[MatmulParams, float]]:
    """All candidates with the microseconds that they are predicted to take, fastest first: as the
    product is and, where that makes columns few and no rows are of groups, with its operands
    swapped.
    """
    works = [work_of(fusion, problem)]
    alone = works[0].products == 1 and not works[0].carried and works[0].groups is None
    if 0 < works[0].m <= FEW and alone:
        works.append(work_of(fusion, problem, swapped=True))
    return sorted((way for work in works for way in work.ranked(problem)), key=lambda way: way[1])


def candidates(
    m: int,
    n: int,
    problem: Problem,
    *,
    few: int = 0,
    swapped: bool = False,
    element: int = 2,
    moved: Beside = ONE_RESULT,
    epilogue: bool = False,
    products: int = 1,
    carried: int = 0,
) -> Iterator[MatmulParams]:
    """Schedules of a product of m rows and n columns, with operands of `element` bytes, or of
    several that share their rows.

    Args:
        few, swapped, moved, products, carried: as of the work, whose m and n these are.
        epilogue: whether anything is computed or loaded behind it.
    """
    limits, most = problem.target.family.limits, MOST_ROUNDS * problem.target.sm_count
    wide = (
        {} if swapped else dict.fromkeys(((tile, 1) for tile in (*TILES, *SMALL, *LARGE)), SPLITS)
    )
    heights = (ROWS, 2 * ROWS) if few else ()
    narrow = {((rows, few), lines): SPLITS for lines in LINES for rows in heights}
    forms = _forms({**wide, **narrow}, turns=not swapped)
    for turns, (rows, columns), lines, cluster, splits in forms:
        held_columns = products * columns
        if held_columns > MOST_COLUMNS or splits > 1 < products:
            continue
        along = (_tiles(m, rows), _tiles(n, columns))
        through = bool(moved.loaded or moved.staged) and columns % STORED == 0
        own = kept(columns, splits, staged=through)
        blocks = math.prod(cluster) * splits
        joined = splits * own if splits > 1 else 0
        tried = (
            (c, stages((rows, held_columns), limits, c, joined, turns or 1, moved, lines))
            for c in _chunks(own if through else 0, moved)
        )
        chunk, held = max(tried, key=lambda each: (min(each[1], FEWEST_STAGES), each[0]))
        apart = any(count < has > 1 for count, has in zip(along, cluster, strict=True))
        if splits > 1 and (own == columns != few or math.prod(along) * splits > most):
            continue
        groups = turns or rows // ROWS
        sums = rows * held_columns // (GROUP_THREADS * (1 if turns else groups))
        others = CARRYING_REGISTERS if carried else OTHER_REGISTERS[epilogue]
        many = sums * (1 + carried) + others > _registers(limits, groups)
        if carried and (turns or splits > 1 or columns not in CARRIED):
            continue
        if apart or many or held < FEWEST_STAGES:
            continue
        if blocks > 1 and not problem.target.runs((blocks,)):
            continue
        loaded, staged = (moved.loaded, moved.staged) if chunk else ((), ())
        yield MatmulParams(
            tile=(rows, columns, lines * DEPTH_BYTES // element),
            lines=lines,
            swapped=swapped,
            stages=held,
            chunk=chunk,
            load_stages=CHUNK_STAGES if loaded else 0,
            store_stages=CHUNK_STAGES if staged else 0,
            loaded=loaded,
            staged=staged,
            group=_group(_tiles(along[0], cluster[0])),
            blocks=blocks * problem.target.teams(blocks),
            pairs=tuple(name for name in moved.pairs if name not in staged),
            cluster=cluster,
            splits=splits,
            ping_pong=turns,
        )


def _forms(
    shared: Mapping[tuple[tuple[int, int], int], Sequence[int]], *, turns: bool
) -> Iterator[tuple[int, tuple[int, int], int, tuple[int, int], int]]:
    """Groups that take turns, rows and columns, lines, cluster and splits; what was timed first.

    Args:
        shared: splits by tile and lines, where all groups of a block share a tile.
        turns: whether there are others, of groups that take turns.
    """
    for (tile, lines), parts in shared.items():
        for cluster in CLUSTERS:
            yield 0, tile, lines, cluster, 1
        for splits in parts:
            yield 0, tile, lines, (1, 1), splits
    for groups in TURNS if turns else ():
        for tile in (*TILES, *SMALL):
            for cluster in CLUSTERS:
                yield groups, tile, 1, cluster, 1


def _registers(limits: Limits, groups: int) -> int:
    """Registers of a thread of so many warp groups, beside one that loads with the fewest."""
    left = limits.sm_registers - GROUP_THREADS * BUDGETS.start
    each = left // (GROUP_THREADS * groups) // BUDGETS.step * BUDGETS.step
    return min(each, limits.thread_registers)


def _operations(fusion: Program, product: Matmul) -> int:
    """Operations behind a product for each element of the result."""
    blocks = carried(fusion, product)
    inside = () if blocks is None else blocks.scaled
    return counted(op for op in fusion.operations if op.outputs[0] not in inside)


def counted(operations: Iterable[Operation]) -> int:
    """How many operations on an element these are as, casts and copies left out."""
    pointwise = (op for op in operations if isinstance(op, Pointwise) and op.op not in FREE)
    return sum(DRAWING if op.op == "philox" else 1 for op in pointwise)


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


def stages(
    tile: tuple[int, ...],
    limits: Limits,
    chunk: int = CHUNKS[0],
    joined: int = 0,
    places: int = 1,
    moved: Beside = ONE_RESULT,
    lines: int = 1,
) -> int:
    """Stages for tiles of the operands that shared memory holds beside chunks of what is loaded and
    stored, and beside what blocks with parts of k have summed, twice.

    Args:
        tile: rows, columns of all products, and more that does not count.
        limits: of the target.
        chunk, lines: as of the parameters.
        joined: columns that a block gets from all of these blocks.
        places: tiles that are staged at once, of groups that take turns.
        moved: what is loaded and stored in chunks.
    """
    rows, columns = tile[:2]
    chunks = CHUNK_STAGES * moved.size(rows, chunk, places) if chunk else 0
    room = limits.block_shared - BARRIER_BYTES - chunks - 2 * rows * joined * SUM_BYTES
    stage = (rows + columns) * lines * DEPTH_BYTES
    return min(room // stage, max(MOST_STAGES, IN_FLIGHT // stage))


def _chunks(columns: int, moved: Beside) -> list[int]:
    """Columns that chunks may have, the most first: as many as a swizzle permutes, and fewer, for
    where operands would have too few stages.

    Args:
        columns: that a block stores of a tile; 0 where nothing moves in chunks.
    """
    fitting = (c for c in CHUNKS if columns % c == 0 and c * moved.widest <= CHUNK_BYTES)
    return list(fitting) if columns else [0]


def _group(tiles: int) -> int:
    """Tiles along m of one group: many, yet so that few places of the last group are empty."""
    least, most = (max(min(tiles, bound), 1) for bound in (GROUP // 2, GROUP))
    return min(range(least, most + 1), key=lambda group: (_tiles(tiles, group) * group, -group))


def _tiles(extent: int, edge: int) -> int:
    return -(-extent // edge)
