"""Kernels with roles that faults are made of, and edits that make them wrong."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tests.protocol.edits import edited, instead, with_role, without
from tests.protocol.test_wrong import Wrong, of
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind
from tests.support.role_cases import case_named
from tests.support.role_feeds import Feed
from tests.support.role_kernels import chained, streaming
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Synchronize
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    Arrive,
    ArriveByWarp,
    Await,
    Begin,
    Cursor,
    Expect,
    InvalidateBarriers,
    TileCopy,
)
from warpsmith.kernel.traversal import children, walk

Change = Callable[[Kernel], Kernel]


def scheduled(name: str, kind: Kind, stages: int, extent: int) -> Wrong:
    """A schedule of `role_cases`, lowered, with the sizes of its inputs."""

    def make() -> tuple[Kernel, Mapping[str, int]]:
        case = case_named(name)
        fusion = case.schedule(Feed(kind, stages)).fusion
        values = {}
        for tensor, shape in zip(fusion.input_tensors, case.shapes(extent), strict=True):
            step = 1
            for place in reversed(range(len(shape))):
                values[f"{tensor.name}_size{place}"] = shape[place]
                values[f"{tensor.name}_stride{place}"] = step
                step *= shape[place]
        return lowered(fusion), values

    return make


def but(make: Wrong, *changes: Change) -> Wrong:
    """A kernel with changes made to it, one after the other."""

    def changed() -> tuple[Kernel, Mapping[str, int]]:
        kernel, values = make()
        for change in changes:
            kernel = change(kernel)
        return kernel, values

    return changed


ADDING = of(streaming(), lambda kernel: kernel)
"""`load_x` and `load_y` load, `add` adds."""

WITH_REGISTERS = of(streaming(registers=(40, 232)), lambda kernel: kernel)

DOUBLING = of(chained(), lambda kernel: kernel)
"""`load` fills ring0, `double` ring1, which `add` uses."""

UNEQUAL = scheduled("unequal_work", Kind.tma, 3, 2000)
"""Three blocks walk 16 tiles by the grid's strides; `load_a`, `load_b` and `compute` skip some."""

CHAIN = scheduled("transform_and_store", Kind.tma, 2, 5)
"""`load` fills ring0, `transform_0` ring2, `compute` ring1, which `store` drains."""

PING_PONG = scheduled("ping_pong_2_groups", Kind.tma, 3, 500)
"""Two groups take turns, in order, in three stages that belong to neither."""

SUMS = scheduled("sums_by_2_groups", Kind.bulk, 4, 40)
"""Two groups take turns in four stages, and add up a row each, for which their threads meet."""


# --- edits of statements -------------------------------------------------------------------------


def each(
    kind: type[Statement],
    new: Callable[..., Statement | tuple[Statement, ...]],
    role: str | None = None,
    **at: object,
) -> Change:
    """Something else for each statement of a kind, of one role or of all."""
    return partial(edited, change=instead(kind, new, **at), role=role)


def omitting(kind: type[Statement], role: str | None = None, **at: object) -> Change:
    return partial(edited, change=without(kind, **at), role=role)


def every(change: Callable[[Statement], tuple[Statement, ...]], role: str | None = None) -> Change:
    return partial(edited, change=change, role=role)


def moved(
    kind: type[Statement], ring: int, name: str, role: str | None = None, **at: object
) -> Change:
    """Statements of a kind are at barrier `full` or `empty` of another ring."""

    def change(kernel: Kernel) -> Kernel:
        barrier = getattr(kernel.pipelines[ring], name)
        return edited(kernel, instead(kind, partial(replace, barrier=barrier), **at), role)

    return change


def unbounded(statement: Statement) -> tuple[Statement, ...]:
    """The role runs the iterations that all others skip."""
    if isinstance(statement, If) and any(isinstance(s, Await) for s in walk(statement.body)):
        return statement.body
    return (statement,)


def signalled_early(statement: Statement) -> tuple[Statement, ...]:
    """Stages are said to be full, and free, before anybody touches them."""
    if not isinstance(statement, For) or not any(isinstance(s, Await) for s in statement.body):
        return (statement,)
    order = (Await, ArriveByWarp)
    first = (s for kind in order for s in statement.body if isinstance(s, kind))
    rest = (s for s in statement.body if not isinstance(s, order))
    return (replace(statement, body=(*first, *rest)),)


def last_release_first(statement: Statement) -> tuple[Statement, ...]:
    """All waits stand behind the work, before the first release."""
    body = children(statement)
    waits = tuple(s for s in body if isinstance(s, Await))
    if not waits:
        return (statement,)
    rest = [s for s in body if not isinstance(s, Await)]
    place = next(n for n, s in enumerate(rest) if isinstance(s, ArriveByWarp))
    return (replace(statement, body=(*rest[:place], *waits, *rest[place:])),)  # type: ignore[call-arg]


