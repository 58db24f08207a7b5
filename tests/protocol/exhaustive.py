"""Every interleaving of a skeleton, one by one: what the machine's conclusions are held against.

A skeleton is right if all interleavings end, and if each step sees the same in all of them: a wait
the phase that lets it pass, an arrival the phase in which it counts, a read what was last written.
Copies land as steps of their own, at any time.
"""

from dataclasses import dataclass, field, replace

from warpsmith.protocol.skeleton import Kind, Skeleton

LIMIT = 30_000
"""States beyond which a skeleton is too large to be searched."""


class TooLargeError(Exception):
    """More than `LIMIT` states."""


@dataclass(frozen=True)
class Barrier:
    """Phases that are over, arrivals of the current one, and bytes on their way.

    `loaded` is one more than the latest phase with a copy.
    """

    done: int = 0
    arrived: int = 0
    bytes: int = 0
    loaded: int = 0


@dataclass(frozen=True)
class Content:
    """Who filled a place, who wrote to it since, and whether copies are on their way."""

    fill: tuple[int, int, int] | None = None
    writers: frozenset[tuple[int, int]] = frozenset()
    flying: int = 0


@dataclass(frozen=True)
class State:
    """Of a run: where actors stand, and copies that have not landed."""

    at: tuple[int, ...]
    barriers: tuple[Barrier, ...]
    places: tuple[Content, ...]
    copies: frozenset[tuple[int, int, int, int, int]] = frozenset()


@dataclass
class Search:
    """Walks all states; `wrong` says why the skeleton is, if it is."""

    skeleton: Skeleton
    wrong: str = ""
    seen: dict[tuple[int, int], object] = field(default_factory=dict)
    waited: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> bool:
        """Whether the skeleton is right."""
        skeleton = self.skeleton
        start = State(
            (0,) * len(skeleton.actors),
            tuple(Barrier() for _ in skeleton.barriers),
            tuple(Content() for _ in skeleton.places),
        )
        known, pending, ends = {start}, [start], []
        while pending and not self.wrong:
            state = pending.pop()
            nexts = self._nexts(state)
            if not nexts:
                ends.append(state)
            for following in nexts:
                if following not in known:
                    known.add(following)
                    pending.append(following)
            if len(known) > LIMIT:
                raise TooLargeError
        for state in ends:
            self._check_end(state)
        return not self.wrong

    def _check_end(self, state: State) -> None:
        if any(at < len(a.steps) for at, a in zip(state.at, self.skeleton.actors, strict=True)):
            self.wrong = self.wrong or "stuck"
        for number, barrier in enumerate(state.barriers):
            if barrier.arrived or barrier.bytes:
                self.wrong = self.wrong or "left over"
            if barrier.loaded and (number, barrier.loaded - 1) not in self.waited:
                self.wrong = self.wrong or "unawaited"

    def _nexts(self, state: State) -> list[State]:
        result = []
        for actor in range(len(state.at)):
            following = self._step(state, actor)
            if following is not None:
                result.append(following)
        for copy in state.copies:
            result.append(self._land(state, copy))
        return result

    def _land(self, state: State, copy: tuple[int, int, int, int, int]) -> State:
        place, barrier, amount = copy[2:]
        content = state.places[place]
        places = _with(state.places, place, replace(content, flying=content.flying - 1))
        state = replace(state, places=places, copies=state.copies - {copy})
        return self._changed(state, barrier, bytes_=-amount)

    def _see(self, actor: int, at: int, what: object) -> None:
        if self.seen.setdefault((actor, at), what) != what:
            self.wrong = self.wrong or f"actor {actor} step {at} sees different things"

    def _changed(self, state: State, number: int, arrivals: int = 0, bytes_: int = 0) -> State:
        """Arrivals and bytes at a barrier, whose phase may end."""
        barrier, count = state.barriers[number], self.skeleton.barriers[number].count
        arrived, due = barrier.arrived + arrivals, barrier.bytes + bytes_
        loaded = barrier.loaded
        if arrived > count:
            self.wrong = self.wrong or "too many arrivals"
        if arrived == count and due == 0:
            barrier = Barrier(barrier.done + 1, 0, 0, loaded)
        else:
            barrier = Barrier(barrier.done, arrived, due, loaded)
        return replace(state, barriers=_with(state.barriers, number, barrier))

    def _step(self, state: State, actor: int) -> State | None:
        who, at = self.skeleton.actors[actor], state.at[actor]
        if at == len(who.steps):
            return None
        step = who.steps[at]
        moved = replace(state, at=_with(state.at, actor, at + 1))
        if step.kind in (Kind.AWAIT, Kind.ARRIVE, Kind.EXPECT):
            barrier = state.barriers[step.place]
            if step.kind == Kind.AWAIT:
                if barrier.done & 1 == step.amount:
                    return None
                self._see(actor, at, barrier.done - 1)
                self.waited.add((step.place, barrier.done - 1))
                return moved
            self._see(actor, at, barrier.done)
            if step.kind == Kind.ARRIVE:
                return self._changed(moved, step.place, step.amount * who.weight)
            arrivals = step.arrivals * who.weight
            barriers = _with(
                moved.barriers, step.place, replace(barrier, bytes=barrier.bytes + step.amount)
            )
            moved = replace(moved, barriers=barriers)
            return self._changed(moved, step.place, arrivals) if arrivals else moved
        return self._touch(moved, actor, at)

    def _touch(self, state: State, actor: int, at: int) -> State:
        step = self.skeleton.actors[actor].steps[at]
        if step.kind == Kind.FENCE:
            return state
        content = state.places[step.place]
        if step.kind == Kind.LOAD:
            done = state.barriers[step.barrier].done
            self._see(actor, at, (done, content.fill, content.writers))
            if content.flying:
                self.wrong = self.wrong or "filled while it is filled"
            content = Content((actor, at, done), flying=1)
            copy = (actor, at, step.place, step.barrier, step.amount)
            marked = replace(state.barriers[step.barrier], loaded=done + 1)
            return replace(
                state,
                places=_with(state.places, step.place, content),
                copies=state.copies | {copy},
                barriers=_with(state.barriers, step.barrier, marked),
            )
        if content.flying:
            self.wrong = self.wrong or "touched while it is filled"
        if step.kind == Kind.READ:
            self._see(actor, at, (content.fill, content.writers))
            if content.fill is None and not content.writers:
                self.wrong = self.wrong or "read before it is filled"
            return state
        assert step.kind == Kind.WRITE
        self._see(actor, at, content.fill)
        writers = frozenset(w for w in content.writers if w[0] != actor) | {(actor, at)}
        content = replace(content, writers=writers)
        return replace(state, places=_with(state.places, step.place, content))


def _with(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])
