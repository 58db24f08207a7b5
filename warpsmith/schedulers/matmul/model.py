"""How long a matrix product takes, from the rates of a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsmith.ir.rounds import MOST_PARTS
from warpsmith.schedulers.matmul.carrying import least_step_us, longer
from warpsmith.schedulers.matmul.params import Count, Numbers
from warpsmith.schedulers.matmul.prologues import Prologue
from warpsmith.schedulers.matmul.sectors import DEPTH_BYTES, L2_LINE, sectors_written
from warpsmith.schedulers.matmul.waits_of_groups import late_us, searched_us
from warpsmith.schedulers.matmul.ways import Times, Ways
from warpsmith.targets.atoms import ROWS
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

SUM_BYTES = 4

# Fitted to 2290 timings of an H200 at sizes drawn at random, and to more: docs/lessons/matmul.md.

TENSOR_SHARE = 1.18
"""Of the rate of tensor cores, what the steps over k would reach if they waited for nothing else:
clocks rise above the target's where power allows."""

SLOWED, SLOWED_AT_US = 0.55, 300
"""By how much longer products take where tensor cores are busy for long, as power holds the clock;
half of that where they multiply for so long."""

FIRST_OPERAND = 24
"""Columns that the first operand of a step is as: it is in shared memory, as they are. Instructions
of several products read it again, which takes no longer: two of 128 columns are as fast as one of
256 (docs/lessons/epilogues.md)."""

L2_SHARE = 1.25
SM_SHARE, GOT_SHARE = 1.75, 2.1
"""Of the rates of the target, at which the L2 gives tiles, and a multiprocessor asks for them, and
gets what its cluster asks for: 6144 x 248 x 7032, whose columns begin at multiples of 16 bytes, in
64 x 256 takes 52.6 us, and 41.2 with operands swapped (an H200)."""

AT_ONCE = 5
"""How little products and loads hold each other up: with 1 one waits for the other, with many only
the slowest counts."""

MEMORY_SHARE = 0.78
MET = 0.37
"""Of the rate of the memory, at which operands come that are read once; and what one costs more
that all blocks ask for which have it, before it is there."""

WRITE_SHARE = 0.72
"""Of the rate of the memory, at which results leave."""

WRITTEN = 3.3
"""What a byte that is written is as, of those that are read, which all pass the L2."""

LATENCY_US, STEP_US, LINE_US = 1.35, 0.15, 0.25
"""From asking for a stage's tile until it is there, through a cold L2: a step takes no less than a
stage's share of that and of its own products, which hold it then; what a stage takes with little in
it; and how much later the first one is there for each line more."""

LONELY, LONELY_LATENCY_US, LONELY_STEP_US = 64, 2.0, 0.04
"""The first two where a tile has all rows, or columns, up to so many: one block alone reads the
other operand. Fitted, with FEW_PLACES, to 488 timings (docs/lessons/few_rows.md)."""

JUMP_BYTES = 25
"""What the memory could have brought in the time in which it turns to bytes that lie elsewhere."""

START_US = 5.5
"""A launch, and the first loads."""

CLUSTER_US = 0.24
WIDE_US, WIDE = 0.5, 4
"""How long blocks that load for each other wait more, as they start, and for the slowest; and those
of a cluster of more than so many, besides."""

FEW_PLACES, SPREAD_BLOCKS, SPREAD_TIMES = 0.75, 4, 1.03
"""Blocks without clusters that are fewer than multiprocessors share ways to the memory: what one
alone reads comes at a rate that grows with their number to this power; that of such a cluster."""

ONCE_TIMES = 1.07
"""How much faster the memory brings an operand that one cluster alone reads: what comes is the
first to leave the L2, and leaves there what others wrote, of which the memory would get it."""

JOIN_US = 0.46
END_US = 0.5
"""What blocks of a cluster wait for besides the bytes below, where they have parts of k: for the
slowest, twice; and, if of several tiles, for each other at their end, which fences all memory."""

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
ROW_US = 1.3 / (128 * 128)
"""An element of the result that is staged in shared memory, in rows of whole sectors, each chunk of
these besides, and an element that threads store from registers, as it is or where operands are
swapped; and what a staged one takes more where threads store it along rows, one at a time."""

HAND_OFF_US = 0.26
WAY_OUT_US = 0.29
"""Tensor cores wait between the products of two groups that take turns: the last ones of a tile
are over, a barrier passes on, the first ones begin; and so does the way out."""

