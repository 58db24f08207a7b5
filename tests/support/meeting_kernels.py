"""Small kernels in which each way of writing shared memory meets each way of reading it.

As lowering makes them before `lower_pipelines`, in no order. Each moves tiles through one shared
buffer: a write, then a read of what was written (read after write), and the next write of the same
stage (write after read). No two writes meet without a read between: lowering gives a stage one
writer, and what it wrote is read before the stage is written again.
"""

from dataclasses import dataclass, replace

from tests.support.by_hand import kernel_of, launch_of
from tests.support.meeting_parts import (
    FLOAT,
    READERS,
    SUMS,
    THREADS,
    TILE,
    WRITERS,
    Body,
    Place,
    kept,
    product,
)
from tests.support.role_parts import block_threads, single
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, If, Statement
from warpsmith.kernel.pipelines import Content, Drain, Fill, OneStage, Pipeline
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.passes.lower_pipelines import lower_pipelines
from warpsmith.lower.passes.order import order
from warpsmith.lower.pipelines.carriers import carrier

I = Symbol("i0", low=0)  # noqa: E741


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """One kernel of the suite.

    Attributes:
        writer, reader: names of `WRITERS` and `READERS`; more than one where the statements follow
            each other without a loop, each pair with a tile of its own.
        stages: of the shared buffer.
        ahead: iterations that fills run ahead; None where lowering makes no `Fill`.
        roles: whether writer and reader are roles of their own.
        adds: products of all tiles are added up in the same registers.
        straight: each turn is written out, and no loop turns.
        turns: tiles.
    """

    writer: str
    reader: str
    stages: int = 1
    ahead: int | None = None
    roles: bool = False
    adds: bool = False
    straight: tuple[tuple[str, str], ...] = ()
    turns: int = 4

    @property
    def name(self) -> str:
        if self.straight:
            return "once: " + ", then ".join(f"{w} to {r}" for w, r in self.straight)
        words = [f"{self.writer} to {self.reader}"]
        words += [f"{self.stages} stages"] if self.stages > 1 else []
        words += [f"{self.ahead} ahead"] if self.ahead else []
        words += ["added up"] if self.adds else []
        words += ["between roles"] if self.roles else []
        return ", ".join(words)

    @property
    def place(self) -> Place:
        return Place(stages=self.stages, turns=len(self.straight) or self.turns)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return self.straight or ((self.writer, self.reader),)


def unordered_kernel(meeting: Meeting) -> Kernel:
    """As lowering would make it, before its passes."""
    place = meeting.place
    body, threads = _branches(meeting) if meeting.roles else (_whole(meeting), Const(THREADS))
    own = all(reader == "own load" for _, reader in meeting.pairs)
    return kernel_of(
        *body,
        launch=launch_of(threads),
        parameters=(place.given, place.results),
        shared=(place.shared,),
        exchanged=frozenset() if own else frozenset(("S",)),
        pipelines=_pipelines(meeting, body),
    )


def _pipelines(meeting: Meeting, body: Body) -> tuple[Pipeline, ...]:
    """That of the shared buffer, where stages are filled or stored."""
    if not _has_stages(body):
        return ()
    shared = meeting.place.shared
    fills = tuple(s for s in walk(body) if isinstance(s, Fill))
    known = Pipeline(
        name="S",
        stages=meeting.stages,
        contents=(Content(shared, TILE),),
        by=carrier(shared, fills),
        prefetch=_ahead(meeting) or 0,
    )
    if not meeting.roles:
        return (known,)
    return (replace(known, producer="write", consumers=("read",)),)


def _has_stages(body: Body) -> bool:
    return any(isinstance(s, Fill | Drain) for s in walk(body))


def _ahead(meeting: Meeting) -> int | None:
    ahead = 0 if meeting.writer == "TMA load" else None
    return ahead if meeting.ahead is None else meeting.ahead


def planned_kernel(meeting: Meeting) -> Kernel:
    """What the passes of lowering make of it, up to those that order."""
    ordered = order(lower_pipelines(unordered_kernel(meeting)))
    return lay_out_shared(collect_maps(ordered))


# --- bodies ------------------------------------------------------------------------------------


def _whole(meeting: Meeting) -> Body:
    place = meeting.place
    if meeting.straight:
        turns: list[Statement] = []
        for number, (writer, reader) in enumerate(meeting.straight):
            one, turn = replace(meeting, writer=writer, reader=reader), integers.index(number)
            # registers of each turn are in a scope of their own
            turns.append(If(integers.TRUE, (*_written(one, turn), *_read(one, turn)), uniform=True))
        return tuple(turns)
    body = (*_written(meeting, I), *_read(meeting, I))
    loop = For(I, Const(place.turns), body, False, ("S",) if _has_stages(body) else ())
    return _around(meeting, loop)


def _written(meeting: Meeting, turn: object) -> Body:
    place = meeting.place
    body = WRITERS[meeting.writer](place, integers.index(turn))  # type: ignore[arg-type]
    ahead = _ahead(meeting)
    return body if ahead is None else (Fill("S", body),)


def _read(meeting: Meeting, turn: object) -> Body:
    place = meeting.place
    if meeting.adds:
        return (product(place, _sums(), integers.less(0, I)),)
    body = READERS[meeting.reader](place, integers.index(turn))  # type: ignore[arg-type]
    if meeting.reader != "TMA store":
        return body
    return (Drain("S", body),)


def _around(meeting: Meeting, loop: For) -> Body:
    """The loop, with the sums of all its products where they are added up."""
    if not meeting.adds:
        return (loop,)
    return Declare(_sums()), loop, kept(meeting.place, _sums(), integers.ZERO)


def _sums() -> Buffer:
    return Buffer("sums", FLOAT, MemoryType.local, Const(SUMS))


def _branches(meeting: Meeting) -> tuple[Body, Const]:
    """A role that fills stages and one that uses them; those of the TMA unit have one thread."""
    fills = single("write", 0) if meeting.writer == "TMA load" else _many("write", 0, 1)
    at = 4 if not fills.elected or meeting.reader != "TMA store" else 1
    uses = single("read", at) if meeting.reader == "TMA store" else _many("read", at, 2)
    place = meeting.place
    ahead = replace(meeting, ahead=meeting.ahead or 0)
    written = For(I, Const(place.turns), (OneStage(("S",), _written(ahead, I)),), False)
    loop = For(I, Const(place.turns), (OneStage(("S",), _read(meeting, I)),), False)
    roles = (fills, uses)
    if fills.elected and uses.elected:
        roles = (fills, uses)
    elif uses.elected:  # single warps come first
        fills, uses = replace(fills, first_warp=4), replace(uses, first_warp=0)
        roles = (uses, fills)
    bodies: dict[str, Body] = {fills.name: (written,), uses.name: _around(meeting, loop)}
    branches: list[Statement] = [Branch(agent, bodies[agent.name]) for agent in roles]
    threads = integers.constant(block_threads(roles))
    assert threads is not None
    return tuple(branches), Const(threads)


def _many(name: str, first_warp: int, barrier: int) -> Agent:
    one = integers.ONE
    return Agent(name, first_warp, (Const(THREADS), one, one), barrier=barrier)
