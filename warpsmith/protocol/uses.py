"""What actors do to places, and who may: one writes only what others are done with.

Accesses of one place must be ordered, if one of them writes. Asynchronous ones, stores and products
among them, are under way until their group is awaited.
"""

from __future__ import annotations

from warpsmith.protocol.breaks import Breaks
from warpsmith.protocol.skeleton import Async, Step
from warpsmith.protocol.states import PENDING, ActorState, PlaceState


class Uses(Breaks):
    """The rules of places."""

    def _read(self, number: int, actor: ActorState, at: int, place: PlaceState) -> None:
        clock = actor.clock
        fill = place.fill
        if not place.filled or (
            fill is not None and number not in fill.seen and not fill.known(clock)
        ):
            self._unfilled(number, at)
        if place.writes:
            private = self.skeleton.places[at].private
            for other, stamp in place.writes.items():
                if clock[other] < stamp and (other == number or not private):
                    self._unfilled(number, at, (other,))
        place.reads[number] = clock[number]
        if self.skeleton.places[at].by_tma:
            actor.unfenced.add(at)
            place.fences.pop(number, None)

    def _write(self, number: int, actor: ActorState, at: int, stamp: int) -> None:
        place = self.places[at]
        self._free(number, at, by_tma=False)
        place.filled = True
        place.writes[number] = stamp
        if self.skeleton.places[at].by_tma:
            actor.unfenced.add(at)
            place.fences.pop(number, None)
            place.shown.pop(number, None)

    def _store(self, number: int, actor: ActorState, at: int) -> None:
        """The TMA unit reads a place: all writes are known, and fenced by those who wrote."""
        place, clock = self.places[at], actor.clock
        if not place.filled or (place.fill is not None and not place.fill.known(clock)):
            self._unfilled(number, at)
        for other, stamp in place.writes.items():
            if clock[other] < stamp:
                self._unfilled(number, at, (other,))
            if clock[other] < place.shown.get(other, PENDING):
                self._unfenced(number, at, other, "writes, and the TMA unit reads it")
        self._begun(number, actor, at, Async.STORES)

    def _multiply(self, number: int, actor: ActorState, at: int) -> None:
        """Tensor cores read a place: it is filled, and fenced by those who wrote."""
        place, clock = self.places[at], actor.clock
        fill = place.fill
        if not place.filled or (
            fill is not None and number not in fill.seen and not fill.known(clock)
        ):
            self._unfilled(number, at)
        for other, stamp in place.writes.items():
            if clock[other] < stamp:
                self._unfilled(number, at, (other,))
            if clock[other] < place.shown.get(other, PENDING):
                what, unit = "writes, and a product reads it", "tensor cores"
                self._unfenced(number, at, other, what, unit)
        self._begun(number, actor, at, Async.PRODUCTS)

    def _begun(self, number: int, actor: ActorState, at: int, sort: Async) -> None:
        """Something goes on by itself, until a group of it is awaited."""
        under_way, latest = self.places[at].asynchronous(sort)
        under_way[number] = under_way.get(number, 0) + 1
        latest[number] = PENDING
        actor.open[sort].append(at)

    def _awaited(self, number: int, actor: ActorState, step: Step) -> None:
        """Groups are over, all but the latest few."""
        sort, stamp = step.amount, actor.clock[number]
        groups = actor.groups[sort]
        while len(groups) > step.arrivals:
            for at in groups.pop(0):
                under_way, latest = self.places[at].asynchronous(sort)
                under_way[number] -= 1
                if not under_way[number]:
                    del under_way[number]
                    latest[number] = stamp
                if sort == Async.COPIES and self.skeleton.places[at].by_tma:
                    actor.unfenced.add(at)

    def _free(self, number: int, at: int, *, by_tma: bool) -> None:
        """A place may be written: whoever used it, or one that overlaps it, is done."""
        self._done_with(number, at, at, by_tma)
        for other in self.skeleton.places[at].overlaps:
            self._done_with(number, other, at, by_tma)

    def _fill_too(self, number: int, at: int) -> None:
        """Another one fills a place in the same phase: it, too, knows that all uses are over."""
        place, actor = self.places[at], self.actors[number]
        for other, stamp in place.past.items():
            if actor.clock[other] < stamp:
                self._overwritten(number, at, at, (other,), "a use")
            fence = place.past_fences.get(other, PENDING)
            if actor.fenced[other] < stamp and actor.clock[other] < fence:
                self._unfenced(number, at, other, "uses, and st.async writes it next")
        place.filler = number

    def _done_with(self, number: int, at: int, mine: int, by_tma: bool) -> None:
        place, actor = self.places[at], self.actors[number]
        clock, private = actor.clock, self.skeleton.places[at].private and not by_tma
        if place.fill is not None and not place.fill.known(clock):
            self._overwritten(number, mine, at, (place.filler,), "a copy that fills it")
        for other, stamp in place.reads.items():
            if clock[other] < stamp and not private:
                self._overwritten(number, mine, at, (other,), "a read")
        for other, stamp in place.stores.items():
            if clock[other] < stamp:
                self._overwritten(number, mine, at, (other,), "a store by the TMA unit")
        for other, stamp in place.products.items():
            if clock[other] < stamp:
                self._overwritten(number, mine, at, (other,), "a product that reads it")
        if not by_tma and at == mine:
            return
        for other, stamp in place.writes.items():
            if clock[other] < stamp:
                self._overwritten(number, mine, at, (other,), "a write")
        if by_tma:
            for used in (place.reads, place.writes):
                for other, stamp in used.items():
                    fence = place.fences.get(other, PENDING)
                    if actor.fenced[other] < stamp and clock[other] < fence:
                        self._unfenced(number, mine, other, "uses, and the TMA unit writes it next")
