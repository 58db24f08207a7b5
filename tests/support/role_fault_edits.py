"""Edits that make kernels with roles wrong."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tests.protocol.edits import counting, edited, instead, with_role, without
from tests.support.role_fault_kernels import Change
from tests.support.role_kernels import along
from tests.support.role_parts import STEP, steps
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Symbol
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


def flipped(wait: Await) -> Await:
    return replace(wait, parity=integers.sub(1, wait.parity))


def other(amount: int) -> Callable[[Expect], Expect]:
    return lambda expect: replace(expect, bytes=integers.add(expect.bytes, amount))


def all_but_last(statement: Statement) -> tuple[Statement, ...]:
    """The last iteration does nothing, on this side."""
    if not isinstance(statement, For) or statement.symbol != STEP:
        return (statement,)
    more = integers.less(integers.add(STEP, 1), steps(256))
    return (replace(statement, body=(If(more, statement.body, uniform=True),)),)


def early_release(statement: Statement) -> tuple[Statement, ...]:
    """The stage is given back before it is read."""
    wait, *rest = children(statement) or (statement,)
    release = next((s for s in rest if isinstance(s, ArriveByWarp)), None)
    if release is None:
        return (statement,)
    rest.remove(release)
    return (replace(statement, body=(wait, release, *rest)),)


def skipped_tile(statement: Statement) -> tuple[Statement, ...]:
    """The third tile is neither waited for nor given back, but the cursor counts it."""
    if not isinstance(statement, For) or statement.symbol != STEP:
        return (statement,)
    *work, advance = statement.body
    assert isinstance(advance, Advance)
    third = Apply("eq", (STEP, Const(2)), DataType.Bool)
    taken = Apply("eq", (third, Const(0)), DataType.Bool)
    return (replace(statement, body=(If(taken, tuple(work), uniform=True), advance)),)


def parted(statement: ArriveByWarp | Await) -> If:
    """Half of the threads."""
    half = integers.less(Symbol(BLOCK_TYPES[0].name, low=0), 128)
    return If(half, (statement,))


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


def released_at_the_start(kernel: Kernel) -> Kernel:
    """All stages are given back before the first use; the producer takes them as free, too."""
    ring = kernel.pipelines[0]
    assert ring.empty is not None
    stage = Symbol("s", low=0, extent=Const(ring.stages))
    releases = For(stage, Const(ring.stages), (ArriveByWarp(ring.empty, stage),), unroll=True)

    def change(statement: Statement) -> tuple[Statement, ...]:
        if isinstance(statement, Branch):
            return (replace(statement, body=(releases, *statement.body)),)
        return (statement,)

    return edited(kernel, change, "add")


def one_after_the_other(kernel: Kernel) -> Kernel:
    """One role fills all of ring0 before it fills ring1, and the other uses both by turns."""
    first, second, third = (s for s in kernel.body if isinstance(s, Branch))
    joined = replace(first, body=(*first.body, *second.body))
    start = tuple(s for s in kernel.body if not isinstance(s, Branch))
    return replace(kernel, body=(*start, joined, third))


def two_producers(kernel: Kernel) -> Kernel:
    """Copies for ring1 go to the stages of ring0."""
    tile = next(b for b in kernel.shared if b.name == "ring0_tile")
    return edited(kernel, instead(TileCopy, lambda c: replace(c, shared=tile)), "load_y")


def without_meeting(kernel: Kernel) -> Kernel:
    return replace(kernel, body=tuple(s for s in kernel.body if not isinstance(s, Synchronize)))


def meeting_of_the_block(kernel: Kernel) -> Kernel:
    """The adding threads meet at the end of each tile, by the block's barrier."""
    met = instead(ArriveByWarp, lambda r: (Synchronize("a test"), r), barrier="ring0_empty")
    return edited(kernel, met)


def idle_arriving(kernel: Kernel) -> Kernel:
    """Two more warps run `add` than its barriers count."""
    kernel = replace(kernel, launch=replace(kernel.launch, block=along(448)))
    return with_role(kernel, "add", partial(replace, block=along(320)))


def with_registers(loads: int | None, other_loads: int | None, adds: int) -> Change:
    """The roles of `ADDING` have so many registers a thread."""

    def change(kernel: Kernel) -> Kernel:
        given = {"load_x": loads, "load_y": other_loads, "add": adds}
        for name, count in given.items():
            if count is not None:
                kernel = with_role(kernel, name, partial(replace, registers=count))
        return kernel

    return change


def counts(barrier: str, count: int) -> Change:
    """A barrier counts something else."""
    return partial(counting, barrier=barrier, count=count)


def agent(name: str, **fields: object) -> Change:
    """A role has other fields."""
    return partial(with_role, name=name, change=partial(replace, **fields))
