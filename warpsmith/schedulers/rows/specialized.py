"""Choice of groups, threads and stages for kernels of rows that a role of its own loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from warpsmith.schedulers.multiprocessor import ENOUGH_WARPS, SHARED_FIXED
from warpsmith.schedulers.rows.needs import EASY_SHARE, MOST_ELEMENTS, PREDICATE_REGISTERS
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.resident import REGISTER_BYTES, Choice
from warpsmith.targets.family import WARP, Limits
from warpsmith.values import dataclass

LOAD_THREADS = 128
"""Of the warp group in which the role that loads is one thread."""

LOAD_REGISTERS = 24
"""Of these threads once the others have got what they can do without."""

MOST_REGISTERS = 240
"""Of a thread that computes: with two warp groups of so many there are enough for those that load.
"""

FIXED_REGISTERS = 30
"""Registers of a thread for addresses, predicates, results of reductions and cursors."""

NARROW_ELEMENTS = 32
"""Elements of a row that a thread keeps as they were loaded: of more, compilers keep wide ones."""

RING_BYTES = 65536
"""Bytes of rows that a multiprocessor's stages are to hold. More brings nothing: measured on an
H200 (2026-11-21) with norms backward of 1024 to 16384 columns."""

MOST_STAGES = 64
"""Stages of a block, however short rows are: each has two barriers, which one thread prepares."""

SUMMING_WARPS = 8
"""Warps of a multiprocessor from which on more of them hide no more, where threads have running
sums as well, in the same measurements."""

MOST_BLOCKS_PER_SM = 2
GROUPS = range(1, 9)
FEW_GROUPS = (1, 2, 3, 4)
ONE_SUM = 4
"""Bytes of a running sum."""

MOST_KEPT = 2
"""Rows of a group in one turn: one reduction serves both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What is asked of the rows of a call.

    Attributes:
        length: elements of a row.
        vector: adjacent elements of an access.
        loaded: bytes of inputs of full size, for each element of a row.
        summed: bytes of running sums that a thread has, for each of its elements.
        residents: the ways to keep a row, where blocks loop over rows.
        limits: of the target.
        widened: inputs of full size of which compilers keep wide values, where a thread has many.
        weights_fit: a role may bring what all rows share to shared memory.
        stage: bytes of a stage with one row of each input.
        chunks: rows come in whole chunks of 16 bytes; no stage holds two rows then.
        vectorized: names of the global tensors accessed in vectors.
    """

    length: int
    vector: int
    loaded: int
    stage: int
    summed: int
    residents: tuple[Choice, ...]
    limits: Limits
    widened: int = 1
    weights_fit: bool = True
    chunks: bool = False
    vectorized: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        return self.length // self.vector

    def joined_bytes(self, vectors: int, groups: int) -> int:
        """Of shared memory in which a block adds the sums of so many groups, whose threads have so
        many vectors, of which some may lie past the end of a row.
        """
        return self.summed * groups * vectors * self.vector


def refusal(rows: Streamed) -> str:
    """Why no block can have rows loaded by a role; empty where one can."""
    if rows.length == 0:
        return "its rows are empty"
    if widest(rows) is not None:
        return ""
    if 2 * rows.stage + SHARED_FIXED > rows.limits.block_shared:
        return f"two stages of {rows.stage} bytes do not fit in shared memory"
    return f"rows of {rows.length} elements and their sums would spill"


def widest(rows: Streamed) -> RowParams | None:
    """That with most warps at work which does not spill; None where there is none.

    Of those one that leaves few rows of sums, of those the one of fewest instructions, and then of
    two groups in all, so that one has work while the other one waits.
    """
    found = [(_merit(rows, params, form), params) for form, params in _shapes(rows)]
    return max(found, key=lambda each: each[0])[1] if found else None


def fastest(
    rows: Streamed,
    time: Callable[[RowParams], float],
    *,
    most_kept: int = MOST_KEPT,
    rings_bytes: Sequence[int] = (RING_BYTES,),
) -> RowParams | None:
    """That which takes the least time by a model, in microseconds, of those whose registers are not
    scarce; where there is none, that with most warps at work.

    `rings_bytes` are what a multiprocessor's stages may hold.
    """
    found = list(unhurried(rows, most_kept=most_kept, rings_bytes=rings_bytes))
    return min(found, key=time) if found else widest(rows)


def unhurried(
    rows: Streamed, *, most_kept: int = MOST_KEPT, rings_bytes: Sequence[int] = (RING_BYTES,)
) -> Iterator[RowParams]:
    """Shapes whose registers are not scarce."""
    kept = range(1, (1 if rows.chunks else most_kept) + 1)
    for (block_x, unroll), each in product(_threads(rows), kept):
        exact = block_x * unroll * rows.vector == rows.length
        forms = tuple(_forms(rows, block_x, unroll, each))
        for groups, blocks in product(FEW_GROUPS, range(1, MOST_BLOCKS_PER_SM + 1)):
            room = EASY_SHARE * registers_at_launch(groups * block_x, blocks, rows.limits)
            room -= 0 if exact else PREDICATE_REGISTERS
            joined = rows.summed > 0 and groups > 1
            sums = rows.joined_bytes(block_x * unroll, groups) if joined else 0
            if each > 1 and joined and rows.summed > ONE_SUM:
                continue  # ptxas keeps both rows through the joining, and spills
            held = blocks * each * rows.stage
            wanted = {max(2, -(-ring_bytes // held)) for ring_bytes in rings_bytes}
            for form in forms:
                if form.registers > room or (form.reread and each > 1):
                    continue
                depths = {_stages(rows, each, groups, blocks, form, sums, most) for most in wanted}
                enough = sorted(stages for stages in depths if stages >= 2 * groups)
                for stages in enough:
                    yield form.params(
                        rows,
                        unroll,
                        block_x,
                        groups,
                        blocks,
                        stages,
                        joined=joined,
                        rows_per_thread=each,
                    )
                if enough:
                    break  # later forms have more instructions


def _merit(rows: Streamed, params: RowParams, form: _Form) -> tuple[float, ...]:
    groups = params.block_y * params.blocks_per_sm
    enough = SUMMING_WARPS if rows.summed else ENOUGH_WARPS
    held = params.ring * params.blocks_per_sm * rows.stage
    working = rows.length / (params.block_x * params.unroll * rows.vector)
    return (
        min(enough, groups * params.block_x // 32) * min(RING_BYTES, held) * working,
        -params.blocks_per_sm * (1 if params.joined else params.block_y) if rows.summed else 0,
        -form.order,
        min(2, groups),
        -groups,
        params.blocks_per_sm,
        params.block_x,
    )


def _shapes(rows: Streamed) -> Iterator[tuple[_Form, RowParams]]:
    """Those that fit in registers and shared memory."""
    for block_x, unroll in _threads(rows):
        exact = block_x * unroll * rows.vector == rows.length
        forms = tuple(_forms(rows, block_x, unroll, 1))
        for groups, each in product(GROUPS, range(1, MOST_BLOCKS_PER_SM + 1)):
            joins = (True, False) if rows.summed and groups > 1 else (False,)
            room = registers_left(groups * block_x, each, rows.limits)
            room -= 0 if exact else PREDICATE_REGISTERS
            wanted = 1 + -(-RING_BYTES // (each * rows.stage))
            for form, joined in product(forms, joins):
                sums = rows.joined_bytes(block_x * unroll, groups) if joined else 0
                stages = _stages(rows, 1, groups, each, form, sums, wanted)
                if stages > 1 and form.registers <= room:
                    yield (
                        form,
                        form.params(rows, unroll, block_x, groups, each, stages, joined=joined),
                    )


def registers_at_launch(compute: int, blocks: int, limits: Limits) -> int:
    """Registers that each thread of a block is launched with; 0 where it has too many threads."""
    threads = LOAD_THREADS + -(-compute // LOAD_THREADS) * LOAD_THREADS
    if threads > limits.block_threads:
        return 0
    return min(limits.thread_registers, limits.registers_each(blocks * threads))


def registers_left(compute: int, blocks: int, limits: Limits) -> int:
    """Registers of each of a block's `compute` threads, beside the role that loads.

    They get its own where all are whole warp groups (`setmaxnreg`); 0 where a block has too many
    threads.
    """
    threads = LOAD_THREADS + compute
    if threads > limits.block_threads:
        return 0
    each = min(limits.thread_registers, limits.registers_each(blocks * threads))
    if compute % LOAD_THREADS:
        return each
    pool = each * threads - LOAD_REGISTERS * LOAD_THREADS
    step = limits.register_step
    return min(MOST_REGISTERS, pool // compute // step * step)


@dataclass(frozen=True, slots=True)
class _Form:
    """What stays in registers, by the number of ways that are to be tried before it.

    `kept` are the bytes of shared memory, for each element of a row, of what all rows share.
    """

    order: int
    reread: bool
    weights_in_shared: bool
    again: bool
    registers: int
    kept: int

    def params(
        self,
        rows: Streamed,
        unroll: int,
        block_x: int,
        groups: int,
        blocks_per_sm: int,
        stages: int,
        *,
        joined: bool,
        rows_per_thread: int = 1,
    ) -> RowParams:
        """Of a schedule whose threads and stages keep their rows in this form."""
        exact = block_x * unroll * rows.vector == rows.length
        return RowParams(
            vector=rows.vector,
            unroll=unroll,
            rows_per_thread=rows_per_thread,
            block_x=block_x,
            block_y=groups,
            blocks_per_sm=blocks_per_sm,
            exact=exact,
            row=0 if exact else rows.length,
            again=self.again,
            vectorized=rows.vectorized,
            ring=stages,
            warp_specialize=True,
            reread=self.reread,
            weights_in_shared=self.weights_in_shared,
            joined=joined,
            chunks=rows.chunks,
        )


def _forms(rows: Streamed, threads: int, unroll: int, kept: int) -> Iterator[_Form]:
    """The ways, for so many threads of so many accesses of each of the rows that they keep: those
    of fewest instructions first. A warp alone has no barriers between stages, and compilers keep
    for it what it reads again.
    """
    first = next(choice for choice in rows.residents if not choice.reload_weights)
    weights = max((choice.passing for choice in rows.residents), default=0)
    stay = first.bytes_per_element(rows.vector) + (kept - 1) * rows.loaded
    beside = first.bytes_beside_inputs(rows.vector) + weights
    for order, (reread, shared) in enumerate(((False, False), (True, False), (True, True))):
        if (shared and not (weights and rows.weights_fit)) or (reread and threads <= WARP):
            return
        held = (beside if reread else stay) - (weights if shared else 0)
        elements = unroll * rows.vector
        needed = -(-elements * (held + rows.summed) // 4) + 2 * rows.vector + FIXED_REGISTERS
        if rows.chunks and (first.costly or first.kept) and rows.loaded < REGISTER_BYTES:
            needed += elements // min(2, rows.vector)  # widened ones, beside what was loaded
        if reread and rows.chunks:
            needed += elements // 2  # read ahead of their use
        if not reread:
            needed += rows.widened * max(0, kept * elements - NARROW_ELEMENTS)
        yield _Form(order, reread, shared, first.again, needed, weights if shared else 0)


def _stages(
    rows: Streamed, kept: int, groups: int, blocks: int, form: _Form, sums: int, wanted: int
) -> int:
    """Stages of a block: a multiple of the groups, as many as are wanted or fit.

    Each holds `kept` rows. The block has `sums` bytes for what its groups summed.
    """
    stage = kept * rows.stage
    room = rows.limits.block_shared // blocks - SHARED_FIXED - rows.length * form.kept - sums
    return min(-(-min(MOST_STAGES, wanted) // groups), room // stage // groups) * groups


def _threads(rows: Streamed) -> Iterator[tuple[int, int]]:
    """(threads of a group, accesses of each) that have a row, in whole warps."""
    for unroll in range(1, MOST_ELEMENTS // rows.vector + 1):
        threads = 32 * -(-rows.vectors // (32 * unroll))
        if threads <= rows.limits.block_threads:
            yield threads, unroll
