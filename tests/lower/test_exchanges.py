"""Reductions over clusters: parts go from block to block, and barriers count them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.schedule.test_clusters import CLUSTER, reduction_of, spread
from tests.support.exchanged_sums import BLOCKS, THREADS, findings, summed, values
from tests.support.meeting_runs import mutants
from tests.support.plain_products import replaced
from tests.support.program import Program
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply
from warpsmith.kernel.clusters import StoreAsync, SynchronizeCluster, rank_in
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, For, Statement, Synchronize
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.rings import Advance, Await, Expect, FenceProxy, InitBarriers
from warpsmith.kernel.traversal import walk
from warpsmith.kernel.waits import wait_sites
from warpsmith.lower import exchanges
from warpsmith.lower.passes import exchange_parts
from warpsmith.lower.passes.watch_waits import watch_waits
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check
from warpsmith.schedule.transforms import split
from warpsmith.targets.hopper import H200


@pytest.fixture(autouse=True, params=[0, 64], ids=["by blocks", "by warps"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Parts that a block gets; the stages are so few that they come round in a few rows."""
    monkeypatch.setattr(exchanges, "MOST_STAGES", 2)
    monkeypatch.setattr(exchange_parts, "WARP_PARTS", request.param)
    return BLOCKS * (2 if request.param else 1)


def has(kernel: Kernel, *kinds: type[Statement]) -> list[Statement]:
    return [s for s in walk(kernel.body) if isinstance(s, kinds)]


def test_rows_in_a_loop_take_stages_in_turn_and_blocks_meet_when_they_come_round(
    parts: int,
) -> None:
    kernel = summed()
    assert findings(kernel) == []
    (ring,) = check(kernel, values(), target=H200).rings
    assert (ring.name, ring.full, ring.empty, ring.bytes) == ("exchange0", 1, 0, 4 * parts)
    assert len(has(kernel, SynchronizeCluster)) == 1
    (got,) = (b for b in kernel.shared if b.name.endswith("_of_blocks"))
    assert integers.constant(got.size) == 2 * parts
    assert any(b.name.endswith("_scratch") for b in kernel.shared) == (parts == BLOCKS)


def test_what_happens_once_takes_one_stage(parts: int) -> None:
    kernel = summed(rows=ParallelType.grid_x)
    assert findings(kernel) == []
    assert check(kernel, values(), target=H200).steps > 0
    (got,) = (b for b in kernel.shared if b.name.endswith("_of_blocks"))
    assert integers.constant(got.size) == parts


def refused(kernel: Kernel) -> bool:
    """Whether the protocol check does."""
    try:
        check(kernel, values(), target=H200)
    except ProtocolError:
        return True
    return False


@pytest.mark.parametrize("rows", [None, pytest.param(ParallelType.grid_x, marks=pytest.mark.slow)])
def test_nothing_may_be_left_out(rows: ParallelType | None) -> None:
    found = list(mutants(summed(rows=rows)))
    names = " ".join(mutant.name for mutant in found)
    more = ("FenceProxy", "SynchronizeCluster") if rows is None else ()
    for what in ("InitBarriers", "AnnounceStart", "AwaitStart", "Expect", "Await ", *more):
        assert what in names
    assert [m.name for m in found if not findings(m.kernel, 1) and not findings(m.kernel)] == []
    assert [m.name for m in found if not refused(m.kernel)] == []


