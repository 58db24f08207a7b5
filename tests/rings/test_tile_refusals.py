"""Tiles that the TMA unit cannot copy, and what lowering says of them: value, rule and remedy."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.lowering import lowered
from tests.support.tiling import Tiling, bind_tile, loaded, loading, stored, storing
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.errors import ScheduleError

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk
NOT_CONTIGUOUS = [False] * 5 + [True]


def doubled(*extents: int) -> tuple[FusionDefinition, Any, Any]:
    """`x + x`, with both."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(list(extents), True)
        y = fd.ops.add(x, x)
        fd.add_output(y)
    return fd, x, y


def cut_inside_memory() -> FusionDefinition:
    """Runs of 24 in parts of 64: the third one of each part ends where the next part starts."""
    fd, x, y = doubled(-1)
    copy, between = loaded(x, BULK), y.cache_before()
    y.split(0, 64)
    y.split(1, 24)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 2, selected_tensors=[copy])
    copy.axis(-1).parallelize(ParallelType.tma)
    fd.sched.inline_most([between])
    return fd


def stored_over_the_next_part() -> FusionDefinition:
    """Boxes of 24 in parts of 64: the third one of each part reaches into the next part."""
    fd, _, y = doubled(-1)
    stored(y, TMA)
    y.split(0, 64)
    y.split(1, 24)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 2)
    y.axis(-1).parallelize(ParallelType.tma)
    return fd


def stepping(carrier: LoadStoreOpType, rows: int, parts: int) -> FusionDefinition:
    """Tiles take every so many-th element of the slower dimension, or of the only one."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([rows] if carrier is BULK else [rows, 16], True)
        y = fd.ops.add(x, x)
        fd.add_output(y)
        copy, between = loaded(x, carrier), y.cache_before()
        y.split(0, parts, inner_split=False)
        y.reorder({0: 1, 1: 0})
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 1, selected_tensors=[copy])
        bind_tile(copy, range(len(copy.loop) - 1))
        fd.sched.inline_most([between])
    return fd


def not_to_shared(carrier: LoadStoreOpType) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.add(x, x))
        x.cache_after(op_type=carrier)
    return fd


def not_from_shared(carrier: LoadStoreOpType) -> FusionDefinition:
    fd, _, y = doubled(-1)
    y.cache_before(op_type=carrier)
    return fd


def loaded_and_stored(carrier: LoadStoreOpType) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.set(x)
        fd.add_output(y)
        loaded(x, carrier)
        y.set_load_store_op(TMA)
    return fd


def loaded_from_a_cache() -> FusionDefinition:
    """The second cache of an input stands between it and the first."""
    fd, x, _ = doubled(64)
    copy = loaded(x, TMA)
    x.cache_after()
    bind_tile(copy, [0])
    return fd


def in_another_order(order: Sequence[int]) -> FusionDefinition:
    """A tile of two dimensions, with its loops in that order."""
    tiling = Tiling((8, 16))
    fd, x, y = doubled(-1, -1)
    copy, between = loaded(x, TMA), y.cache_before()
    tiling.apply(y)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 2, selected_tensors=[copy])
    bind_tile(copy, order)
    for tensor in (y, between):
        tiling.share(tensor)
    fd.sched.inline_most([between])
    return fd


def across_a_gap(carrier: LoadStoreOpType) -> FusionDefinition:
    """Tiles of two merged dimensions, of which the slower one's elements lie apart."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [False, True])
        y = fd.ops.add(x, x)
        fd.add_output(y)
        copy, between = loaded(x, carrier), y.cache_before()
        y.merge(0)
        y.split(0, 64)
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 1, selected_tensors=[copy])
        copy.axis(-1).parallelize(ParallelType.tma)
        fd.sched.inline_most([between])
    return fd