EPILOGUE_ISSUE_SHARE = 0.238
EPILOGUE_GROUPS = 2
"""Of the lanes' instructions, those that one warp group does behind a product; two do twice as
many, three no more. Bias and GELU, as 24 operations, add 5 us to a tile of 64 x 160 of one group, 5
to one of 128 x 160 of two, and 112 to a product of 4096 x 14336 of such."""

EXPOSED = 0.1
"""Of what a group computes behind its product, what tensor cores wait for, though another group
multiplies meanwhile: 26 to 36 us of the same product, of which 9 are behind the last tiles. For
what it loads itself they are taken to wait: nobody has timed that."""

LAST_CHUNK_US = 0.3
"""A chunk that the TMA unit loads, of the last tile of groups that take turns, where one alone
waits for it, reads it and stages results: 17 products with a residual took 7 % longer than what
others say predicts, 4 % with that, and 2 % in tiles that groups share (an H200, 2026-11-27)."""

EPILOGUE_MEMORY_SHARE = 0.109
"""Of the memory's rate, at which threads of an epilogue load: a residual of 2 bytes an element adds
230 us to that product."""

CHUNK_SHARE = 0.92
"""Of the rate at which a multiprocessor loads, at which chunks beside a product's operands come."""


def epilogue_us(
    elements: Numbers, epilogue: tuple[Times, Count, int | Times], groups: Numbers, target: Target
) -> tuple[Times, Times]:
    """Microseconds that what a product's threads compute, and what they load, adds to it.

    Chunks that the TMA unit loads take as long as the lines that they touch. A bias and a residual
    are so predicted to add 6 us to 2048 x 4096 x 4096, 5 to 4096 x 14336 x 4096 and 48 to 8192 x
    8192 x 8192; they added 6, 17 and 63, and 6 to the second since the L2 is asked for them ahead.

    Args:
        epilogue: as of `predicted_us`.
        groups: warp groups of a block that have it at a time.
    """
    operations, lines, by_threads = epilogue
    share = EPILOGUE_ISSUE_SHARE * np.minimum(groups, EPILOGUE_GROUPS)
    issued = share * WARP * target.sm_issues * target.sm_count
    brought = CHUNK_SHARE * target.rates.sm_load * target.sm_count
    loaded = by_threads / (EPILOGUE_MEMORY_SHARE * target.rates.memory)
    return elements * (operations / issued + lines / brought), elements * loaded


PROLOGUE_ISSUE_SHARE, PROLOGUE_WAITS = 1.06, 1.26
"""Of the lanes' instructions, those that compute an operand where nothing waits; and how much
longer that takes where one warp group waits for itself, in steps of one line: more groups hide each
other's waits, and lines theirs. Fitted, with the next, to 876 timings at 163 drawn sizes
(docs/lessons/weights.md)."""

PROLOGUE_AT_ONCE = 1.36
"""How little products and what computes their operand hold each other up, as `AT_ONCE`: much, for
the same warps do both."""


def prologue_us(operations: int, at_once: Count, target: Target) -> Times:
    """Microseconds in which all multiprocessors compute an element of an operand, on average.

    Args:
        at_once: warp groups of each, times the lines of a step.
    """
    issued = PROLOGUE_ISSUE_SHARE * WARP * target.sm_issues * target.sm_count
    return np.asarray(operations / issued * (1 + PROLOGUE_WAITS / np.asarray(at_once)))