def copied_first(statement: Statement) -> tuple[Statement, ...]:
    """The copy is asked for before its stage is free."""
    body = children(statement)
    copies = tuple(s for s in body if isinstance(s, TileCopy))
    if not copies:
        return (statement,)
    rest = tuple(s for s in body if not isinstance(s, TileCopy))
    return (replace(statement, body=(*copies, *rest)),)  # type: ignore[call-arg]


def announced_last(statement: Statement) -> tuple[Statement, ...]:
    """The copy is asked for, and then announced."""
    body = list(children(statement))
    if not any(isinstance(s, Expect) for s in body):
        return (statement,)
    place = next(n for n, s in enumerate(body) if isinstance(s, Expect))
    body[place], body[place + 1] = body[place + 1], body[place]
    return (replace(statement, body=tuple(body)),)  # type: ignore[call-arg]


def with_stages(cursor: str, stages: int) -> Callable[[Statement], tuple[Statement, ...]]:
    """A cursor believes that its ring has so many stages."""

    def change(statement: Statement) -> tuple[Statement, ...]:
        match statement:
            case Begin(cursor=given) | Advance(cursor=given) if given.name == cursor:
                return (replace(statement, cursor=Cursor(cursor, stages)),)
        return (statement,)

    return change


def once_more(loop: For) -> For:
    return replace(loop, extent=integers.add(loop.extent, 1))


def always_passing(wait: Await) -> Await:
    return replace(wait, parity=integers.ONE)


def by_each_thread(release: ArriveByWarp) -> Arrive:
    return Arrive(release.barrier, release.stage)


def by_one_thread(release: ArriveByWarp) -> If:
    return If(ELECTED, (Arrive(release.barrier, release.stage),))


# --- edits of kernels ----------------------------------------------------------------------------


def shared_full(kernel: Kernel) -> Kernel:
    """Both loads of `ADDING` count at ring0's barrier, and readers wait for nothing else."""
    full = kernel.pipelines[0].full

    def change(statement: Statement) -> tuple[Statement, ...]:
        match statement:
            case Expect():
                return (replace(statement, barrier=full),)
            case TileCopy(barrier=(_, stage)):
                return (replace(statement, barrier=(full, stage)),)
        return (statement,)

    return edited(edited(kernel, change, "load_y"), without(Await, barrier="ring1_full"), "add")


def falling_through(kernel: Kernel) -> Kernel:
    """The idle warps 2 and 3 of `ADDING` run the body of `add`, too."""
    block = (Const(320), integers.ONE, integers.ONE)
    return with_role(kernel, "add", partial(replace, first_warp=2, block=block))


def meeting_at_one(kernel: Kernel) -> Kernel:
    """Two roles of `DOUBLING` meet at the end of each tile, both at named barrier 1."""
    for role in ("double", "add"):
        kernel = with_role(kernel, role, partial(replace, barrier=1))
        met = instead(ArriveByWarp, lambda r: (Synchronize("a test"), r))
        kernel = edited(kernel, met, role)
    return kernel


def parted_meeting(kernel: Kernel) -> Kernel:
    """Half of the threads of `add` come to where all of them meet."""
    half = integers.less(Symbol(BLOCK_TYPES[0].name, low=0), 128)
    meets = If(half, (Synchronize("a test"),))
    kernel = with_role(kernel, "add", partial(replace, barrier=1))
    return edited(kernel, instead(ArriveByWarp, lambda r: (meets, r), barrier="ring0_empty"))


def ended_by_the_loader(kernel: Kernel) -> Kernel:
    """The role that has no more to load ends its ring's barriers."""
    ring = kernel.pipelines[0]
    assert ring.empty is not None
    ends = InvalidateBarriers((ring.full, ring.empty))
    change = instead(Branch, lambda b: replace(b, body=(*b.body, ends)))
    return edited(kernel, change, "load_x")


def run_by_every_lane(kernel: Kernel) -> Kernel:
    """All 32 lanes run the body of a role for one."""
    block = (Const(32), integers.ONE, integers.ONE)
    return with_role(kernel, "load_x", partial(replace, elected=False, block=block))


def to_own_turn(kernel: Kernel) -> Kernel:
    """Groups hand on to themselves."""
    own = Symbol(BLOCK_TYPES[1].name, low=0, extent=Const(2))
    return edited(
        kernel, instead(ArriveByWarp, lambda r: replace(r, stage=own), barrier="compute_main_turn")
    )