REFUSED: list[tuple[str, Callable[[], FusionDefinition], str, str]] = [
    (
        "WS0257",
        cut_inside_memory,
        "the tile of T2 may end at lt(add(mul(i1, 24), lane0), 64)",
        "split by factors that divide, or copy by LoadStoreOpType.tma",
    ),
    (
        "WS0257",
        stored_over_the_next_part,
        "the tile of T1 may end at lt(add(mul(i1, 24), lane0), 64), and stores can only be cut",
        "split by factors that divide",
    ),
    (
        "WS0258",
        lambda: loading(Tiling((1, 1, 2, 1, 2, 8)), contiguity=NOT_CONTIGUOUS),
        "box [1, 1, 2, 1, 2, 8] of T2 has 6 dimensions, and a tensor map 5 at most",
        "leave dimensions contiguous, so that they can be joined",
    ),
    (
        "WS0258",
        lambda: loading(Tiling((512, 16))),
        "box [512, 16] of T2 spans 512 elements of a dimension, and a box 256 at most",
        "split loops by 256 or less before binding them to tma",
    ),
    (
        "WS0258",
        lambda: storing(Tiling((512,))),
        "box [512] of T1 spans 512 elements of a dimension, and a box 256 at most",
        "split loops by 256 or less before binding them to tma",
    ),
    (
        "WS0258",
        lambda: stepping(TMA, 36, 4),
        "box [4, 16] of T2 takes every 9th index of a dimension, and TMA every 8th at most",
        "bind loops to tma that step by 8 or less",
    ),
    (
        "WS0258",
        lambda: stepping(TMA, 258, 86),
        "box [86, 16] of T2 spans 258 elements of a dimension, and a box 256 at most",
        "split loops by 256 or less before binding them to tma",
    ),
    (
        "WS0259",
        lambda: loading(Tiling((8, 3))),
        "the rows of the box [8, 3] of T2 have 12 bytes",
        "bind a fastest loop of a multiple of 16 bytes to tma",
    ),
    (
        "WS0259",
        lambda: storing(Tiling((8, 4)), dtype=DataType.Half),
        "the rows of the box [8, 4] of T4 have 8 bytes",
        "bind a fastest loop of a multiple of 16 bytes to tma",
    ),
    (
        "WS0260",
        lambda: loading(Tiling((8, 16)), swizzle=32),
        "the rows of the box [8, 16] of T2 have 64 bytes, and its swizzle permutes rows of 32",
        "bind a fastest loop of 8 elements to tma",
    ),
    (
        "WS0260",
        lambda: storing(Tiling((8, 16)), swizzle=128),
        "the rows of the box [8, 16] of T1 have 64 bytes, and its swizzle permutes rows of 128",
        "bind a fastest loop of 32 elements to tma",
    ),
    *(
        (
            "WS0292",
            lambda carrier=carrier: not_to_shared(carrier),  # type: ignore[misc]
            f"T2 is loaded by {carrier.value} into local memory, and such copies end in shared",
            "call T2.set_memory_type(MemoryType.shared)",
        )
        for carrier in (TMA, BULK, LoadStoreOpType.cp_async)
    ),
    *(
        (
            "WS0293",
            lambda carrier=carrier: not_from_shared(carrier),  # type: ignore[misc]
            "T2 is stored by TMA from local memory, and such copies start in shared memory",
            "call T2.set_memory_type(MemoryType.shared)",
        )
        for carrier in (TMA, BULK)
    ),
    *(
        (
            "WS0294",
            lambda carrier=carrier: loaded_and_stored(carrier),  # type: ignore[misc]
            f"T2 is stored by TMA and itself loaded by {carrier.value}: one ring cannot order",
            "store a copy of its own, in shared memory: T2.cache_after(cached_uses=[T1])",
        )
        for carrier in (TMA, LoadStoreOpType.cp_async)
    ),
    (
        "WS0295",
        lambda: loading(Tiling((8, 32), vector=8), swizzle=128),
        "T3 vectorizes 32 bytes of T2, whose chunks of 16 bytes are permuted (swizzle 128)",
        "vectorize 16 bytes or fewer",
    ),
    (
        "WS0296",
        loaded_from_a_cache,
        "T2 is loaded by tma from T3, which is in local memory",
        "use such copies from inputs of the fusion, or to its outputs",
    ),
    (
        "WS0297",
        lambda: in_another_order([1, 0]),
        "the tile of T2 does not lie in T2 as it lies in memory",
        "order the loops bound to tma as memory's dimensions, the fastest last, without padding",
    ),
    (
        "WS0298",
        lambda: loading(Tiling((8, 1)), BULK),
        "T2 is copied by bulk, and its tile [8, 1] is not contiguous in memory",
        "bind one loop to tma, or copy by LoadStoreOpType.tma",
    ),
    (
        "WS0298",
        lambda: stepping(BULK, 64, 16),
        "T2 is copied by bulk, and its tile [16] is not contiguous in memory",
        "bind one loop to tma, or copy by LoadStoreOpType.tma",
    ),
    *(
        (
            "WS0298",
            lambda carrier=carrier, stages=stages: loading(  # type: ignore[misc]
                Tiling((1, 24)), carrier, stages=stages, chunks=True
            ),
            "T2 is to be loaded in whole chunks of 16 bytes: only loads by bulk into a circular "
            "buffer can",
            "leave `chunks` out",
        )
        for carrier, stages in ((TMA, 2), (BULK, 0))
    ),
    (
        "WS0298",
        lambda: loading(Tiling((1, 24)), BULK, stages=2, contiguity=[False, True], chunks=True),
        "T2 is to be loaded in whole chunks of 16 bytes: T0 is not contiguous",
        "leave `chunks` out",
    ),
    (
        "WS0298",
        lambda: loading(Tiling((1, 24)), BULK, stages=2, inline=1, shape=[8, 48], chunks=True),
        "its stages hold several tiles, of which each would begin elsewhere",
        "leave `chunks` out",
    ),
    *(
        (
            "WS0299",
            lambda carrier=carrier: across_a_gap(carrier),  # type: ignore[misc]
            "the tma loops of T2 walk no box of memory: one of its dimensions has the index",
            "bind loops that are split off whole dimensions, or off merged contiguous ones",
        )
        for carrier in (TMA, BULK)
    ),
]


