"""How long a matrix product takes, from the rates of a target."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.ir.integers import constant
from warpsmith.ir.rounds import last_parts
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.prologues import Prologue
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

DEPTH_BYTES = 128
"""Bytes of k that a stage holds of each row and column: what a swizzle permutes."""

SUM_BYTES = 4

# Fitted to 2290 timings of an H200 at sizes drawn at random: docs/lessons/matmul.md.

TENSOR_SHARE = 1.18
"""Of the rate of tensor cores, what the steps over k would reach if they waited for nothing else:
clocks rise above the target's where power allows."""

FIRST_OPERAND = 24
"""Columns that the first operand of an instruction is as: it is in shared memory, as they are."""

L2_SHARE = 1.43
SM_SHARE = 1.75
"""Of the rates of the target, at which the L2 gives tiles, and a multiprocessor asks for them."""

AT_ONCE = 3
"""How little products, and loads on several ways, hold each other up: with 1 one waits for the
other, with many only the slowest counts."""

BEGUN_LINE = 0.37
BEGUN_SECTOR = 1.39
"""Of a line of the L2, what one more costs that a row of a box touches than its bytes would fill,
where it begins at a multiple of 32 bytes, and what it costs besides that it begins at others."""

SECTOR = 32
"""Bytes of a line that the L2 reads and writes at once."""

L2_LINE = 128
"""Bytes of which the L2 is asked for at once."""

MEMORY_SHARE = 0.78
MET = 0.37
"""Of the rate of the memory, at which operands come that are read once; and what one costs more
that all blocks ask for which have it, before it is there."""

WRITE_SHARE = 0.55
SHARED_SECTOR = 2.7
"""Of the rate of the memory, at which results of one round of tiles leave during the next one; and
how many more sectors one is as that rows of two chunks share."""

LATENCY_US = 1.24
STEP_US = 0.125
"""From asking for a stage's tile until it is there, through a cold L2: a step over k takes no less
than that for each stage that was asked for before; and what one takes of narrow tiles, whose
products and loads are less."""

JUMP_BYTES = 25
"""What the memory could have brought in the time in which it turns to bytes that lie elsewhere."""

START_US = 5.26
"""A launch, and the first loads."""

CLUSTER_US = 0.74
"""How long blocks of a cluster that load for each other wait more: as they start, and for the
slowest of them."""

JOIN_US = 0.46
"""What blocks of a cluster wait for besides the bytes below, where they have parts of k: for the
slowest of them, twice."""

JOIN_RATE = 2.11e4
"""Bytes a microsecond of what a block gets of all that have parts of k, until they are added up."""

SUMS_READ_RATE = 6.17e4
SUMS_US = 1.5
"""Bytes a microsecond of what blocks have summed of parts of k, as the last one of a tile reads
those of all; and what that one waits for: a barrier, a fence, an atomic operation, the first bytes.
That each writes its own to the L2 costs nothing that 90 timings show."""

LAST_US = 2.3
"""The same where only tiles of the last round have parts, for which all others are done."""

STORE_US = 0.98 / (128 * 128)
CHUNK_US = 0.141
SCATTER_US = 7.6 / (128 * 128)
SWAPPED_US = 3.9 / (128 * 128)
"""An element of the result that is staged in shared memory, each chunk of these besides, and an
element that threads store from registers, as it is or where operands are swapped."""

HAND_OFF_US = 0.26
WAY_OUT_US = 0.29
"""Tensor cores wait between the products of two groups that take turns: the last ones of a tile
are over, a barrier passes on, the first ones begin; and so does the way out."""

EPILOGUE_ISSUE_SHARE = 0.099
EPILOGUE_GROUPS = 2
"""Of the lanes' instructions, the pointwise operations that one warp group does behind a product;
two do twice as many, and three no more. Bias and GELU, 10 operations, add 5 us to a tile of 64 x
160 of one group, 5 to one of 128 x 160 of two, and 112 to a product of 4096 x 14336 of such."""

EXPOSED = 0.1
"""Of what a group computes behind its product, what tensor cores wait for, though another group
multiplies meanwhile: 26 to 36 us of the same product, of which 9 are behind the last tiles. For
what it loads itself they are taken to wait: nobody has timed that."""

EPILOGUE_MEMORY_SHARE = 0.109
"""Of the memory's rate, at which threads of an epilogue load: a residual of 2 bytes an element adds
230 us to that product."""


