"""What is wrong with a kernel, in words, with the shortest run that shows it.

Every run in which an actor takes the step that breaks a rule has, before it, the steps that come
before that step, and needs no others. So these, and the step, are the shortest run; a deadlock is
reached by every run, and shown by what each actor did last and waits for.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.pipelines import Pipeline, with_contents
from warpsmith.protocol.machine import Machine, Past
from warpsmith.protocol.rules import Break, Broken, Rule
from warpsmith.protocol.skeleton import Async, Kind, Skeleton, Step
from warpsmith.values import dataclass

MOST_LINES = 24
"""Of a run; the middle of longer ones is left out."""


@dataclass(frozen=True, slots=True)
class Told:
    """A break with the skeleton and run that show it.

    Attributes:
        where: sizes and block, in words.
    """

    found: Break
    skeleton: Skeleton | None = None
    history: Sequence[Past] = ()
    where: str = ""


def history_of(skeleton: Skeleton) -> tuple[Break, Sequence[Past]] | None:
    """How a skeleton breaks a rule, and the steps until then; None if it does not."""
    machine = Machine(skeleton, fair=True)
    try:
        while machine.round():
            pass
        machine.finish()
    except Broken as broken:
        return broken.found, machine.history + _last(machine, broken.found)
    return None


def error_of(kernel: Kernel, told: Told) -> ProtocolError:
    """The error to raise."""
    words = _Words(kernel, told)
    found = told.found
    ring = words.ring
    about = words.about()
    roles = words.roles()
    who = f" ({'role' if len(roles) == 1 else 'roles'} {', '.join(roles)})" if roles else ""
    message = f"{about}{who}: {found.got}; the rule is that {found.rule.words}"
    if found.phase is not None and f"phase {found.phase}" not in message:
        message = message.replace(about, f"{about} phase {found.phase}", 1)
    if found.wanted and found.wanted != found.rule.words:
        message += f" ({found.wanted})"
    if ring is not None and ring.where:
        message += f"; the ring is asked for at {ring.where}"
    return ProtocolError(
        message,
        code=found.rule.code,
        rule=found.rule.words,
        ring=words.name,
        roles=roles,
        stage=words.stage,
        phase=found.phase,
        run=words.run(),
        remedy=words.remedy(),
    )


def _last(machine: Machine, found: Break) -> list[Past]:
    """The step at which a run stopped."""
    if found.actor < 0:
        return []
    actor = machine.actors[found.actor]
    if actor.at >= actor.end:
        return []
    return [Past(found.actor, actor.steps[actor.at], actor.clock[found.actor], found.phase)]


class _Words:
    """Names for the numbers of a break."""

    def __init__(self, kernel: Kernel, told: Told) -> None:
        self._kernel = kernel
        self._told = told
        self._skeleton = told.skeleton
        found = told.found
        buffer = found.buffer
        self.stage: int | None = None
        self._block = 0
        if self._skeleton is not None and found.place >= 0:
            place = self._skeleton.places[found.place]
            buffer, self.stage, self._block = place.buffer, place.stage, place.block
        elif self._skeleton is not None and found.barrier >= 0:
            stage = self._skeleton.barriers[found.barrier]
            buffer, self.stage, self._block = stage.name, stage.stage, stage.block
        self._buffer = buffer
        self.ring = next((p for p in with_contents(kernel.pipelines) if buffer in _names(p)), None)
        self.name = self.ring.name if self.ring is not None else buffer

    def about(self) -> str:
        """What the message is about."""
        if not self._buffer:
            return f"kernel {self._kernel.name}"
        name = self._barrier_name(self._buffer)
        if self.ring is not None and name == self._buffer:
            name = f"{self.ring.name}, {name}"
        return name if self.stage is None else f"{name}[{self.stage}]{self._of(self._block)}"

    def _of(self, block: int) -> str:
        """Which block of a cluster something lies in, where there are several."""
        several = self._skeleton is not None and self._skeleton.blocks > 1
        return f" of block {block}" if several else ""

    def roles(self) -> tuple[str, ...]:
        """Names of the roles that take part; none in a kernel without roles."""
        found = self._told.found
        names = list(found.roles)
        if self._skeleton is not None:
            actors = [a for a in (found.actor, *found.others) if a >= 0]
            names += [self._skeleton.actors[a].role for a in actors]
        if self.ring is not None:
            names += [self.ring.producer, *self.ring.consumers]
        return tuple(dict.fromkeys(name for name in names if name))

    def remedy(self) -> str:
        """A known cause, where the ring shows one."""
        ring = self.ring
        share = None if ring is None else integers.constant(ring.groups.share)
        if ring is None or ring.owners == 1 or share is None:
            return ""
        turn = ring.owners * share
        if ring.stages % turn == 0:
            return ""
        return (
            f"{ring.owners} groups take turns of {share} in {ring.stages} stages: use a "
            f"multiple of {turn}, so that each stage belongs to one group"
        )

    def run(self) -> tuple[str, ...]:
        """The run, a line a step."""
        found, history = self._told.found, self._told.history
        if self._skeleton is None or not history:
            return ()
        if found.actor >= 0 and found.clock:
            history = [
                past
                for past in history
                if past.actor == found.actor or past.stamp <= found.clock[past.actor]
            ]
        brief = found.rule not in (Rule.LIFETIME, Rule.MEETING)
        lines = [self._line(p) for p in history if not (brief and self._is_prologue(p.step))]
        if found.rule is Rule.DEADLOCK or (found.actor < 0 and found.barrier >= 0):
            lines += self._waits()
        elif lines:
            lines[-1] += "   <- here"
            lines += self._behind()
        if len(lines) > MOST_LINES:
            start, end = lines[: MOST_LINES // 4], lines[-3 * MOST_LINES // 4 :]
            lines = [*start, f"... {len(lines) - len(start) - len(end)} steps ...", *end]
        where = [self._told.where] if self._told.where else []
        return tuple(f"  {line}" for line in (*where, *lines))

    def _is_prologue(self, step: Step) -> bool:
        """Whether every actor does it before its role starts."""
        assert self._skeleton is not None
        if step.kind != Kind.MEET:
            return step.kind in (Kind.BEGIN, Kind.END)
        return len(self._skeleton.meetings[step.place].actors) == len(self._skeleton.actors)

    def _behind(self) -> list[str]:
        """Where the others may still stand."""
        assert self._skeleton is not None
        found, lines = self._told.found, []
        for other in dict.fromkeys(found.others) if found.clock else ():
            late = (p for p in self._told.history if p.actor == other)
            step = next((p for p in late if p.stamp > found.clock[other]), None)
            if step is not None and other != found.actor:
                name = self._skeleton.actors[other].name
                lines.append(f"{name}: may be before this: {self._step(step.step, step.phase)}")
        return lines

    def _waits(self) -> list[str]:
        """What the actors that are not done wait for."""
        assert self._skeleton is not None
        machine = Machine(self._skeleton, fair=True)
        try:
            while machine.round():
                pass
        except Broken:
            return []
        lines = []
        for actor, state in zip(self._skeleton.actors, machine.actors, strict=True):
            if state.at < state.end:
                step = state.steps[state.at]
                lines.append(
                    f"{actor.name}: {self._step(step, self._open(machine, step))} ... waits"
                )
            else:
                lines.append(f"{actor.name}: done")
        return lines

    def _open(self, machine: Machine, step: Step) -> int | None:
        return machine.barriers[step.place].done if step.kind == Kind.AWAIT else None

    def _line(self, past: Past) -> str:
        assert self._skeleton is not None
        passes = " ... passes" if past.step.kind == Kind.AWAIT else ""
        return (
            f"{self._skeleton.actors[past.actor].name}: {self._step(past.step, past.phase)}{passes}"
        )

    def _step(self, step: Step, phase: int | None) -> str:
        """One step in words."""
        of = "" if phase is None else f" phase {phase}"
        match step.kind:
            case Kind.AWAIT:
                return f"await {self._barrier(step.place)}{of} (parity {step.amount})"
            case Kind.ARRIVE:
                times = f" {step.amount} times a warp" if step.amount > 1 else ""
                return f"arrive at {self._barrier(step.place)}{of}{times}"
            case Kind.EXPECT:
                arrive = "arrive and " if step.arrivals else ""
                return f"{arrive}expect {step.amount} bytes at {self._barrier(step.place)}{of}"
            case Kind.LOAD:
                at = self._barrier(step.barrier)
                return f"copy {step.amount} bytes into {self._place(step.place)}, at {at}{of}"
            case Kind.SEND:
                at = self._barrier(step.barrier)
                return f"send {step.amount} bytes to {self._place(step.place)}, at {at}{of}"
            case Kind.READ:
                return f"read {self._place(step.place)}"
            case Kind.WRITE:
                return f"write {self._place(step.place)}"
            case Kind.COPY:
                return f"cp.async into {self._place(step.place)}"
            case Kind.STORE:
                return f"store {self._place(step.place)} by the TMA unit"
            case Kind.MULTIPLY:
                return f"multiply {self._place(step.place)}"
            case Kind.FENCE:
                return "fence for the TMA unit"
            case Kind.COMMIT:
                return f"commit {Async(step.amount).words}"
            case Kind.JOIN:
                return f"await {Async(step.amount).words} but {step.arrivals} groups"
            case Kind.MEET:
                assert self._skeleton is not None
                return f"reach {self._skeleton.meetings[step.place].name}"
            case Kind.BEGIN:
                return f"initialize {self._barrier(step.place, whole=True)}"
            case Kind.END:
                return f"invalidate {self._barrier(step.place, whole=True)}"

    def _barrier(self, number: int, *, whole: bool = False) -> str:
        assert self._skeleton is not None
        stage = self._skeleton.barriers[number]
        name = self._barrier_name(stage.name)
        return f"{name if whole else f'{name}[{stage.stage}]'}{self._of(stage.block)}"

    def _barrier_name(self, buffer: str) -> str:
        for each in with_contents(self._kernel.pipelines):
            for barrier, word in zip(each.barriers, ("full", "empty"), strict=False):
                if barrier.name == buffer:
                    return f"{each.name}.{word}"
        return buffer

    def _place(self, number: int) -> str:
        assert self._skeleton is not None
        place = self._skeleton.places[number]
        return f"{place.buffer}[{place.stage}]{self._of(place.block)}"


def _names(pipeline: Pipeline) -> set[str]:
    """Buffers and barriers of a pipeline."""
    return {*pipeline.names, *(barrier.name for barrier in pipeline.barriers)}
