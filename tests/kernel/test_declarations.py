"""Every kind of declaration matters: where one is another, an order or a check is another too."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.lower.test_exchanges import of_the_block
from tests.protocol.edits import refused
from tests.protocol.kernels import chain, fed_by
from tests.support.by_hand import kernel_of, launch_of
from tests.support.exchanged_sums import summed, values
from tests.support.meeting_kernels import Meeting, planned_kernel
from tests.support.role_kernels import RoleCase
from tests.support.summing import FLOAT_SUM
from warpsmith.errors import InternalError, ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Symbol
from warpsmith.kernel.clusters import StoreAsync
from warpsmith.kernel.effects import (
    WRITE,
    Declares,
    Done,
    Effect,
    Orders,
    Verb,
    Who,
    access,
    at_barrier,
    plain,
    reads,
    writes,
)
from warpsmith.kernel.forms import Declared, Form
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Element, For, Statement, Store, Synchronize
from warpsmith.kernel.printer import text_of
from warpsmith.kernel.products import AwaitProducts, MatrixTile, Multiply
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import Advance, ArriveByWarp, Await, FenceProxy, TileCopy
from warpsmith.kernel.succession import touched_globally
from warpsmith.kernel.traversal import read
from warpsmith.lower.passes.hoist import hoist_indices
from warpsmith.lower.passes.order import order
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200


def redeclared(cls: type[Declared], orders: Orders | None, **changed: Declares) -> Form:
    """What a class would declare if some of its fields said something else."""
    content: dict[str, object] = {name: field(metadata=each) for name, each in changed.items()}
    content |= {"__slots__": (), "__annotations__": dict.fromkeys(changed, "object")}
    made: type[Declared] = type(cls)("Changed", (cls,), content, orders=orders)  # type: ignore[call-overload]
    return made.form


@dataclass(frozen=True)
class Change:
    """A class with other declarations.

    Attributes:
        of: the kind of declaration that is another one.
    """

    of: str
    cls: type[Declared]
    changed: dict[str, Declares]
    orders: Orders | None = None

    def put(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self.cls, "form", redeclared(self.cls, self.orders, **self.changed))


def change(of: str, cls: type[Declared], **changed: Declares) -> Change:
    return Change(of, cls, changed)


# --- orders -------------------------------------------------------------------------------------

STORED = Meeting(writer="store", reader="TMA store", stages=2)
COPIED = Meeting(writer="cp.async", reader="load")
MULTIPLIED = Meeting(writer="TMA load", reader="wgmma", stages=3, ahead=2)
OWN = Meeting(writer="store", reader="own load", stages=3, ahead=2)

GENERIC_STORE = Effect(reads=True, done=Done.STORES, who=Who.ONE, words="TMA store reads")

ONE = Const(1)
THREAD, TURN = Symbol("block_x", low=0, extent=Const(64)), Symbol("i0", low=0, extent=Const(4))
SHARED = Buffer("S", DataType.Float, MemoryType.shared, Const(64))
LOCAL = Buffer("T1", DataType.Float, MemoryType.local, Const(8))
MEMORY = Buffer("T0", DataType.Float, MemoryType.global_, Const(64))


def looping(*inner: Statement) -> Kernel:
    """A loop of 64 threads."""
    return kernel_of(
        For(TURN, Const(4), inner, unroll=False),
        launch=launch_of(64),
        parameters=(MEMORY,),
        shared=(SHARED,),
        exchanged=frozenset(("S",)),
    )


def by_threads() -> Kernel:
    """What threads store others load."""
    there = integers.sub(63, THREAD)
    stored = Store(SHARED, THREAD, Element(MEMORY, THREAD))
    return order(looping(stored, Store(MEMORY, there, Element(SHARED, there))))


def of(meeting: Meeting) -> Callable[[], Kernel]:
    return lambda: planned_kernel(meeting)


ORDERED: list[tuple[Change, Callable[[], Kernel]]] = [
    (change("expression", Store, value=plain()), by_threads),
    (change("reads", TileCopy, shared=plain()), of(STORED)),
    (change("writes", Store, buffer=plain()), by_threads),
    (change("writes and not reads", Store, buffer=reads("index")), by_threads),
    (change("updates", Multiply, accumulators=plain()), of(MULTIPLIED)),
    (change("nested", Multiply, a=plain(), b=plain()), of(MULTIPLIED)),
    (change("within a nested value", MatrixTile, buffer=plain()), of(MULTIPLIED)),
    (change("index", CopyVector, target=access("copied")), of(STORED)),
    (
        change("proxy", TileCopy, shared=access(GENERIC_STORE, "index")),
        of(STORED),
    ),
    (change("done", CopyVector, target=access(WRITE, "target_index")), of(COPIED)),
    (
        change("who", CopyVector, target=access(replace(WRITE, who=Who.TOGETHER), "target_index")),
        of(OWN),
    ),
    (Change("orders", Synchronize, {}, Orders.NOTHING), by_threads),
    (change("verb", ArriveByWarp, barrier=at_barrier(Verb.EXPECT)), of(MULTIPLIED)),
    (change("remote", StoreAsync, buffer=writes("index")), summed),
    (change("words", Store, buffer=access(replace(WRITE, words="paints"), "index")), by_threads),
]


def planned(made: Callable[[], Kernel]) -> object:
    """What orders a kernel, and the reasons."""
    try:
        kernel = made()
    except InternalError as error:
        return str(error)
    return kernel.body, kernel.orders


@pytest.mark.parametrize(("changed", "made"), [pytest.param(*c, id=c[0].of) for c in ORDERED])
def test_another_declaration_is_another_order(
    changed: Change, made: Callable[[], Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = planned(made)
    assert not isinstance(before, str)
    changed.put(monkeypatch)
    assert planned(made) != before


# --- the protocol -------------------------------------------------------------------------------

CHECKED: list[tuple[Change, Callable[[], RoleCase]]] = [
    (change("barrier", Await, barrier=plain()), lambda: fed_by(2)),
    (
        change(
            "barrier of another block", ArriveByWarp, barrier=at_barrier(Verb.ARRIVE, remote=True)
        ),
        lambda: fed_by(2),
    ),
    (Change("defines", Advance, {"cursor": plain()}, Orders.NOTHING), lambda: fed_by(2)),
    (Change("orders", FenceProxy, {}, Orders.NOTHING), chain),
    (change("body", For, body=plain()), lambda: fed_by(2)),
]


@pytest.mark.parametrize(("changed", "case"), [pytest.param(*c, id=c[0].of) for c in CHECKED])
def test_with_another_declaration_a_right_kernel_is_refused(
    changed: Change, case: Callable[[], RoleCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = case()
    before = check(given.kernel, given.values, target=H200).steps
    changed.put(monkeypatch)
    try:
        steps = check(given.kernel, given.values, target=H200).steps
    except (ProtocolError, InternalError):
        return
    assert steps != before  # it has seen another kernel


def test_that_others_send_is_known_by_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = of_the_block(summed())
    refused(kernel, values(), words="threads of other blocks arrive")
    other = change("barrier that is not remote", StoreAsync, barrier=at_barrier(Verb.COUNT))
    other.put(monkeypatch)
    assert check(kernel, values(), target=H200).steps > 0


# --- everything else ----------------------------------------------------------------------------


def test_what_a_loop_defines_is_not_hoisted_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Apply("floordiv", (TURN, Const(3)), DataType.Index)
    kernel = looping(Store(LOCAL, index, Const(0.0, DataType.Float)))
    assert isinstance(hoist_indices(kernel).body[0], For)
    change("defines", For, symbol=plain()).put(monkeypatch)
    assert not isinstance(hoist_indices(kernel).body[0], For)


def test_what_a_reduction_needs_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = (ParallelType.block_x,)
    reduce = Reduce(FLOAT_SUM, (LOCAL,), integers.ZERO, 1, axes, LOCAL, workspace=MEMORY)
    assert touched_globally(reduce) == ("T0",)
    change("needs", Reduce, workspace=plain()).put(monkeypatch)
    assert touched_globally(reduce) == ()


def test_what_is_kept_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = AwaitProducts(0, (LOCAL,))
    assert read(wait) == (LOCAL,)
    change("keeps", AwaitProducts, accumulators=plain()).put(monkeypatch)
    assert read(wait) == ()


def test_counts_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = CopyVector(LOCAL, TURN, MEMORY, THREAD, 4)
    assert text_of(copy) == "T1[i0 ..] = T0[block_x ..] x4"
    change("count", CopyVector, source=reads("source_index")).put(monkeypatch)
    assert text_of(copy) == "T1[i0 ..] = T0[block_x] x4"
