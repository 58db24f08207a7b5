"""What must hold where barriers, blocks and a run end: nobody waits, and nothing is left behind.

A block ends when the last of its actors does. So it is enough that one of them knows, at its end,
of all that other blocks did in it: of copies by a wait for their bytes, of arrivals by a wait or a
meeting. Those of the latest two phases of a barrier know of all before.
"""

from __future__ import annotations

from warpsmith.protocol.rules import Rule
from warpsmith.protocol.skeleton import Async
from warpsmith.protocol.states import BarrierState, Clock
from warpsmith.protocol.uses import Uses


class Ends(Uses):
    """The rules of ends."""

    def finish(self) -> None:
        """Check what must hold when nobody can take another step.

        Raises:
            Broken: somebody waits forever, or leaves something behind.
        """
        waiting = [n for n, actor in enumerate(self.actors) if actor.at < actor.end]
        if waiting:
            self._stuck(waiting)
        for number, actor in enumerate(self.actors):
            for sort in reversed(Async):
                left = [*actor.open[sort], *(p for g in actor.groups[sort] for p in g)]
                if left:
                    verb = "committed" if actor.open[sort] else "awaited"
                    got = f"{sort.words} are not {verb} at the end"
                    self._broken(number, Rule.GROUPS, got, place=left[0])
        for number, barrier in enumerate(self.barriers):
            if barrier.alive:
                self._check_left(number, barrier)
        if self.skeleton.blocks > 1:
            self._check_leaving()

    def _check_leaving(self) -> None:
        """Each block has an actor that knows of the last arrivals from others when it ends."""
        for number, (stage, barrier) in enumerate(
            zip(self.skeleton.barriers, self.barriers, strict=True)
        ):
            own = [
                state.clock
                for actor, state in zip(self.skeleton.actors, self.actors, strict=True)
                if actor.block == stage.block
            ]
            for done, phase in ((-1, barrier.previous), (0, barrier.current)):
                late = tuple(
                    actor
                    for actor, stamp in phase.arrivals.items()
                    if self.skeleton.actors[actor].block != stage.block
                    and all(clock[actor] < stamp for clock in own)
                )
                if late:
                    self._broken(
                        -1,
                        Rule.LEAVING,
                        f"block {stage.block} of the cluster may end before others arrive there",
                        "blocks meet before they end, or somebody waits for the phase",
                        others=late,
                        barrier=number,
                        phase=barrier.done + done,
                    )

    def _end(self, number: int, clock: Clock, at: int) -> None:
        barrier = self.barriers[at]
        if not barrier.alive:
            self._not_alive(number, at)
        phase = barrier.previous
        late = [a for a, s in phase.waits.items() if clock[a] < s]
        late += [a for a, s in barrier.current.arrivals.items() if clock[a] < s]
        if late or not phase.known(clock):
            self._broken(
                number,
                Rule.LIFETIME,
                "it is invalidated while it may be in use",
                "all actors are done with it before",
                barrier=at,
                phase=barrier.done,
                others=tuple(late),
            )
        self._check_left(at, barrier)
        barrier.alive = False

    def _check_left(self, number: int, barrier: BarrierState) -> None:
        """Nothing may be left of a barrier's last phases when it ends."""
        phase, last = barrier.current, barrier.previous
        if phase.copied != phase.expected:
            self._bytes(-1, number)
        if phase.arrived:
            self._broken(
                -1,
                Rule.ARRIVALS,
                f"its last phase, {barrier.done}, gets {phase.arrived} arrivals",
                f"its barrier counts {barrier.count}",
                barrier=number,
                phase=barrier.done,
            )
        if last.copied and not last.seen:
            self._broken(
                -1,
                Rule.UNAWAITED,
                f"nobody waits for the {last.copied} bytes of phase {barrier.done - 1}",
                "a copy may land after the block has ended",
                barrier=number,
                phase=barrier.done - 1,
                others=tuple(last.arrivals),
            )