@pytest.mark.parametrize(
    ("code", "build", "value", "remedy"), REFUSED, ids=[case[0] for case in REFUSED]
)
def test_tiles_are_refused(
    code: str, build: Callable[[], FusionDefinition], value: str, remedy: str
) -> None:
    fd = build()
    with pytest.raises(ScheduleError, match=re.escape(value)) as caught:
        lowered(fd)
    assert caught.value.code == code
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("carrier", [TMA, LoadStoreOpType.cp_async])
def test_what_is_stored_by_tma_alone(carrier: LoadStoreOpType) -> None:
    """What WS0294 says is done, and the kernel is right."""
    fd = loaded_and_stored(carrier)
    y = fd.fusion.outputs[0].value
    (staged,) = (t for t in fd.fusion.computed if t.memory is MemoryType.shared)
    copy = staged.cache_after(cached_uses=[y])  # type: ignore[attr-defined]
    copy.set_memory_type(MemoryType.shared)
    for tensor in fd.fusion.computed:
        tensor.split(0, 64)  # type: ignore[attr-defined]
        tile = tensor.copied_by.is_tma
        kind = ParallelType.tma if tile else ParallelType.block_x
        tensor.axis(1).parallelize(kind)  # type: ignore[attr-defined]
    fd.sched.inline_at(y, 1)
    array = np.arange(200, dtype=np.float32)
    results = fd.manual_execute([array])
    assert fd.verify([array], schedules=3).verdict == "clean"
    np.testing.assert_array_equal(results[0], array)


def test_tiles_in_the_order_of_memory_are_not_refused() -> None:
    assert lowered(in_another_order([0, 1])).tensor_maps


def test_steps_of_eight_are_not_refused() -> None:
    assert lowered(stepping(TMA, 32, 4)).tensor_maps[0].steps == (1, 8)
