"""Every rule of the Kernel form finds a pass that breaks it, and names it."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from tests.support.tiling import Tiling, loading, storing
from warpsmith import LoadStoreOpType
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.integers import ZERO
from warpsmith.ir.scalar import Apply, Symbol
from warpsmith.kernel.clusters import SynchronizeCluster, rank_among
from warpsmith.kernel.elected import Converge
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Comment, Declare, If, Let, Statement, Synchronize
from warpsmith.kernel.random_words import DrawByQuads
from warpsmith.kernel.rings import Await, Begin, CommitCopies, InitBarriers
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious
from warpsmith.kernel.traversal import rewritten, walk
from warpsmith.lower.build import build, parameter_names
from warpsmith.lower.pipeline import PASSES, Pass, passed
from warpsmith.lower.request import Request
from warpsmith.lower.verify.rule import Rule
from warpsmith.targets.hopper import H200

Change = Callable[[Kernel], Kernel]
X = Symbol(ParallelType.block_x.name, low=0)
SAME = Apply("lt", (ZERO, integers.ONE), DataType.Bool)

WORDS = Buffer("words", DataType.Int32, MemoryType.local, integers.index(4))
DRAWN = Declare(WORDS), DrawByQuads(WORDS, ZERO, X, ZERO, ZERO, ZERO)


def verified(passes: tuple[Pass, ...], *, thorough: bool = False) -> Kernel:
    """Tiles that the TMA unit loads through three stages, and stores from three others."""
    tiling = Tiling((8, 16), threads=128)
    fusion = storing(tiling, stages=3, load=LoadStoreOpType.tma).fusion
    first = build(fusion, "k", DataType.Int32, target=H200)
    request = Request(wait_limit=1000, follows=True, followed=True, thorough=thorough)
    return passed(first, request, names=parameter_names(fusion), passes=passes)


def broken(behind: str, change: Change) -> tuple[Pass, ...]:
    """The passes, with one of the name `careless` behind another one."""
    at = 1 + [each.name for each in PASSES].index(behind)
    careless = Pass("careless", lambda request: change, "to be found")
    return (*PASSES[:at], careless, *PASSES[at:])


def without(name: str) -> tuple[Pass, ...]:
    """The passes, one of which does nothing."""
    idle = replace(
        next(each for each in PASSES if each.name == name),
        asked=lambda request: lambda kernel: kernel,
    )
    return tuple(idle if each.name == name else each for each in PASSES)


def edited(change: Callable[[Statement], Iterable[Statement]]) -> Change:
    """What becomes of each statement."""
    return lambda kernel: replace(kernel, body=rewritten(kernel.body, change))


def once(
    kind: type[Statement], change: Callable[[Statement], Iterable[Statement]], *, last: bool = False
) -> Change:
    """What becomes of the first statement of a class, or of the last one."""

    def changed(kernel: Kernel) -> Kernel:
        found = [s for s in walk(kernel.body) if type(s) is kind][-1 if last else 0]
        return edited(lambda s: change(s) if s is found else (s,))(kernel)

    return changed


def first(statement: Statement) -> Change:
    """A statement before all others."""
    return lambda kernel: replace(kernel, body=(statement, *kernel.body))


def resized(kernel: Kernel) -> Kernel:
    tile, *others = kernel.shared
    return replace(kernel, shared=(replace(tile, size=integers.mul(tile.size, 2)), *others))


def late_barriers(kernel: Kernel) -> Kernel:
    start = [s for s in kernel.body if isinstance(s, InitBarriers)]
    others = [s for s in kernel.body if not isinstance(s, InitBarriers)]
    return replace(kernel, body=(*others, *start))


def moved(by: int) -> Change:
    """The second place of shared memory starts so many bytes later."""

    def changed(kernel: Kernel) -> Kernel:
        assert kernel.layout is not None
        tile, second, *others = kernel.layout.places
        second = replace(second, start=integers.add(second.start, by))
        return replace(kernel, layout=replace(kernel.layout, places=(tile, second, *others)))

    return changed


def cut_short(kernel: Kernel) -> Kernel:
    assert kernel.layout is not None
    return replace(kernel, layout=replace(kernel.layout, bytes=integers.index(64)))


def not_laid_out(kernel: Kernel) -> Kernel:
    assert kernel.layout is not None
    return replace(kernel, layout=replace(kernel.layout, places=kernel.layout.places[1:]))


NAMED = Symbol("named")
TWICE = (Let(NAMED, integers.ONE), Let(NAMED, integers.ONE))

FAULTS: dict[str, tuple[str, Change, Rule, str]] = {
    "a cursor that never began": (
        "order",
        once(Begin, lambda s: ()),
        Rule.NAMES,
        "is used where nothing defines it, at `",
    ),
    "a name of another scope": (
        "hoist_indices",
        lambda k: replace(k, body=(If(X, TWICE[:1], True), Let(Symbol("b"), NAMED), *k.body)),
        Rule.NAMES,
        "`named` is used where nothing defines it, at `b = named`",
    ),
    "a name that the launch is not asked for": (
        "list_scalars",
        lambda k: replace(k, scalars=k.scalars[1:]),
        Rule.NAMES,
        "is used where nothing defines it",
    ),
    "a name twice": (
        "order",
        lambda k: replace(k, body=(*TWICE, *k.body)),
        Rule.NAMES,
        "`named` is defined twice, at `named = 1`",
    ),
    "a buffer that is none of the kernel's": (
        "lower_pipelines",
        lambda k: replace(k, shared=k.shared[1:]),
        Rule.MEMORY,
        "is no buffer of the kernel, at `",
    ),
    "a buffer of another size": ("lower_pipelines", resized, Rule.MEMORY, "is declared as Buffer"),
    "a buffer that is declared twice": (
        "lower_pipelines",
        lambda k: replace(k, shared=(*k.shared, k.shared[0])),
        Rule.MEMORY,
        "is declared twice",
    ),
    "a meeting under a condition": (
        "order",
        once(Synchronize, lambda s: (If(integers.less(X, 3), (s,)),)),
        Rule.COLLECTIVE,
        "at `if lt(block_x, 3)`",
    ),
    "lanes that draw for others": (
        "share_random",
        first(If(integers.less(X, 3), DRAWN)),
        Rule.COLLECTIVE,
        "at `if lt(block_x, 3)`",
    ),
    "blocks that meet apart": (
        "order",
        first(If(rank_among(integers.index(2)), (SynchronizeCluster(),), True)),
        Rule.COLLECTIVE,
        "blocks of a cluster meet where not all of them come by, at `if cluster_rank`",
    ),
    "barriers that are initialized late": (
        "lower_pipelines",
        late_barriers,
        Rule.BARRIERS,
        "`ring0_empty` is used before it is initialized, at `",
    ),
    "a meeting that is gone": (
        "overlay_shared",
        once(Synchronize, lambda s: (), last=True),
        Rule.ORDERS,
        "which orders something, is gone",
    ),
    "a number of nothing": (
        "overlay_shared",
        first(Synchronize("", number=99)),
        Rule.ORDERS,
        "the statement of number 99 orders nothing, at `synchronize  ()`",
    ),
    "a number of two statements": (
        "overlay_shared",
        first(Comment("", number=1)),
        Rule.ORDERS,
        "statements of 2 kinds have the number 1",
    ),
    "a place that is not aligned": (
        "lay_out_shared",
        moved(8),
        Rule.LAYOUT,
        "is to be aligned to 128",
    ),
    "a place over another one": ("lay_out_shared", moved(-128), Rule.LAYOUT, "lies over"),
    "a place behind the end": ("lay_out_shared", cut_short, Rule.LAYOUT, "the layout at 64"),
    "a buffer without a place": (
        "lay_out_shared",
        not_laid_out,
        Rule.LAYOUT,
        "the buffers that are laid out are not those of the kernel",
    ),
}


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_careless_pass_is_named_with_the_rule(fault: str, thorough: bool) -> None:
    behind, change, rule, words = FAULTS[fault]
    with pytest.raises(InternalError) as raised:
        verified(broken(behind, change), thorough=thorough)
    text = str(raised.value)
    assert text.startswith(f"[{rule.code}] k, behind the pass `careless`: ")
    assert words in text
    assert text.endswith(f"; the rule is that {rule.words}")


def test_whole_warps_may_draw_where_others_do_not() -> None:
    verified(broken("share_random", first(If(SAME, DRAWN))), thorough=True)


def test_a_pass_that_ends_nothing_is_named() -> None:
    passes = without("lower_pipelines")
    end = 1 + [each.name for each in passes].index("order")
    with pytest.raises(
        InternalError, match=r"WS1201.*`lower_pipelines`: Drain is left of .*, at `drain T3`, and 1"
    ):
        verified(passes[:end])


def test_a_pass_that_fails_on_what_another_one_broke_is_not_to_blame() -> None:
    def fails(kernel: Kernel) -> Kernel:
        raise KeyError("T2")

    at = [each.name for each in PASSES].index("overlay_shared")
    failing = (Pass("fails", lambda request: fails, "to fail"),)
    with pytest.raises(KeyError, match="T2"):
        verified((*PASSES[:at], *failing))
    careless = broken("order", once(Begin, lambda s: ()))[: at + 1]
    with pytest.raises(InternalError, match=r"\[WS1202\] k, behind the pass `careless`"):
        verified((*careless, *failing))


@pytest.mark.parametrize("made", [Converge(), CommitCopies(bulk=True)])
def test_a_statement_before_the_pass_that_makes_it_is_found_at_once(made: Statement) -> None:
    words = f"`careless`: {type(made).__name__} is there before the pass that makes it, at `"
    with pytest.raises(InternalError, match=rf"\[WS1201\].*{words}"):
        verified(broken("join_reductions", first(made)), thorough=True)


def test_a_statement_of_a_pass_that_nobody_asked_for_is_found() -> None:
    passes = broken("collect_maps", first(AdmitNext()))
    idle = tuple(
        replace(each, asked=lambda request: None) if each.name == "admit_next" else each
        for each in passes
    )
    with pytest.raises(InternalError, match=r"\[WS1201\].*`careless`: AdmitNext is there before"):
        verified(idle)


def shifted(kernel: Kernel) -> Kernel:
    """Each meeting of a loop comes after what it stood before."""

    def change(statement: Statement) -> Iterable[Statement]:
        if not statement.form.has_body:
            return (statement,)
        body = list(statement.body)  # type: ignore[attr-defined]
        for at in reversed(range(len(body) - 1)):
            if isinstance(body[at], Synchronize):
                body[at : at + 2] = body[at + 1], body[at]
        return (replace(statement, body=tuple(body)),)  # type: ignore[call-arg]

    return edited(change)(kernel)


def test_a_meeting_that_orders_nothing_any_more_is_found_by_asking_again() -> None:
    passes = broken("hoist_indices", shifted)
    verified(passes)
    with pytest.raises(InternalError, match=r"WS1208.*`careless`: ordering asks for .* more of"):
        verified(passes, thorough=True)


@pytest.mark.parametrize("stages", [2, 3])
def test_what_lowering_makes_keeps_all_rules(stages: int) -> None:
    seen: list[str] = []
    fusion = loading(Tiling((8, 16), threads=128), stages=stages).fusion
    first = build(fusion, "k", DataType.Int32, target=H200)
    request = Request(thorough=True)
    names = parameter_names(fusion)
    passed(first, request, lambda name, kernel: seen.append(name), names=names)
    assert seen == [each.name for each in PASSES if each.asked(request)]


def test_a_request_asks_for_more_passes() -> None:
    seen: list[str] = []
    fusion = loading(Tiling((8, 16), threads=128), stages=2).fusion
    first = build(fusion, "k", DataType.Int32, target=H200)
    request = Request(wait_limit=1000, follows=True, followed=True, settled=("T0",))
    names = parameter_names(fusion)
    kernel = passed(first, request, lambda name, kernel: seen.append(name), names=names)
    unasked = {each.name for each in PASSES} - set(seen)
    assert not unasked, f"no pass may be left out here: let the request ask for {unasked}"
    assert seen == [each.name for each in PASSES]
    kinds = [type(s) for s in kernel.body]
    assert kernel.early
    assert kinds.index(AdmitNext) < kinds.index(AwaitPrevious)
    assert not any(type(s) is Await for s in walk(kernel.body))


def test_every_pass_says_why_it_stands_where_it_stands() -> None:
    assert all(each.why for each in PASSES)
    assert len({each.name for each in PASSES}) == len(PASSES)


def test_every_rule_has_a_fault() -> None:
    tested_apart = {Rule.STAGES, Rule.STANDING}
    assert {rule for _, _, rule, _ in FAULTS.values()} | tested_apart == set(Rule)
