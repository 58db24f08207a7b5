"""Tiles, stages and clusters of a matrix product: all schedules that a target could run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsmith.schedulers.matmul.blocks import Spread, held_each_step
from warpsmith.schedulers.matmul.memory import MATRIX_BYTES, Beside
from warpsmith.schedulers.matmul.model import SUM_BYTES
from warpsmith.schedulers.matmul.params import SCALE_STAGES, STORED, Flags, Numbers, kept
from warpsmith.schedulers.matmul.passing import rows_together
from warpsmith.schedulers.matmul.prologues import Prologue
from warpsmith.schedulers.matmul.room import (
    FEWEST_HIGH,
    FEWEST_STAGES,
    LEAST_TURNED,
    ODD_CHUNKS,
    ONE_RESULT,
    Room,
    loaded_columns,
    shared_by,
)
from warpsmith.schedulers.matmul.sectors import DEPTH_BYTES, SECTOR
from warpsmith.schedulers.matmul.threads import GROUP_THREADS, at_start, beside_loads, of_each
from warpsmith.schedulers.matmul.ways import Times, Ways
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import ROWS, Atom

STEP = 8
"""What the columns of a tile are multiples of."""

MOST_COLUMNS = 256
"""Whose sums of 64 rows a warp group holds."""

TILES = tuple((2 * ROWS, columns) for columns in range(MOST_COLUMNS, STEP, -STEP))
"""Rows and columns of tiles, of two warp groups."""

SMALL = tuple((ROWS, columns) for columns in range(MOST_COLUMNS, STEP, -STEP))
"""Those of one warp group, for products of few rows or few tiles."""

LARGE = tuple((3 * ROWS, columns) for columns in range(MOST_COLUMNS, STEP, -STEP))
"""Those of three warp groups."""

HIGH = tuple((4 * ROWS, columns) for columns in range(MOST_COLUMNS, STEP, -STEP))
"""Those of two warp groups that have twice 64 rows each."""

CARRYING = tuple((4 * ROWS, columns) for columns in range(MOST_COLUMNS // 2, 48, -STORED))
"""Of these those that may carry sums: a step brings as much for as many products as with 128 x 256,
of which registers do not hold twice the sums."""

TURNS = (2, 3)
"""Warp groups that may take turns, with a tile each of `TILES` or `SMALL`."""

OTHER_REGISTERS = (48, 64)
"""Of a thread besides its sums; and where it loads something beside them, or computes at length."""

TOGETHER = 64
CARRIED = (3 * TOGETHER, 160, 144, 2 * TOGETHER, 112, 96, 80, TOGETHER, 48, TOGETHER // 2)
"""Columns that have one scale, of those where 128 share one; and columns of tiles of which threads
carry sums over blocks of k, none with more than nine scales. With 176 eleven are read in a step:
8192 x 8192 x 8192 takes 989 us, and 858 in tiles of 128 x 192 (an H200)."""

CARRYING_REGISTERS = 32
"""Of a thread besides these sums, a block's product and their scales: 25 of 128 x 128."""

CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2))
"""Blocks of a cluster along m and n: each loads a part of what they share of an operand."""

INSTRUCTION_REGISTERS = 26
"""What a product's instruction needs besides a thread's sums of 64 rows: ptxas refuses 112 sums in
128 registers, and wants 138."""

SPLITS = tuple(range(2, 9))
"""Blocks of a cluster that may have parts of k of one tile: where each keeps a share of the
results, or tiles are narrow and what blocks have summed is little."""

MOST_ROUNDS = 2
MOST_NARROW_ROUNDS = 4
"""Rounds of tiles that parts of k may make, at most, and of narrow tiles, in which what is summed
of a part is little: with more of them all blocks are busy."""

FEW = 256
"""Up to so many rows or columns a narrow tile has all of them: the columns of one instruction."""

