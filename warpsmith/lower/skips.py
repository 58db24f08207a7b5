"""Iterations that lie outside as a whole: roles skip them, all of them alike.

Where an extent is no multiple of what it is split by, the last iterations of a loop over the grid's
strides may be behind its end for some blocks, or for some groups of warps. No role has anything to
do there. A role that fills a stage and one that uses it must agree, so an iteration is skipped only
where every operation that comes by stages can tell from the same loops; or every one that comes by
those of a pipeline, where a stage of another one is for several such iterations. Blocks of a
cluster may fill stages for each other, so all of them run an iteration in which one has something
to do. That is the one of rank 0, where its index is the least.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.groups import looks_up
from warpsmith.ir.mapping import Group
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import Operation
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.channels import Channels
from warpsmith.lower.threads import CLUSTER


class Skips:
    """The bounds that decide whether an iteration is skipped.

    Args:
        operations: of all roles.
    """

    def __init__(
        self, buffers: Buffers, channels: Channels, operations: Iterable[Operation]
    ) -> None:
        self._buffers = buffers
        rank = buffers.threads.symbols.get(CLUSTER)
        self._first: dict[Expr, Expr] = {} if rank is None else {rank: integers.ZERO}
        self._wholes = self._agreed(channels, list(operations))
        self._inside = self._agreed_inside(channels, list(operations))

    def condition(self, nest: Sequence[Operation], indices: Sequence[Expr]) -> Expr:
        """What must hold of the last of these loop indices, which operations share, for there to be
        anything to do.
        """
        loops = nest[0].outputs[0].loop[: len(indices)]
        known = dict(zip(map(self._buffers.domains.group, loops), indices, strict=True))
        bounds = self._wholes.union(*(self._inside.get(each, ()) for each in nest))
        new = self._bounds(loops) & bounds - self._bounds(loops[:-1])
        derivation = Derivation(self._buffers.domains, known)
        inside = (derivation.worth(whole) for whole in sorted(new))
        found = integers.conjunction(*(substitute(each, self._first) for each in inside))
        stream = self._buffers.threads.stream
        if stream is None or not looks_up(stream.count):
            return found
        below = integers.less(stream.tile, self._buffers.domains.extent(stream.whole))
        asked = (c for c in integers.conjuncts(found) if not looks_up(c) and c != below)
        return integers.conjunction(*asked)  # it counts no tiles without rows

    def _agreed(self, channels: Channels, operations: list[Operation]) -> frozenset[Group]:
        found: frozenset[Group] | None = None
        for operation in operations:
            loops = operation.outputs[0].loop
            for depth in channels.depths(operation):
                bounds = self._bounds(loops[:depth])
                found = bounds if found is None else found & bounds
        agreed = found or frozenset()
        for operation in operations:
            agreed -= self._turned_inside(operation)
            if self._first:
                agreed = frozenset(w for w in agreed if self._is_least(operation, w))
            if channels.takes_turns(operation):
                agreed = frozenset(w for w in agreed if self._ends(operation, w))
        return agreed

    def _agreed_inside(
        self, channels: Channels, operations: list[Operation]
    ) -> dict[Operation, frozenset[Group]]:
        """Bounds inside stages of one pipeline, which all know that come by those of another one,
        by the operations that do: what scales several steps of k comes at once, and each step's
        operands by a stage of their own.
        """
        if self._first or any(map(channels.takes_turns, operations)):
            return {}
        known: dict[str, list[frozenset[Group]]] = {}
        for operation in operations:
            loops = operation.outputs[0].loop
            for name, depth in channels.walked(operation):
                known.setdefault(name, []).append(self._bounds(loops[:depth]))
        agreed = {name: frozenset.intersection(*each) for name, each in known.items()}
        by_some = frozenset(
            bound
            for name, each in known.items()
            for bounds in each
            for bound in bounds - agreed[name]
        )
        by_all = frozenset.intersection(*agreed.values()) if agreed else frozenset()
        return {
            operation: frozenset().union(*(agreed[n] for n, _ in walked)) - by_some - by_all
            for operation in operations
            if (walked := channels.walked(operation))
        }

    def _is_least(self, operation: Operation, whole: Group) -> bool:
        """Whether no block of a cluster has a smaller index than the one of rank 0."""
        loops, domains = operation.outputs[0].loop, self._buffers.domains
        known = {domains.group(axis): self._symbol(axis, p) for p, axis in enumerate(loops)}
        derivation = Derivation(domains, known)
        if not derivation.reaches(whole):
            return True
        ranks = (self._symbol(a, p) for p, a in enumerate(loops) if a.parallel is CLUSTER)
        return all(_least_at_zero(derivation.index(whole), rank) for rank in ranks)

    def _turned_inside(self, operation: Operation) -> frozenset[Group]:
        """Bounds that are known only inside a loop that turns a ring of the role's own."""
        turned: frozenset[Group] = frozenset()
        for output in operation.outputs:
            axis = self._buffers.rings.axis(output)
            if axis is not None:
                turned |= self._bounds(output.loop) - self._bounds(output.loop[:axis])
        return turned

    def _bounds(self, loops: list[IterDomain]) -> frozenset[Group]:
        """Wholes of splits that do not divide, whose index these loops give."""
        domains = self._buffers.domains
        known = {domains.group(axis): self._symbol(axis, p) for p, axis in enumerate(loops)}
        derivation = Derivation(domains, known)
        return frozenset(
            whole
            for group in derivation.reached()
            for whole in derivation.inexact_splits(group, self._buffers.facts)
        )

    def _ends(self, operation: Operation, whole: Group) -> bool:
        """Whether nothing comes after the first iteration that is skipped.

        So it is where the index never falls from one iteration to the next. A group that skipped a
        stage of its own in between would come by the next one too early.
        """
        loops = [a for a in operation.outputs[0].loop if self._buffers.extent(a) != integers.ONE]
        domains = self._buffers.domains
        known = {domains.group(axis): self._symbol(axis, p) for p, axis in enumerate(loops)}
        derivation = Derivation(domains, known)
        if not derivation.reaches(whole):
            return False
        whole_index = derivation.index(whole)
        while isinstance(whole_index, Apply) and whole_index.op == "floordiv":
            whole_index = whole_index.args[0]  # falls nowhere if this does not
        index = polynomial(whole_index)
        symbols = {self._symbol(axis, position) for position, axis in enumerate(loops)}
        linear = {(symbol,) for symbol in symbols}
        if any(symbols.intersection(_parts(monomial)) for monomial in index.keys() - linear):
            return False
        steps: list[tuple[int, Expr]] = []
        for position, axis in enumerate(loops):
            if axis.parallel.is_of_blocks:
                continue
            coefficient = index.get((self._symbol(axis, position),), 0)
            steps.append((coefficient, self._buffers.extent(axis)))
        below = 0
        for coefficient, extent in reversed(steps):
            if coefficient and coefficient < below:
                return False
            if coefficient and not isinstance(extent, Const) and steps[0] != (coefficient, extent):
                return False
            below += coefficient * (int(extent.value) - 1) if isinstance(extent, Const) else 0
        return True

    def _symbol(self, axis: IterDomain, position: int) -> Expr:
        extent = self._buffers.extent(axis)
        if extent == integers.ONE:
            return integers.ZERO
        return Symbol(f"u{position}", low=0, extent=extent)


def _least_at_zero(index: Expr, symbol: Expr) -> bool:
    """Whether an index, none of whose parts is negative, is the least where a symbol is 0."""
    if index == symbol or symbol not in index.walk():
        return True
    if not isinstance(index, Apply):
        return False
    first, *others = index.args
    if index.op in ("add", "mul"):
        known = all(lower_bound(arg) >= 0 for arg in index.args)
        return known and all(_least_at_zero(arg, symbol) for arg in index.args)
    if any(symbol in other.walk() for other in others):
        return False
    if index.op == "floordiv":
        return _least_at_zero(first, symbol)
    return index.op == "mod" and substitute(first, {symbol: integers.ZERO}) == integers.ZERO


def _parts(factors: Iterable[Expr]) -> Iterator[Expr]:
    """All that expressions are made of."""
    return (part for factor in factors for part in factor.walk())