CHUNK_SHARE = 0.92
"""Of the rate at which a multiprocessor loads, at which chunks beside a product's operands come."""


def epilogue_us(
    elements: int, epilogue: tuple[int, int, int], groups: int, target: Target
) -> tuple[float, float]:
    """Microseconds that what a product's threads compute, and what they load, adds to it.

    Chunks that the TMA unit loads take as long as the lines that they touch. A bias and a residual
    are so predicted to add 5 us to 2048 x 4096 x 4096, 8 to 4096 x 14336 x 4096 and 43 to 8192 x
    8192 x 8192; they added 6, 17 and 63, before the L2 was asked for chunks ahead.

    Args:
        epilogue: as of `predicted_us`.
        groups: warp groups of a block that have it at a time.
    """
    operations, lines, by_threads = epilogue
    share = EPILOGUE_ISSUE_SHARE * min(groups, EPILOGUE_GROUPS)
    issued = share * WARP * target.sm_issues * target.sm_count
    brought = CHUNK_SHARE * target.rates.sm_load * target.sm_count
    loaded = by_threads / (EPILOGUE_MEMORY_SHARE * target.rates.memory)
    return elements * (operations / issued + lines / brought), elements * loaded


PROLOGUE_ISSUE_SHARE = 0.5
"""Of the lanes' instructions, those of two or more warp groups that compute an operand, or half of
it by one. Assumed: nobody has timed it."""


def prologue_us(elements: int, operations: int, target: Target) -> float:
    """Microseconds in which all multiprocessors compute elements of an operand."""
    issued = PROLOGUE_ISSUE_SHARE * WARP * target.sm_issues * target.sm_count
    return elements * operations / issued


