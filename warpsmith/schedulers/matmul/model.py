"""How long a matrix product takes, from the rates of a target."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.prologues import Prologue
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

DEPTH_BYTES = 128
"""Bytes of k that a stage holds of each row and column: what a swizzle permutes."""

SUM_BYTES = 4

# Fitted at sizes drawn at random, to 680 timings of an H200, and held against 450 of an H100:
# docs/lessons/matmul.md.

TENSOR_SHARE = 1.0
"""Of the rate of tensor cores, what the steps over k would reach if they waited for nothing else:
clocks rise above the target's where power allows."""

L2_SHARE = 1.2
SM_SHARE = 1.05
"""Of the rates of the target, at which the L2 gives tiles, and a multiprocessor asks for them."""

AT_ONCE = 3
"""How little products, and loads on several ways, hold each other up: with 1 one waits for the
other, with many only the slowest counts."""

BEGUN_LINE = 0.5
"""Of a line of the L2, what one costs that a row of a box touches though its bytes would fill one
less: a tag is looked up for it, but not all of it is read."""

L2_LINE = 128
"""Bytes of which the L2 is asked for at once."""

MEMORY_SHARE = 0.8
"""Of the rate of the memory, at which operands come that are read once."""

WRITE_SHARE = 0.5
"""Of the rate of the memory, at which results of one round of tiles leave during the next one."""

LATENCY_US = 1.13
"""From asking for a stage's tile until it is there, through a cold L2: a step over k takes no less
than that for each stage that was asked for before."""

JUMP_BYTES = 27
"""What the memory could have brought in the time in which it turns to bytes that lie elsewhere."""

START_US = 5.57
"""A launch, and the first loads."""

CLUSTER_US = 1.63
"""How long blocks of a cluster that load for each other wait more: as they start, and for the
slowest of them."""

JOIN_US = 0.4
"""What blocks of a cluster wait for besides the bytes below, where they have parts of k: for the
slowest of them, twice."""

JOIN_RATE = 2.6e4
"""Bytes a microsecond of what a block gets of all that have parts of k, until they are added up."""

SUMS_READ_RATE = 1e5
SUMS_US = 2.0
"""Bytes a microsecond of what blocks have summed of parts of k, as the last one of a tile reads
those of all; and what that one waits for: a barrier, a fence, an atomic operation, the first bytes.
That each writes its own to the L2 costs nothing that 90 timings show."""

STORE_US = 0.79 / (128 * 128)
SCATTER_US = 7.6 / (128 * 128)
"""An element of the result, staged in shared memory, and stored by threads from registers."""

HAND_OFF_US = 0.2
"""Tensor cores wait between the products of two groups that take turns: the last ones of a tile
are over, a barrier passes on, the first ones begin. From latencies; nobody has timed it."""

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
) -> float:
    """Microseconds of a product, or of several of one left operand: as many rounds of tiles as
    blocks go.

    A step over k takes as long as its products and, where all blocks load at once, its loads: from
    the L2, and of each element once from memory, which few blocks have to themselves; the longest
    counts, and a little of the others. What comes behind the last step adds to that; where groups
    take turns, of a product and of what is behind another one the longer counts, and once both.

    Args:
        touched: as of `lines_touched`, of a's boxes and of b's.
        epilogue: operations, bytes of the lines of the L2 that chunks touch which the TMA unit
            loads, and bytes that threads load, for each element of the result.
        edges: bytes that lie together of a's tiles, and of b's.
        prologue: what a's tiles take, where they are computed.
        written: bytes of all results, for each element.
        groups: of rows, each of which has a right operand of its own.
    """
    rows, columns, depth = params.tile
    brought, ready = float(rows), 0.0
    if prologue is not None:
        brought *= prologue.share
        ready = prologue_us(rows * depth // params.lines, prologue.operations, target)
        ready *= max(target.sm_count, 2 * target.sm_count // params.groups)
    splits, parts = params.splits, params.parts
    tiles, places = (batches * count * splits * parts for count in counted_tiles(params, m, n))
    wide = products * columns
    terms = rows * wide * DEPTH_BYTES  # multiplications and additions of 16-bit operands
    multiplied = terms / (TENSOR_SHARE * target.rates.tensor / target.sm_count)
    along = zip((brought, wide), reversed(params.cluster), touched, strict=True)
    read = L2_LINE * sum(rows / by * (1 + BEGUN_LINE * (lines - 1)) for rows, by, lines in along)
    step = (
        multiplied,
        ready,
        read * min(tiles, params.blocks) / (L2_SHARE * target.rates.l2),
        read / (SM_SHARE * target.rates.sm_load),
        LATENCY_US / (params.stages * params.lines),
    )
    start = START_US + (CLUSTER_US if params.cluster != (1, 1) else 0.0)
    summed = rows * params.kept * SUM_BYTES
    joined = JOIN_US + splits * summed / JOIN_RATE if splits > 1 else 0.0
    if parts > 1:
        joined += SUMS_US + parts * summed / SUMS_READ_RATE
    stored = (STORE_US if params.chunk else SCATTER_US) * rows * params.kept
    leaves = rows * columns * written * params.blocks / (WRITE_SHARE * target.rates.memory)
    at_once = 1 if params.ping_pong else params.groups
    elements = rows * columns * target.sm_count
    computed, loaded = epilogue_us(elements, epilogue, at_once, target)
    behind = joined + stored + computed + loaded
    shared = zip((brought, wide), (n / columns, m / groups / rows), edges, strict=True)
    once = sum(
        lines / max(math.ceil(by), 1) * (1 + JUMP_BYTES / edge) for lines, by, edge in shared
    )
    each = DEPTH_BYTES * once / (MEMORY_SHARE * target.rates.memory)
    steps = math.ceil(math.ceil(math.ceil(k / depth) / parts) / splits) * params.lines
    whole, rest = divmod(places, params.blocks)
    main, last = (steps * _together(*step, each * blocks) for blocks in (params.blocks, rest))
    rounds = whole + (rest > 0)
    main = main if whole else last
    stores = (rounds - 1) * leaves + main + behind
    if params.ping_pong:
        waits = HAND_OFF_US + EXPOSED * computed + loaded
        return start + max(rounds * max(main + waits, behind) + min(main, behind), stores)
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