def predicted_us(
    ways: Ways,
    m: Count,
    n: int,
    k: int,
    target: Target,
    batches: int = 1,
    touched: Sequence[float | Times] = (1.0, 1.0),
    epilogue: tuple[Times, Count, int | Times] = (np.zeros(1), 0, 0),
    edges: Sequence[Count] = (DEPTH_BYTES, DEPTH_BYTES),
    products: int = 1,
    in_a_row: int = 1,
    prologue: Prologue | None = None,
    written: int = 2,
    groups: int = 1,
    loaded: Count = 0,
    loaders: tuple[Count, Count] = (1, 1),
    scales: Sequence[Count] = (0, 0, 0),
) -> Times:
    """Microseconds of a product, or of several of one left operand, with each of some schedules: as
    many rounds of tiles as blocks go.

    A step over k takes as long as its products and, where all blocks load at once, its loads: from
    the L2, and of each element once from memory, which few blocks have to themselves; the longest
    counts, and a little of the others. What comes behind the last step adds to that; where groups
    take turns, of a product and of what is behind another one the longer counts, and once both. All
    takes no less than what passes the L2, or the memory, which operands and results share.

    Args:
        touched: as of `rows_cost`, of a's boxes and of b's.
        epilogue: operations, bytes of the lines of the L2 that chunks touch which the TMA unit
            loads, and bytes that threads load, for each element of the result.
        edges: bytes that lie together of a's tiles, and of b's.
        in_a_row: kernels that multiply as much, one after the other: power holds the clock of all.
        prologue: what a's tiles take, where they are computed.
        written: bytes of all results, for each element.
        groups: of rows, each of which has a right operand of its own.
        loaded: columns of b's tiles, where whole pieces are more than a tile has.
        loaders: blocks of a cluster that load a's tile for each other, and b's.
        scales: as of `read_each_step`.
    """
    rows, columns, depth, blocks = ways.rows, ways.columns, ways.depth, ways.blocks
    brought, ready = rows * 1.0, 0.0 * rows
    if prologue is not None:
        brought = brought * prologue.share
        ready = prologue_us(prologue.operations, ways.groups * ways.lines, target)
        ready = ready * (rows * depth // ways.lines) * target.sm_count
    splits, parts = ways.splits, ways.parts
    tiles, places = (batches * count * splits * parts for count in counted_tiles(ways, m, n))
    places = tiles if groups > 1 else places
    wide, held = products * columns, products * (loaded + columns * (np.asarray(loaded) == 0))
    asked = (
        wide * longer(ways, scales) if ways.scaled else wide + (0 if prologue else FIRST_OPERAND)
    )
    terms = rows * asked * DEPTH_BYTES  # multiplications and additions of 16-bit operands
    multiplied = terms / (TENSOR_SHARE * target.rates.tensor / target.sm_count)
    all_terms = batches * products * m * n * k / depth * ways.lines * DEPTH_BYTES
    busy = in_a_row * all_terms / (TENSOR_SHARE * target.rates.tensor)
    multiplied = multiplied * (1 + SLOWED * busy / (busy + SLOWED_AT_US))
    of_a, of_b = L2_LINE * brought * touched[0], L2_LINE * held * touched[1]
    read = of_a / loaders[0] + of_b / loaders[1]
    lonely = (n <= np.minimum(columns, LONELY)) | (m / groups <= np.minimum(rows, LONELY))
    least = np.where(lonely, LONELY_STEP_US, STEP_US / ways.lines)
    if ways.scaled:
        least = least_step_us(ways, least, m, scales, target, rounds=tiles > blocks)
    step = _disturbed(
        (multiplied**PROLOGUE_AT_ONCE + ready**PROLOGUE_AT_ONCE) ** (1 / PROLOGUE_AT_ONCE),
        read * np.minimum(tiles, blocks) / (L2_SHARE * target.rates.l2),
        read / (SM_SHARE * target.rates.sm_load),
        (of_a + of_b) / (GOT_SHARE * target.rates.sm_load),
        least,
    )
    latency = LATENCY_US + (late_us(ways, m, groups) if groups > 1 else 0)
    filled = np.where(lonely, LONELY_LATENCY_US, latency) / ways.lines + multiplied
    step = np.hypot(step, (filled / ways.stages) ** AT_ONCE)  # nearly the longer one of both
    together = ways.down * ways.across
    late = LINE_US * (ways.lines - 1) * (1 - lonely)
    start = START_US + late + CLUSTER_US * (together > 1) + WIDE_US * (together > WIDE)
    summed = rows * ways.kept * SUM_BYTES
    joined = (splits > 1) * (JOIN_US + splits * summed / JOIN_RATE)
    start = start + END_US * ((splits > 1) & (ways.once == 0))
    joined = joined + (parts > 1) * (SUMS_US + parts * summed / SUMS_READ_RATE)
    scattered = SWAPPED_US if ways.swapped else SCATTER_US
    staged, chunk = ways.chunk > 0, np.maximum(ways.chunk, 1)
    by_rows = ROW_US * sum(1 / each for _, each in ways.by_rows)
    element_us = np.where(staged, STORE_US + by_rows, scattered)
    run, line = (ROWS * staged, m) if ways.swapped else (ways.chunk, np.gcd(n, columns))
    parted = sectors_written(run, line)
    sectors = written * parted
    stored = ways.kept * (rows * element_us * parted + staged * CHUNK_US / chunk)
    in_turn = ways.ping_pong > 0
    at_once = np.where(in_turn, 1, ways.groups)
    elements = rows * columns * target.sm_count
    computed, brought_us = epilogue_us(elements, epilogue, at_once, target)
    behind = joined + stored + computed + brought_us
    sides = zip((brought, held), (n / columns, m / groups / rows), edges, strict=True)
    once = sum(
        lines * _first_asked(np.ceil(by)) * (1 + JUMP_BYTES / edge) for lines, by, edge in sides
    )
    each = DEPTH_BYTES * once / (MEMORY_SHARE * target.rates.memory)
    each = each / np.where(lonely & (together >= SPREAD_BLOCKS), SPREAD_TIMES, 1.0)
    apart = lonely & (together == 1) & (splits == 1)
    of_part = np.ceil(np.ceil(k / depth) / parts)
    steps = np.ceil(of_part / splits) * ways.lines

    def last_round(rest: Numbers) -> Times:
        at_once = ways.scaled or 1
        turns = np.ceil(steps / at_once)
        among = np.minimum(blocks // np.maximum(rest, 1), np.minimum(turns, MOST_PARTS))
        shared = np.where(ways.stream, np.maximum(among, 1), 1)  # as `last_parts`
        share = rest * shared / target.sm_count  # of multiprocessors that read
        share = np.where(apart & (share < 1), share**FEW_PLACES, share)
        reading = share * target.sm_count
        some = np.minimum(np.ceil(turns / shared) * at_once, steps)
        last = some * _together(step + (each * reading) ** AT_ONCE)
        return np.asarray(last + (shared > 1) * (LAST_US + shared * summed / SUMS_READ_RATE))

    whole, rest = np.divmod(np.where(ways.stream, tiles, places), blocks)
    main, last = steps * _together(step + (each * blocks) ** AT_ONCE), last_round(rest)
    if groups > 1:  # memory says how many tiles the last round has: any number
        known, shares = tiles <= blocks, range(1, 16, 2)
        usual = sum(last_round(blocks * share // 16) for share in shares) / len(shares)
        last = np.where(known, last, usual)
        whole = np.where(known, whole, tiles / blocks - 0.5)
        rest = np.where(known, rest, blocks)
    rounds = whole + (rest > 0)
    main = np.where(whole, main, last)
    passes = np.minimum(tiles, blocks) * (steps * read + WRITTEN * rows * columns * sectors)
    passed = (rounds - 1) * passes / (L2_SHARE * target.rates.l2)
    passed = passed + np.where(rest > 0, last, main) + behind
    leaves = batches * m * n * sectors / (WRITE_SHARE * target.rates.memory)
    moved = np.maximum(passed, tiles * steps * each + leaves)
    waits = HAND_OFF_US + EXPOSED * computed + brought_us
    turns = rounds * np.maximum(main + waits, behind + WAY_OUT_US) + np.minimum(main, behind)
    turns = turns + (np.asarray(epilogue[1]) > 0) * LAST_CHUNK_US * ways.kept / chunk
    alone = whole * (main + behind) + (rest > 0) * (last + behind)
    start = start + (searched_us(ways, rounds, groups) if groups > 1 else 0)
    return np.asarray(start + np.maximum(np.where(in_turn, turns, alone), moved))


def _disturbed(*each: float | Times) -> Times:
    """What several things that are done at once are as, before `_together`."""
    return np.asarray(sum(part**AT_ONCE for part in each))


def _together(disturbed: Times) -> Times:
    """How long it takes to do several things at once that disturb each other."""
    return np.asarray(disturbed ** (1 / AT_ONCE))


def _first_asked(blocks: Times) -> Times:
    """How much of what so many blocks have is read from memory for each of them."""
    some = np.maximum(blocks, 1)
    return (1 + MET * (1 - 1 / some)) / some / np.where(blocks <= 1, ONCE_TIMES, 1.0)


def counted_tiles(ways: Ways, m: Count, n: int) -> tuple[Numbers, Numbers]:
    """Tiles of one batch that blocks load, those of clusters outside the product among them; and
    places for tiles, with the empty ones of the last group.
    """
    along = -(-m // (ways.rows * ways.down))
    beside = -(-n // (ways.columns * ways.across)) * ways.down * ways.across
    apart = np.where(ways.ping_pong, 1, ways.group)
    return along * beside, -(-along // apart) * apart * beside
