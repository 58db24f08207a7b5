"""What statements must declare, and that a new one needs nothing else to be known everywhere."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import field, fields

import pytest

import warpsmith.codegen
import warpsmith.kernel
from tests.protocol.edits import edited, instead, refused
from tests.protocol.kernels import fed_by
from tests.support.by_hand import kernel_of, launch_of
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.carry import moments
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.accesses import accesses
from warpsmith.kernel.effects import (
    Effect,
    Orders,
    Who,
    access,
    body,
    defines,
    expression,
    nested,
    plain,
    reads,
    updates,
    writes,
)
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Element, For, Statement, Store, Synchronize
from warpsmith.kernel.printer import kernel_text, text_of
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import (
    children,
    defined,
    expressions,
    map_expressions,
    map_places,
    read,
    replace_symbols,
    rewritten,
    walk,
    written,
)
from warpsmith.kernel.waits import WatchedAwait
from warpsmith.lower.passes.order import order
from warpsmith.protocol import check
from warpsmith.protocol.accesses import Way
from warpsmith.protocol.accesses import accesses as uses
from warpsmith.targets.hopper import H200
from warpsmith.values import dataclass

S = Buffer("S", DataType.Float, MemoryType.shared, Const(256))
G = Buffer("G", DataType.Float, MemoryType.global_, Const(256))
X = Symbol("block_x", low=0, extent=Const(64))
I = Symbol("i0", low=0, extent=Const(4))  # noqa: E741


# --- what must be said --------------------------------------------------------------------------


def test_a_field_that_says_nothing_fails_as_its_class_is_defined() -> None:
    with pytest.raises(InternalError, match=r"Silent\.buffer does not say what it is"):

        @dataclass(frozen=True, slots=True)
        class Silent(Statement):
            buffer: Buffer
            index: Expr = field(metadata=expression())


def test_a_default_without_a_declaration_says_nothing() -> None:
    with pytest.raises(InternalError, match=r"Silent\.width does not say what it is"):

        @dataclass(frozen=True)
        class Silent(Statement):
            index: Expr = field(metadata=expression())
            width: int = 4


def test_a_statement_that_does_nothing_must_say_so() -> None:
    with pytest.raises(InternalError, match="Silent declares no effect"):

        @dataclass(frozen=True, slots=True)
        class Silent(Statement):
            width: int = field(default=1, metadata=plain())

    class Quiet(Statement, orders=Orders.NOTHING):
        """It says so."""

    assert Quiet.form.orders is Orders.NOTHING


def test_statements_stand_in_a_field_of_one_name() -> None:
    with pytest.raises(InternalError, match=r"Odd\.inner holds statements"):

        @dataclass(frozen=True, slots=True)
        class Odd(Statement):
            inner: tuple[Statement, ...] = field(metadata=body())


def test_a_subclass_has_what_its_base_declares() -> None:
    own = [name for name, _ in WatchedAwait.form.declared]
    assert own == [each.name for each in fields(WatchedAwait)]
    assert WatchedAwait.form.barriers == Await.form.barriers


def every_class() -> Iterator[type[Declared]]:
    """All classes of the package whose fields are declared."""
    for package in (warpsmith.kernel, warpsmith.codegen):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    pending = Declared.__subclasses__()
    while pending:
        found = pending.pop()
        pending += found.__subclasses__()
        if found.__module__.startswith("warpsmith.") and "__slots__" in found.__dict__:
            yield found


@pytest.mark.parametrize("cls", sorted(set(every_class()), key=lambda c: c.__qualname__))
def test_what_declarations_name_is_there(cls: type[Declared]) -> None:
    names = {name for name, _ in cls.form.declared}
    assert names == {each.name for each in fields(cls)}  # type: ignore[arg-type]
    for _, declared in cls.form.memory:
        asked = (declared.effect, declared.index, declared.count)
        assert all(hasattr(cls, each) for each in asked if isinstance(each, str) and each)


# --- a new statement ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Factor(Declared):
    """A value in a statement, which reads a buffer."""

    words = "{buffer} + {by}"

    buffer: Buffer = field(metadata=reads("index"))
    index: Expr = field(metadata=expression())
    by: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class Scale(Statement):
    """`buffer[index .. index + 3] *= factor`, while statements inside see its `symbol`."""

    words = "scale {buffer} by {factor}{flag:, flagged}"

    symbol: Symbol = field(metadata=defines())
    buffer: Buffer = field(metadata=updates("index", 4))
    index: Expr = field(metadata=expression())
    factor: Factor = field(metadata=nested())
    body: tuple[Statement, ...] = field(default=(), metadata=body())
    flag: bool = field(default=False, metadata=plain())


def scale(*inner: Statement, **given: bool) -> Scale:
    factor = Factor(S, integers.mul(X, 2), Element(G, X))
    return Scale(Symbol("s"), S, integers.mul(X, 4), factor, inner, **given)


def test_it_is_walked() -> None:
    inner = Store(G, X, Symbol("s", dtype=DataType.Float))
    statement = scale(inner)
    assert children(statement) == (inner,)
    assert list(walk((statement,))) == [statement, inner]
    assert defined(statement) == (Symbol("s"),)
    assert read(statement) == (G, S, S)
    assert written(statement) == (S,)


def test_it_is_rewritten() -> None:
    statement = scale(Store(G, X, Element(S, X)))
    places = expressions(statement)
    assert places == (integers.mul(X, 4), integers.mul(X, 2), Element(G, X))
    moved = replace_symbols(statement, {X: I})
    assert expressions(moved) == (integers.mul(I, 4), integers.mul(I, 2), Element(G, I))
    assert children(moved) == (Store(G, I, Element(S, I)),)
    assert map_expressions(statement, lambda expr: expr) is statement
    shifted = map_places(statement, lambda b, at: integers.add(at, 8) if b == S else at)
    assert shifted.index == integers.add(integers.mul(X, 4), 8)
    assert shifted.factor.index == integers.add(integers.mul(X, 2), 8)
    assert shifted.body == statement.body
    assert rewritten((statement,), lambda s: () if isinstance(s, Store) else (s,)) == (scale(),)


def test_an_index_of_several_buffers_moves_with_all_of_them() -> None:
    other = Buffer("T", DataType.Float, MemoryType.shared, Const(256))
    merge = Accumulate(moments(DataType.Float), (S, S, other), X, (X, X, X))
    assert map_places(merge, lambda _, at: integers.add(at, 8)).index == integers.add(X, 8)
    with pytest.raises(InternalError, match="Accumulate cannot move T alone"):
        map_places(merge, lambda b, at: integers.add(at, 8) if b == S else at)


def test_it_is_printed() -> None:
    text = "scale S[mul(block_x, 4) ..] by S[mul(block_x, 2)] + G[block_x]"
    assert text_of(scale()) == text
    assert text_of(scale(flag=True)) == f"{text}, flagged"
    assert f"    {text}:\n" in kernel_text(kernel(scale()))


def test_one_without_words_is_printed_by_its_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class Prefetch(Statement):
        buffer: Buffer = field(metadata=reads("index"))
        index: Expr = field(metadata=expression())
        lines: int = field(default=1, metadata=plain())

    assert text_of(Prefetch(G, X)) == "Prefetch, buffer G[block_x]"
    assert text_of(Prefetch(G, X, 2)) == "Prefetch, buffer G[block_x], lines 2"


def kernel(*inner: Statement) -> Kernel:
    """A loop of 64 threads around statements."""
    return kernel_of(
        For(I, Const(4), inner, unroll=False),
        launch=launch_of(64),
        parameters=(G,),
        shared=(S,),
        exchanged=frozenset(("S",)),
    )


def test_it_is_ordered() -> None:
    given = Store(S, X, Element(G, X))
    found = [type(s) for s in walk(order(kernel(given, scale())).body)]
    assert found == [For, Synchronize, Store, Synchronize, Scale]
    assert [type(s) for s in walk(order(kernel(given)).body)] == [For, Store]


def test_it_is_seen_by_the_protocol() -> None:
    assert [access.writes for access in accesses(scale())] == [False, False, False, True]
    assert [use.way for use in uses(scale())] == [Way.READ, Way.READ, Way.WRITE]

    @dataclass(frozen=True, slots=True)
    class Peek(Statement):
        stages: Buffer = field(metadata=reads("index"))
        index: Expr = field(metadata=expression())

    case = fed_by(2)
    ring = case.kernel.pipelines[0]
    stages = next(b for b in case.kernel.shared if b.name == ring.names[0])
    full = ring.full.name

    def put(wait: Await, *, before: bool) -> tuple[Statement, ...]:
        size = ring.contents[0].elements
        peek = Peek(stages, integers.mul(wait.stage, size))
        return (peek, wait) if before else (wait, peek)

    late = instead(Await, lambda wait: put(wait, before=False), barrier=full)
    early = instead(Await, lambda wait: put(wait, before=True), barrier=full)
    check(edited(case.kernel, late), case.values, target=H200)
    refused(edited(case.kernel, early), case.values, "WS0907")


def test_a_place_that_nobody_knows_may_be_any_stage() -> None:
    @dataclass(frozen=True, slots=True)
    class Peek(Statement):
        stages: Buffer = field(metadata=reads())

    case = fed_by(2)
    stages = next(b for b in case.kernel.shared if b.name == case.kernel.pipelines[0].names[0])
    full = case.kernel.pipelines[0].full.name
    change = instead(Await, lambda wait: (wait, Peek(stages)), barrier=full)
    refused(edited(case.kernel, change), case.values)


def test_a_step_that_the_protocol_does_not_know_is_refused() -> None:
    class Pause(Statement, orders=Orders.MEETING):
        """Nobody has said what it means."""

    case = fed_by(2)
    full = case.kernel.pipelines[0].full.name
    change = instead(Await, lambda wait: (wait, Pause()), barrier=full)
    with pytest.raises(InternalError, match=r"Pause has no step, .* case in protocol/steps\.py"):
        check(edited(case.kernel, change), case.values, target=H200)


def test_an_effect_may_depend_on_the_statement() -> None:
    @dataclass(frozen=True, slots=True)
    class Move(Statement):
        buffer: Buffer = field(metadata=access("way", "index"))
        index: Expr = field(metadata=expression())
        back: bool = field(metadata=plain())

        @property
        def way(self) -> Effect:
            return Effect(reads=self.back, writes=not self.back, who=Who.WARP, words="moves")

    assert (read(Move(S, X, True)), written(Move(S, X, True))) == ((S,), ())
    assert (read(Move(S, X, False)), written(Move(S, X, False))) == ((), (S,))
    assert writes("index") != reads("index")