LINES = (1, 2, 4)
DEEP = 2
"""Lines of `DEPTH_BYTES` of k that a stage may hold of narrow tiles: bytes that lie together; and
of others, with at least as many stages: of 64 x 64 in clusters of two by two, 200 x 1096 x 1176
takes 8.8 us in six stages of two lines, 9.4 in 13 of one (an H200)."""


LEAST_SWIZZLE = 32
"""Bytes of a line that a swizzle permutes, at least."""

GROUP = 16
"""Most tiles along n of a grouped product that follow each other."""

SHARES = 2 ** np.linspace(-1, 1, 9)
MEMORY = 0.07
"""Numbers of groups of tiles that are tried, of those that read the memory least; and of what a
long product takes, what reading it does, by power (docs/lessons/power.md)."""

COMPUTED_BYTES = 256
"""Most bytes of k of a tile that threads compute: they hold all of their part of it, twice."""

COMPUTED_REGISTERS = 48
"""What they hold of 128 bytes, as it is computed and as it is multiplied."""


def few_columns(columns: int, atom: Atom, *, turned: bool) -> int:
    """Columns of a tile that has all of a product's where these are few; else 0.

    Args:
        turned: their operand lies along them: pieces of it are at least a swizzle's 32 bytes.
    """
    step = LEAST_SWIZZLE // atom.size if turned else 1
    wide = (c for c in atom.columns if columns <= c <= FEW and c % step == 0)
    return next(wide, 0) if columns else 0