def apart() -> Kernel:
    """Two rows at a time, a warp each: the threads of a block meet in no reduction."""
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.op("sub", p.broadcast(p.reduce("sum", x, [1]), [False, True]), x))
    total = reduction_of(p.fusion)
    split(total, 1, BLOCKS, inner_split=False)
    split(total, 2, THREADS // 2)
    split(total, 0, 2)
    spread(total, {1: ParallelType.block_y, 2: CLUSTER, 4: ParallelType.block_x}, [3])
    return lower(p.fusion, "rows", DataType.Int32, target=H200)


def test_warps_that_reduce_apart_send_apart() -> None:
    kernel = apart()
    assert findings(kernel) == []
    (ring,) = check(kernel, values(), target=H200).rings
    assert (ring.stages, ring.bytes) == (2, 4 * BLOCKS * 2)
    assert has(kernel, Synchronize) == []
    assert [m.name for m in mutants(kernel) if not refused(m.kernel)] == []


def test_stages_have_little_room(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MOST_STAGES", 16)
    (barrier,) = (b for b in summed().shared if b.name == "exchange0_full")
    assert integers.constant(barrier.size) == 16
    monkeypatch.setattr(exchanges, "ROOM", 5 * 4 * parts)
    (barrier,) = (b for b in summed().shared if b.name == "exchange0_full")
    assert integers.constant(barrier.size) == 5


# --- what the check refuses --------------------------------------------------------------------


def loop_of(kernel: Kernel) -> For:
    return next(s for s in kernel.body if isinstance(s, For) and any(_is_sent(t) for t in s.body))


def _is_sent(statement: Statement) -> bool:
    return any(isinstance(s, StoreAsync) for s in walk((statement,)))


def first(kernel: Kernel, kind: type[Statement]) -> Statement:
    return has(kernel, kind)[0]


def put(kernel: Kernel, old: Statement, *new: Statement) -> Kernel:
    return replace(kernel, body=replaced(kernel.body, old, *new))


def twice_announced(kernel: Kernel) -> Kernel:
    expect = first(kernel, Expect)
    return put(kernel, expect, expect, expect)


def wrong_phase(kernel: Kernel) -> Kernel:
    wait = first(kernel, Await)
    assert isinstance(wait, Await)
    return put(kernel, wait, replace(wait, parity=integers.ZERO))


def of_the_block(kernel: Kernel) -> Kernel:
    wait = first(kernel, Await)
    assert isinstance(wait, Await)
    return put(kernel, wait, replace(wait, of_cluster=False))


def not_moved(kernel: Kernel) -> Kernel:
    moves = (s for s in has(kernel, Advance) if isinstance(s, Advance))
    return put(kernel, next(s for s in moves if s.cursor.name == "exchange0"))


def to_one_block(kernel: Kernel) -> Kernel:
    store = first(kernel, StoreAsync)
    assert isinstance(store, StoreAsync)
    return put(kernel, store, replace(store, rank=integers.ZERO))


def to_one_place(kernel: Kernel) -> Kernel:
    store = first(kernel, StoreAsync)
    assert isinstance(store, StoreAsync)
    return put(kernel, store, replace(store, index=integers.ZERO))


def read_late(kernel: Kernel) -> Kernel:
    store, loop = first(kernel, StoreAsync), loop_of(kernel)
    assert isinstance(store, StoreAsync)
    (add,) = (s for s in has(kernel, Accumulate) if _reads(s, store.buffer.name))
    return put(kernel, loop, replace(loop, body=(*loop.body, add)))


def _reads(statement: Statement, name: str) -> bool:
    assert isinstance(statement, Accumulate)
    (value,) = statement.part
    return isinstance(value, Element) and value.buffer.name == name


def without_meeting(kernel: Kernel) -> Kernel:
    return put(kernel, first(kernel, SynchronizeCluster))


def two_arrivals(kernel: Kernel) -> Kernel:
    start = first(kernel, InitBarriers)
    assert isinstance(start, InitBarriers)
    counts = tuple((barrier, integers.index(2)) for barrier, _ in start.arrivals)
    return put(kernel, start, replace(start, arrivals=counts))


def without_fence(kernel: Kernel) -> Kernel:
    return put(kernel, first(kernel, FenceProxy))


def fewer_in_one_block(kernel: Kernel) -> Kernel:
    loop = loop_of(kernel)
    first = Apply("eq", (rank_in(kernel.launch), integers.ZERO), DataType.Index)
    return put(kernel, loop, replace(loop, extent=integers.sub(loop.extent, first)))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (twice_announced, "WS0904"),
        (wrong_phase, "WS0903"),
        (not_moved, "WS0903"),
        (to_one_block, "WS0917"),
        (to_one_place, "WS0917"),
        (read_late, "WS0907"),
        (without_meeting, "WS0906"),
        (without_fence, "WS0914"),
        (two_arrivals, "WS0901"),
        (fewer_in_one_block, "WS0911"),
        (of_the_block, "WS0920"),
    ],
)
def test_what_is_wrong_is_refused(changed: Callable[[Kernel], Kernel], code: str) -> None:
    kernel = changed(summed())
    with pytest.raises(ProtocolError) as failure:
        check(kernel, values(), target=H200)
    assert failure.value.code == code


def test_more_bytes_than_come_are_waited_for_in_vain() -> None:
    kernel = summed()
    expect = first(kernel, Expect)
    assert isinstance(expect, Expect)
    more = put(kernel, expect, replace(expect, bytes=integers.add(expect.bytes, 4)))
    with pytest.raises(ProtocolError) as failure:
        check(more, values(), target=H200)
    assert failure.value.code in ("WS0901", "WS0905")
    assert findings(more) != []


# --- the watchdog ------------------------------------------------------------------------------


def test_watched_waits_say_that_they_wait_for_an_exchange() -> None:
    kernel = watch_waits(summed(), 10**9)
    (site,) = wait_sites(kernel.body)
    assert (site.ring, site.buffers, site.full) == ("exchange0", ("T1_of_blocks",), True)
    assert findings(kernel) == []
