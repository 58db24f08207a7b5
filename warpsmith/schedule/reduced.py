"""Which dimensions were reduced before each tensor of a fusion, and are not there (again)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.readers import readers_of
from warpsmith.ir.tensor import Operation, TensorView

Groups = frozenset[Group]

Dimension = tuple[TensorView, int]
"""A tensor, and the position of one of its dimensions."""

_NONE: Groups = frozenset()

T = TypeVar("T")


class Reduced:
    """What was reduced on the ways to each tensor of a fusion, as it stands now.

    What is found on the ways to one tensor, or from it, is kept for the others on these ways, so
    that asking for every tensor takes time linear in their number.
    """

    def __init__(self, fusion: Fusion, domains: DomainMap) -> None:
        self._domains = domains
        self._makers = {out: op for op in fusion.operations for out in op.outputs}
        self._readers = readers_of(fusion.operations)
        self._up_to: dict[Operation, Groups] = {}
        self._later: dict[TensorView, Groups] = {}
        self._new: set[Dimension] = set()
        self._not_new: set[Dimension] = set()

    def before(self, tensor: TensorView) -> set[Group]:
        """Groups that were reduced on a way to the tensor and that it does not have (again).

        It has, too, what its own ones give by splits and merges, as a reshape's root has.
        """
        group_of = self._domains.group
        axes = (*tensor.root, *tensor.logical)
        own = {group_of(axis) for axis in axes if not axis.is_broadcast}
        gone = set(self._reduced(tensor) - own)
        for position, axis in enumerate(tensor.shape_axes):
            group = group_of(axis)
            if group in gone and self._is_new(tensor, position) and group in self._widened(tensor):
                gone.discard(group)
        if not gone:
            return gone
        derivation = Derivation(self._domains, dict.fromkeys(own, integers.ZERO))
        return {group for group in gone if not derivation.reaches(group)}

    def _reduced(self, tensor: TensorView) -> Groups:
        """Groups that the tensor's definition, or what comes before it, reduces."""
        maker = self._makers.get(tensor)
        if maker is None:
            return _NONE
        return _gathered(maker, self._before, self._reductions, self._up_to)

    def _before(self, operation: Operation) -> list[Operation]:
        return [self._makers[t] for t in tensor_inputs(operation) if t in self._makers]

    def _reductions(self, operation: Operation) -> Groups:
        axes = (a for out in operation.outputs for a in (*out.root, *out.logical))
        return frozenset(self._domains.group(axis) for axis in axes if axis.is_reduction)

    def _widened(self, tensor: TensorView) -> Groups:
        """Groups along which something computed of a tensor, or it, has more than one element."""
        return _gathered(tensor, self._computed_of, self._concrete, self._later)

    def _computed_of(self, tensor: TensorView) -> list[TensorView]:
        return [out for reader in self._readers.get(tensor, ()) for out in reader.outputs]

    def _concrete(self, tensor: TensorView) -> Groups:
        return frozenset(self._domains.group(a) for a in tensor.logical if not a.is_broadcast)

    def _is_new(self, tensor: TensorView, position: int) -> bool:
        """Whether a dimension was made by broadcasts alone, and is none of an input."""
        pending, seen = [(tensor, position)], {(tensor, position)}
        while pending:
            found = _origins(*pending.pop())
            if found is None or not self._not_new.isdisjoint(found):
                self._not_new.add((tensor, position))
                return False
            fresh = [each for each in found if each not in seen and each not in self._new]
            pending += fresh
            seen.update(fresh)
        self._new |= seen
        return True


def _origins(tensor: TensorView, position: int) -> list[Dimension] | None:
    """The dimensions that one is, an operation earlier: none of a new one, None of a given one."""
    match tensor.definition:
        case Move(kind="reshape"):
            return []
        case Move(source=source, origin=origin):
            before = origin[position]
            return [] if before is None else [(source, before)]
        case Pointwise(inputs=inputs):
            return [(value, position) for value in inputs if isinstance(value, TensorView)]
        case _:
            return None


def _gathered(
    start: T,
    following: Callable[[T], Sequence[T]],
    own: Callable[[T], Groups],
    known: dict[T, Groups],
) -> Groups:
    """The groups that a node and all that follow it have; `known` keeps those of each."""
    pending = [start]
    while pending:
        node = pending.pop()
        if node in known:
            continue
        after = following(node)
        missing = [each for each in after if each not in known]
        if missing:
            pending += [node, *missing]
        else:
            known[node] = _joined((own(node), *(known[each] for each in after)))
    return known[start]


def _joined(sets: Iterable[Groups]) -> Groups:
    """The union of sets; the largest of them itself where it has all that the others have."""
    given = list(sets)
    largest = max(given, key=len, default=_NONE)
    return largest if all(each <= largest for each in given) else largest.union(*given)