def candidates(
    m: int,
    n: int,
    problem: Problem,
    *,
    few: int = 0,
    swapped: bool = False,
    element: int = 2,
    moved: Beside = ONE_RESULT,
    crowded: bool = False,
    batches: int = 1,
    products: int = 1,
    line: int = 0,
    scales: tuple[Spread, ...] = (),
    scaled: int = 0,
    prologue: Prologue | None = None,
    turned: bool = False,
    odd: bool = True,
) -> Ways:
    """Schedules of a product of m rows and n columns, with operands of `element` bytes, or of
    several that share their rows.

    Args:
        few, swapped, moved, products, scales, prologue: as of the work, whose m and n these are.
        crowded: whether threads load something beside the products, or compute at length.
        line: bytes of a row of an operand, along k; 0 where nobody knows.
        scaled: as of the parameters.
        turned: whether the second operand lies along n.
        odd: as of the work.
    """
    target, limits = problem.target, problem.target.family.limits
    held = prologue is not None
    plain = not (held or scales)
    turned_out = swapped and bool(moved.staged)
    all_tiles = held or (turned_out and not scales) or not swapped
    tiles = (*TILES, *SMALL, *LARGE, *(CARRYING if scales else ()))
    wide = [(0, *tile, 1) for tile in tiles] if all_tiles else []
    high_too = () if scales else (2 * ROWS,)  # of which two groups with sums gain nothing
    heights = (ROWS, *high_too) if few else ()
    longest = COMPUTED_BYTES if held else DEPTH_BYTES if scales else LINES[-1] * DEPTH_BYTES
    depths = [lines for lines in LINES if lines * DEPTH_BYTES <= longest]
    narrow = [(0, rows, few, lines) for lines in depths for rows in heights]
    high = [(0, *tile, 1) for tile in HIGH] if plain and all_tiles else []
    most = limits.block_shared // (FEWEST_STAGES * DEEP * DEPTH_BYTES)
    small = (tile for tile in (*TILES, *SMALL) if sum(tile) <= most)
    deep = [(0, *tile, DEEP) for tile in small] if plain and all_tiles and min(m, n) > ROWS else []
    groups_in_turn = TURNS if all_tiles and not held else ()
    in_turn = [(groups, *tile, 1) for groups in groups_in_turn for tile in (*TILES, *SMALL)]
    shared = list(dict.fromkeys((*wide, *narrow, *deep)))
    forms = np.vstack([_forms(shared, SPLITS), _forms(high, ()), _forms(in_turn, ())])

    others = CARRYING_REGISTERS if scales else OTHER_REGISTERS[crowded]
    turns, rows, columns, lines, down, across, splits = forms.T
    passes = _passes(turns, rows)
    groups = np.where(turns, turns, rows // (ROWS * passes))
    threads = GROUP_THREADS * np.where(turns, 1, groups)
    sums = rows * products * columns // threads
    apart = any(not scale.rows and scale.share % TOGETHER for scale in scales)
    carried = (1 + apart) * sums // passes if scales else 0
    left = of_each(beside_loads, limits, groups) - sums - carried
    fits = (columns % STORED == 0) | (columns == few) | (plain and odd)
    fits &= (products * columns <= MOST_COLUMNS) & ((splits == 1) | (products == 1))
    fits &= columns // 2 + INSTRUCTION_REGISTERS <= of_each(at_start, limits, groups)
    fits &= others + lines * COMPUTED_REGISTERS * held <= left
    fits &= (down == 1) | (-(-m // rows) >= down)
    fits &= (across == 1) | (-(-n // columns) >= across)
    fits &= (columns == few) | (shared_by(down, columns, turned=turned) == down)
    if scales:
        fits &= (turns == 0) & (down * across * splits == 1)
        fits &= np.isin(columns, CARRIED) | (columns == few)
        fits &= rows < max(m, 1) + ROWS  # what lies outside takes longer to come
        fits &= (columns < CARRIED[0]) | (groups > 1)  # while one adds up another multiplies

    turns, rows, columns, lines, down, across, splits = forms[fits].T
    along, count = -(-m // rows), -(-m // rows) * -(-n // columns)
    through = _through(columns, moved, swapped=swapped)
    own = kept(columns, splits, staged=through & (not swapped))
    blocks = down * across * splits
    known = [0, *map(target.teams, range(1, int(blocks.max(initial=0)) + 1))]
    teams = np.array(known, np.int64)[blocks]
    once = (splits > 1) & (batches * count <= teams)
    rounds = np.where(columns == few, MOST_NARROW_ROUNDS, MOST_ROUNDS)
    fits = (splits == 1) | (
        ((own < columns) | (columns == few)) & (count * splits <= rounds * target.sm_count)
    )
    widths = {each: loaded_columns(each, element, turned=turned) for each in {*columns.tolist()}}
    brought = products * np.array([widths[each] for each in columns.tolist()], np.int64)
    joined_columns = np.where(splits > 1, splits * own * np.where(once, 1, 2), 0)
    by_scales = held_each_step(scales, rows, columns)
    asked = np.stack([rows, brought, joined_columns, turns, lines, own * through, by_scales])
    first, same = _alike(asked)
    rows_, brought, joined_columns, places, lines_, stored_columns, by_scales = asked[:, first]
    room = Room(
        (rows_, brought),
        limits,
        moved,
        joined_columns,
        np.maximum(places, 1),
        lines=lines_,
        share=1 if prologue is None else prologue.share,
        scales=SCALE_STAGES * scaled * SUM_BYTES * by_scales,
        turned=turned_out,
        begun=bool((m if swapped else n) * moved.widest % SECTOR),
    )
    chunk, stored, ahead = room.best(stored_columns)
    chunks = room.loaded(stored_columns, chunk, stored, ahead) if moved.loaded else 0 * chunk
    chunk, stored, ahead, chunks = (each[same] for each in (chunk, stored, ahead, chunks))
    passes = _passes(turns, rows)
    fewest = np.where(passes > 1, FEWEST_HIGH, FEWEST_STAGES)
    if scales and not moved.loaded:  # stores leave beside the next tile's products
        whole_chunk, beside = (each[same] for each in room.at_once(stored_columns))
        whole = (beside >= fewest) & (batches * count > blocks * teams)
        chunk, ahead = np.where(whole, whole_chunk, chunk), np.where(whole, beside, ahead)
        stored = np.where(whole, 1, stored)
    wave = down * across * teams * rows * products * columns
    together = rows_together(wave, line, target)
    ways = Ways(
        rows=rows,
        columns=columns,
        depth=lines * DEPTH_BYTES // element,
        lines=lines,
        down=down,
        across=across,
        splits=splits,
        ping_pong=turns,
        passes=passes,
        stages=ahead,
        chunk=chunk,
        kept=kept(columns, splits, staged=(chunk > 0) & (not swapped)),
        group=_groups(-(-along // down), together / (rows * down), turns),
        blocks=blocks * teams,
        once=once,
        load_stages=chunks * (chunk > 0),
        store_stages=stored * (chunk > 0) * bool(moved.staged),
        parts=np.ones_like(rows),
        stream=np.zeros_like(rows),
        swapped=swapped,
        scaled=scaled,
        loaded=moved.loaded,
        staged=moved.staged,
        by_rows=moved.by_rows,
        pairs=moved.pairs,
    )
    fits &= (columns % STORED == 0) | (columns == few) | (chunk > 0)
    return ways.at(fits & (teams > 0) & (ahead >= fewest))


def _forms(tiles: Sequence[tuple[int, ...]], splits: Sequence[int]) -> Numbers:
    """Each tile with blocks of a cluster along m and n, and splits; what was timed first.

    Args:
        tiles: groups that take turns, rows and columns, and lines.
        splits: of those whose tiles have any.
    """
    ways = [(*cluster, 1) for cluster in CLUSTERS] + [(1, 1, parts) for parts in splits]
    given = np.array(tiles, np.int64).reshape(-1, 4)
    return np.hstack([given.repeat(len(ways), 0), np.tile(ways, (len(given), 1))])


def _through(columns: Numbers, moved: Beside, *, swapped: bool) -> Flags:
    """Whether what is beside the operands may move in chunks, of tiles of so many columns."""
    if swapped:
        return (columns >= LEAST_TURNED) & bool(moved.staged)
    whole = columns % STORED == 0
    if moved.widest == MATRIX_BYTES and not moved.loaded:
        whole = whole | np.any([columns % chunk == 0 for chunk in ODD_CHUNKS], axis=0)
    return np.asarray(whole & bool(moved.loaded or moved.staged))


def _alike(asked: Numbers) -> tuple[Numbers, Numbers]:
    """Of columns of the same numbers the place of one, and for each column which of those it is."""
    keys = np.zeros(asked.shape[1], np.int64)
    for row in asked - asked.min(axis=1, initial=0, keepdims=True):
        keys = keys * (int(row.max(initial=0)) + 1) + row
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    return first, same


def _passes(turns: Numbers, rows: Numbers) -> Numbers:
    """Parts of 64 rows that a group has of a tile: of more than three are two of each."""
    return np.where((turns == 0) & (rows > LARGE[0][0]), 2, 1)


def columns_together(n: int, columns: Numbers) -> Numbers:
    """Tiles along n that follow each other, where rows are of groups: many, in equal shares."""
    tiles = np.maximum(-(-n // columns), 1)
    return np.asarray(-(-tiles // -(-tiles // GROUP)))


def _groups(tiles: Numbers, many: Times, turns: Numbers) -> Numbers:
    """Tiles along m of one group: about so many; where groups of a block share a tile, also so that
    few places of the last group of tiles are empty.
    """
    tiles = np.maximum(tiles, 1)
    group = -(-tiles // np.ceil(tiles / many * SHARES[:, None]).astype(np.int64))
    several = -(-tiles // group)
    off = tiles / several / many
    places = np.where(turns, tiles, several * group)
    best = np.argmin(places * (1 + MEMORY * ((off + 1 / off) / 2 - 1)), axis=0)
    return np.asarray(group[best, np.arange(len(tiles))])
