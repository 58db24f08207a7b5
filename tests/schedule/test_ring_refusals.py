"""What primitives of circular buffers, carriers and swizzles refuse, in which words."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.program import Program
from warpsmith.errors import ScheduleError
from warpsmith.ir.copies import CacheOp, LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after, cache_before
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import (
    pad_allocation,
    parallelize,
    reorder,
    set_memory_type,
    set_swizzle,
)

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk
CP_ASYNC, SET = LoadStoreOpType.cp_async, LoadStoreOpType.set


class Case:
    """`T1` copies the input `T0` `[4, n]`, `T2 = -T1`, `T3` copies `T2`; `T5` copies input `T4`.

    `T6` copies the input `[4, 8]` and `T7` one with a broadcast dimension. Outputs are `T3`, `T5`
    and what negates `T6` and `T7`.
    """

    def __init__(self) -> None:
        p = Program()
        self.x = p.input(DataType.Float, (4, None))
        self.load = p.copy(self.x)
        self.negative = p.op("neg", self.load)
        self.store = p.copy(self.negative)
        self.through = p.copy(p.input(DataType.Float, (4,)))
        p.output(self.store, self.through)
        self.plain = p.op("neg", p.input(DataType.Float, (4, 8)))
        self.wide = p.op("neg", p.input(DataType.Float, (1, 8)))
        p.output(self.plain, self.wide)

    def tile(self, op_type: LoadStoreOpType = TMA) -> TensorView:
        """`T10`, a copy of the input `[4, 8]`."""
        return cache_after(self.plain.fusion.producers(self.plain)[0], op_type=op_type)

    def row(self) -> TensorView:
        """`T10`, a copy by TMA of the input `[1, 8]` with a broadcast dimension."""
        return cache_after(self.wide.fusion.producers(self.wide)[0], op_type=TMA)

    def shared(self) -> TensorView:
        return set_memory_type(self.load, MemoryType.shared)


Action = Callable[[Case], object]
ANY: Any = "tma"
"""What Python lets a caller pass for an enum."""

REFUSED: tuple[tuple[str, str, Action], ...] = (
    (
        "WS0280",
        "T0 is an input of the fusion, which lies in global memory as a whole and has no stages; "
        "buffer its cache: T0.cache_after()",
        lambda c: circular_buffer(c.x, 2),
    ),
    (
        "WS0281",
        "T3 is an output of the fusion, which lies in global memory as a whole and has no stages; "
        "buffer its cache: T3.cache_before()",
        lambda c: circular_buffer(c.store, 2),
    ),
    *(
        (
            "WS0282",
            f"{stages!r} stages for T1: a circular buffer has an integer number of them, 2 or "
            "more; use 2 or more, or leave the tensor without a circular buffer",
            lambda c, stages=stages: circular_buffer(c.load, stages),
        )
        for stages in (1, 0, -1, True, 2.0, "3", None)
    ),
    *(
        (
            "WS0283",
            f"prefetch distance {distance!r} of T1 with 3 stages: its copy is 0 to 2 iterations "
            "ahead, and one stage is left to its readers; "
            "use 0 to 2, or -3 to -1 to count from 3",
            lambda c, distance=distance: circular_buffer(c.load, 3, distance),
        )
        for distance in (3, -4, False, 1.0)
    ),
    (
        "WS0284",
        "T2 is computed, and only a copy of a tensor can run ahead of its readers; buffer the "
        "copy that the computation reads; or, to store from stages, set its memory to shared and "
        "let nothing read T2 but outputs that TMA copies",
        lambda c: circular_buffer(c.negative, 2),
    ),
    (
        "WS0285",
        "a swizzle of 16 bytes for T1: TMA permutes rows of 32, 64 or 128 bytes; "
        "use 32, 64 or 128, or 0 for none",
        lambda c: set_swizzle(c.shared(), 16),
    ),
    (
        "WS0285",
        "a swizzle of False bytes for T1",
        lambda c: set_swizzle(c.shared(), False),
    ),
    (
        "WS0286",
        "T1 is in local memory, and swizzles permute shared memory; "
        "set its memory type to shared first",
        lambda c: set_swizzle(c.load, 64),
    ),
    (
        "WS0287",
        "T1 would have rows padded by 4 elements and a swizzle of 64 bytes, which permutes rows "
        "without padding; take one away: pad_allocation(tensor, 0) or set_swizzle(tensor, 0)",
        lambda c: set_swizzle(pad_allocation(c.shared(), 4), 64),
    ),
    (
        "WS0287",
        "T1 would have rows padded by 2 elements and a swizzle of 128 bytes",
        lambda c: pad_allocation(set_swizzle(c.shared(), 128), 2),
    ),
    (
        "WS0224",
        "op_type 'tma' for the copy of T0 is no LoadStoreOpType; "
        "use LoadStoreOpType.<name> with one of set, cp_async, bulk, tma",
        lambda c: cache_after(c.x, op_type=ANY),
    ),
    (
        "WS0224",
        "op_type 'tma' for the copy of T3 is no LoadStoreOpType",
        lambda c: cache_before(c.store, op_type=ANY),
    ),
    (
        "WS0224",
        "op_type 'tma' for the copy of T1 is no LoadStoreOpType",
        lambda c: set_load_store_op(c.load, ANY),
    ),
    (
        "WS0224",
        "cache_op 'tma' for the copy of T0 is no CacheOp; "
        "use CacheOp.<name> with one of unspecified, all_levels, streaming, global_",
        lambda c: cache_after(c.x, cache_op=ANY),
    ),
    (
        "WS0225",
        "T2 is no copy of a tensor, and tma carries only copies; "
        "name the copy that cache_after or cache_before makes",
        lambda c: set_load_store_op(c.negative, TMA),
    ),
    (
        "WS0225",
        "T0 is no copy of a tensor, and bulk carries only copies",
        lambda c: set_load_store_op(c.x, BULK),
    ),
    *(
        (
            "WS0226",
            f"{op_type.name} loads from global memory, and T2 is no input of the fusion; "
            "cache an input with it, or use LoadStoreOpType.set",
            lambda c, op_type=op_type: cache_after(c.negative, op_type=op_type),
        )
        for op_type in (CP_ASYNC, BULK, TMA)
    ),
    (
        "WS0226",
        "cp_async loads from global memory, and T1 is no input of the fusion",
        lambda c: set_load_store_op(cache_after(c.load), CP_ASYNC),
    ),
    (
        "WS0226",
        "T5 copies the input T4 straight to an output, and bulk moves between global and shared "
        "memory; put shared memory between: T4.cache_after()",
        lambda c: set_load_store_op(c.through, BULK),
    ),
    (
        "WS0227",
        "cp_async only loads from global memory, and cannot store T3; "
        "store with LoadStoreOpType.bulk, tma or set",
        lambda c: cache_before(c.store, op_type=CP_ASYNC),
    ),
    (
        "WS0227",
        "cp_async only loads from global memory, and cannot store T5",
        lambda c: set_load_store_op(c.through, CP_ASYNC),
    ),
    (
        "WS0227",
        "tma stores to global memory, and T2 is no output of the fusion; "
        "name an output, or use LoadStoreOpType.set",
        lambda c: cache_before(c.negative, op_type=TMA),
    ),
    (
        "WS0228",
        "T3 is not copied by threads, and cache_before would give its definition to another "
        "tensor; call cache_before first, and say how the copies move afterwards",
        lambda c: (set_load_store_op(c.store, TMA), cache_before(c.store)),
    ),
    (
        "WS0228",
        "T1 has a circular buffer, and cache_before would give its definition to another tensor",
        lambda c: cache_before(circular_buffer(c.load, 2)),
    ),
    (
        "WS0229",
        "tma has no cache_op all_levels, which the copy of T0 is to have; "
        "leave cache_op out, or use op_type=LoadStoreOpType.set",
        lambda c: cache_after(c.x, op_type=TMA, cache_op=CacheOp.all_levels),
    ),
    (
        "WS0229",
        "cp_async has no cache_op streaming, which the copy of T0 is to have",
        lambda c: cache_after(c.x, op_type=CP_ASYNC, cache_op=CacheOp.streaming),
    ),
    *(
        (
            "WS0216",
            f"i[8] of T10 cannot be bound to tma: {op_type.name} copies through the threads, and "
            "TMA does not; make the copy with op_type=LoadStoreOpType.bulk or tma",
            lambda c, op_type=op_type: parallelize(c.tile(op_type), 1, ParallelType.tma),
        )
        for op_type in (SET, CP_ASYNC)
    ),
    (
        "WS0217",
        "b[1] of T10 is a broadcast axis, and TMA copies iterations; "
        "bind axes along which the tensor has elements of its own",
        lambda c: parallelize(c.row(), 0, ParallelType.tma),
    ),
    (
        "WS0209",
        "i[T0_size1] of T1 has no constant extent, which tma needs; "
        "split it by the number of elements to be copied at once first",
        lambda c: parallelize(set_load_store_op(c.load, TMA), 1, ParallelType.tma),
    ),
    (
        "WS0218",
        "i[4] of T10 cannot be bound to tma: i[8 unroll] stands inside it, and one copy moves all "
        "that is inside an axis on tma; reorder so that the axes on tma are the innermost, then "
        "bind",
        lambda c: parallelize(parallelize(c.tile(), 1, ParallelType.unroll), 0, ParallelType.tma),
    ),
    (
        "WS0218",
        "i[4] of T10 cannot be bound to grid_x: it stands inside i[8 tma], and one copy moves all",
        lambda c: parallelize(
            reorder(parallelize(c.tile(), 1, ParallelType.tma), {1: 0}), 1, ParallelType.grid_x
        ),
    ),
    *(
        (
            "WS0219",
            f"i[4] of T10 cannot be bound to {kind.name}: {op_type.name} copies by TMA, and one "
            "thread asks for all elements; bind it to tma or to the grid, or copy with "
            "LoadStoreOpType.cp_async",
            lambda c, kind=kind, op_type=op_type: parallelize(c.tile(op_type), 0, kind),
        )
        for kind, op_type in (
            (ParallelType.block_x, BULK),
            (ParallelType.block_y, TMA),
            (ParallelType.block_z, TMA),
            (ParallelType.vectorize, TMA),
        )
    ),
    (
        "WS0220",
        "T10 already has i[8 tma] on tma, and bulk copies one run of elements; "
        "merge the two axes before binding, or copy with LoadStoreOpType.tma",
        lambda c: parallelize(parallelize(c.tile(BULK), 1, ParallelType.tma), 0, ParallelType.tma),
    ),
)


@pytest.mark.parametrize(("code", "words", "action"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused_in_these_words(code: str, words: str, action: Action) -> None:
    with pytest.raises(ScheduleError, match=re.escape(f"[{code}] {words}")) as refusal:
        action(Case())
    assert refusal.value.code == code
    assert refusal.value.remedy


def test_a_refused_move_changes_nothing() -> None:
    case = Case()
    tile = case.tile()
    circular_buffer(case.shared(), 3)
    set_swizzle(case.load, 64)
    before = (case.load.buffering, case.load.swizzle, case.load.copied_by, case.load.padding)
    count = len(case.x.fusion.operations)
    for action in (
        lambda: circular_buffer(case.load, 1),
        lambda: circular_buffer(case.load, 3, 3),
        lambda: set_swizzle(case.load, 16),
        lambda: pad_allocation(case.load, 1),
        lambda: set_load_store_op(case.load, ANY),
        lambda: cache_after(case.negative, op_type=TMA),
        lambda: cache_after(case.x, op_type=TMA, cache_op=CacheOp.global_),
        lambda: cache_before(case.load),
        lambda: cache_before(case.store, op_type=CP_ASYNC),
        lambda: parallelize(tile, 0, ParallelType.block_x),
    ):
        with pytest.raises(ScheduleError):
            action()
    after = (case.load.buffering, case.load.swizzle, case.load.copied_by, case.load.padding)
    assert after == before
    assert len(case.x.fusion.operations) == count
    assert [axis.parallel for axis in tile.loop] == [ParallelType.serial] * 2