def predicted_us(
    params: MatmulParams,
    m: int,
    n: int,
    k: int,
    target: Target,
    batches: int = 1,
    touched: Sequence[float] = (1.0, 1.0),
    epilogue: tuple[int, int, int] = (0, 0, 0),
    edges: Sequence[int] = (DEPTH_BYTES, DEPTH_BYTES),
    products: int = 1,
    prologue: Prologue | None = None,
    written: int = 2,
    groups: int = 1,
    loaded: int = 0,
) -> float:
    """Microseconds of a product, or of several of one left operand: as many rounds of tiles as
    blocks go.

    A step over k takes as long as its products and, where all blocks load at once, its loads: from
    the L2, and of each element once from memory, which few blocks have to themselves; the longest
    counts, and a little of the others. What comes behind the last step adds to that; where groups
    take turns, of a product and of what is behind another one the longer counts, and once both.

    Args:
        touched: as of `rows_cost`, of a's boxes and of b's.
        epilogue: operations, bytes of the lines of the L2 that chunks touch which the TMA unit
            loads, and bytes that threads load, for each element of the result.
        edges: bytes that lie together of a's tiles, and of b's.
        prologue: what a's tiles take, where they are computed.
        written: bytes of all results, for each element.
        groups: of rows, each of which has a right operand of its own.
        loaded: columns of b's tiles, where whole pieces are more than a tile has.
    """
    rows, columns, depth = params.tile
    brought, ready = float(rows), 0.0
    if prologue is not None:
        brought *= prologue.share
        ready = prologue_us(rows * depth // params.lines, prologue.operations, target)
        ready *= max(target.sm_count, 2 * target.sm_count // params.groups)
    splits, parts = params.splits, params.parts
    tiles, places = (batches * count * splits * parts for count in counted_tiles(params, m, n))
    wide, held = products * columns, products * (loaded or columns)
    asked = wide + (0 if prologue else products * FIRST_OPERAND)
    terms = rows * asked * DEPTH_BYTES  # multiplications and additions of 16-bit operands
    multiplied = terms / (TENSOR_SHARE * target.rates.tensor / target.sm_count)
    along = zip((brought, held), reversed(params.cluster), touched, strict=True)
    read = L2_LINE * sum(rows / by * cost for rows, by, cost in along)
    step = (
        multiplied,
        ready,
        read * min(tiles, params.blocks) / (L2_SHARE * target.rates.l2),
        read / (SM_SHARE * target.rates.sm_load),
        LATENCY_US / (params.stages * params.lines),
        STEP_US,
    )
    start = START_US + (CLUSTER_US if params.cluster != (1, 1) else 0.0)
    summed = rows * params.kept * SUM_BYTES
    joined = JOIN_US + splits * summed / JOIN_RATE if splits > 1 else 0.0
    if parts > 1:
        joined += SUMS_US + parts * summed / SUMS_READ_RATE
    scattered = SWAPPED_US if params.swapped else SCATTER_US
    stored = (STORE_US if params.chunk else scattered) * rows * params.kept
    stored += CHUNK_US * params.kept / params.chunk if params.chunk else 0.0
    leaves = rows * columns * written * params.blocks / (WRITE_SHARE * target.rates.memory)
    leaves *= _sectors_written(params.chunk, n)
    at_once = 1 if params.ping_pong else params.groups
    elements = rows * columns * target.sm_count
    computed, brought_us = epilogue_us(elements, epilogue, at_once, target)
    behind = joined + stored + computed + brought_us
    sides = zip((brought, held), (n / columns, m / groups / rows), edges, strict=True)
    once = sum(
        lines * _first_asked(max(math.ceil(by), 1)) * (1 + JUMP_BYTES / edge)
        for lines, by, edge in sides
    )
    each = DEPTH_BYTES * once / (MEMORY_SHARE * target.rates.memory)
    steps = math.ceil(math.ceil(math.ceil(k / depth) / parts) / splits) * params.lines
    whole, rest = divmod(tiles if params.stream else places, params.blocks)
    shared = (constant(last_parts(rest, params.blocks, steps)) or 1) if params.stream else 1
    main = steps * _together(*step, each * params.blocks)
    last = math.ceil(steps / shared) * _together(*step, each * rest * shared)
    if shared > 1:
        last += LAST_US + shared * summed / SUMS_READ_RATE
    rounds = whole + (rest > 0)
    main = main if whole else last
    stores = (rounds - 1) * leaves + main + behind
    if params.ping_pong:
        waits = HAND_OFF_US + EXPOSED * computed + brought_us
        out = behind + WAY_OUT_US
        return start + max(rounds * max(main + waits, out) + min(main, behind), stores)
    return start + max(whole * (main + behind) + (last + behind if rest else 0.0), stores)


def _together(*each: float) -> float:
    """How long it takes to do several things at once that disturb each other."""
    return float(sum(part**AT_ONCE for part in each) ** (1 / AT_ONCE))


def lines_touched(edge: int, pitch: int) -> float:
    """Lines of the L2 that rows of a box touch for each `DEPTH_BYTES` that they bring, in the mean.

    Args:
        edge: bytes that lie together, which come in pieces of as many as a swizzle permutes.
        pitch: bytes from one of these to the next.
    """
    piece = math.gcd(edge, DEPTH_BYTES)
    step = math.gcd(pitch, piece)
    return (1 + (piece - step) / L2_LINE) * DEPTH_BYTES / piece


def _first_asked(blocks: int) -> float:
    """How much of what so many blocks have is read from memory for each of them."""
    return (1 + MET * (1 - 1 / blocks)) / blocks


def rows_cost(edge: int, pitch: int) -> float:
    """Lines of the L2 that rows of a box are as, for each `DEPTH_BYTES` that they bring.

    Args:
        edge, pitch: as of `lines_touched`.
    """
    piece = math.gcd(edge, DEPTH_BYTES)
    step = math.gcd(pitch, piece)
    begun = DEPTH_BYTES / piece * (1 - min(step, SECTOR) / SECTOR)
    return 1 + BEGUN_LINE * (lines_touched(edge, pitch) - 1) + BEGUN_SECTOR * begun


def _sectors_written(chunk: int, n: int) -> float:
    """Sectors of memory that a result's chunks are as, for each that they would fill: rows of n
    elements of 16 bits may begin inside one.
    """
    shared = 1 - math.gcd(2 * n, SECTOR) / SECTOR
    return 1 + SHARED_SECTOR * shared * SECTOR / (2 * chunk) if chunk else 1.0


def counted_tiles(params: MatmulParams, m: int, n: int) -> tuple[int, int]:
    """Tiles of one batch that blocks load, those of clusters outside the product among them; and
    places for tiles, with the empty ones of the last group.
    """
    rows, columns, _ = params.tile
    down, across = params.cluster
    along = math.ceil(m / (rows * down))
    beside = math.ceil(n / (columns * across)) * down * across
    apart = 1 if params.ping_pong else params.group
    return along * beside, math.ceil(along / apart) * apart * beside
