"""Which axes of different tensors are the same iteration.

Axes fall into groups. Two axes are in one group when an operation pairs them, when the program says
so (`Program.together`), when one is a clone of the other, or when equal transforms made them from
axes of equal groups. A broadcast axis joins the group that it is broadcast to, if there is exactly
one; so a tensor that lacks a dimension can be computed inside a loop over it. Inputs of which the
program says nothing take no part unless asked for: each use of an input may read it with other axes
(`x[i, 1] + x[1, i]`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, IterType, Merge, Split, Transform, pieces_across
from warpsmith.ir.exprs import Matmul, Move, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.groups import parts_of
from warpsmith.ir.nested import Nested
from warpsmith.ir.program import Program, View
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import Operation, TensorView

Group = int


def map_of(program: Program) -> DomainMap:
    """The groups of all axes; those of a view, and of a fusion that stands as it did, are found
    once.
    """
    if isinstance(program, View):
        return program.once(DomainMap)
    assert isinstance(program, Fusion)
    form = _form(program)
    if program.mapped is None or program.mapped[0] != form:
        program.mapped = form, DomainMap(program)
    found: DomainMap = program.mapped[1]
    return found


def _form(fusion: Fusion) -> tuple[object, ...]:
    """All that the groups of a fusion's axes follow from."""
    axes = [
        (t.root, t.logical, tuple(t.loop), t.allocation, t.lanes, tuple(t.transforms))
        for t in fusion.tensors
    ]
    return fusion.tensors, axes, tuple(fusion.operations), fusion.limits, fusion.together


class DomainMap:
    """The groups of all axes of a fusion as it stands now; ask `map_of` again after scheduling.

    Args:
        through_inputs: all uses of an input read it with the same axes, as one cache of it would;
            but what repeats elements reads them where they lie.

    Attributes:
        derived: by lists of groups, what `ir/derivation.py` has found out of them.
    """

    def __init__(self, fusion: Program, *, through_inputs: bool = False) -> None:
        self._limits = fusion.limits
        self._transforms: list[Transform] = []
        self._derived: set[IterDomain] = set()
        self._collect(fusion)
        alike = {tensor for group in fusion.together for tensor in group}
        given = set() if through_inputs else set(fusion.input_tensors)
        self._nested = Nested.of(fusion, self._transforms)
        self._pair(fusion, given - alike)
        self._close()
        self._group = {axis: self._find(number) for axis, number in self._number.items()}
        self._chosen = dict(self._choices(fusion))
        self._sides: dict[Transform, tuple[Group, Group, Group]] = {}
        self._extent: dict[Group, Expr] = {}
        self._divides: dict[tuple[Split, integers.Facts], bool] = {}
        self._lifted: dict[Group, list[Transform]] | None = None
        self._members: dict[Group, list[IterDomain]] | None = None
        self._across: dict[Group, list[Split]] | None = None
        self.derived: dict[tuple[Group, ...], Any] = {}

    def group(self, axis: IterDomain) -> Group:
        """Representative of the axis's group."""
        return self._group[axis]

    def groups(self, axes: Iterable[IterDomain]) -> frozenset[Group]:
        """Of the axes that are no broadcast ones, which have one element."""
        return frozenset(self.group(axis) for axis in axes if not axis.is_broadcast)

    def knows(self, axis: IterDomain) -> bool:
        return axis in self._number

    def same(self, a: IterDomain, b: IterDomain) -> bool:
        return self.group(a) == self.group(b)

    def members(self, group: Group) -> list[IterDomain]:
        if self._members is None:
            self._members = {}
            for axis in self._axes:
                self._members.setdefault(self.group(axis), []).append(axis)
        return self._members[group]

    def touching(self, group: Group) -> list[Transform]:
        """Transforms with the group on either side, one of each kind of equal ones."""
        if self._lifted is None:
            self._lifted = {}
            seen: set[tuple[int, ...]] = set()
            for transform in self._transforms:
                sides = self.sides(transform)
                key = (isinstance(transform, Split), *sides)
                if key in seen:
                    continue
                seen.add(key)
                for member in set(sides):
                    self._lifted.setdefault(member, []).append(transform)
        return self._lifted.get(group, [])

    def chosen_for(self, transform: Transform) -> tuple[Group, TensorView] | None:
        """Of a split by groups, what a group chooses from, and the tensor that says so."""
        by_group = isinstance(transform, Split) and transform.by_group
        return self.chosen_by(self.group(transform.axis)) if by_group else None

    def chosen_by(self, rows: Group) -> tuple[Group, TensorView] | None:
        """The dimension that the group of a row of a grouped product chooses from, and the tensor
        that says where groups end; None for what are no such rows.
        """
        return self._chosen.get(rows)

    def rows_of(self, transform: Transform) -> tuple[Group, ...]:
        """Of a split by multiples of its factor in memory, what says where a row begins."""
        return tuple(map(self.group, transform.rows)) if isinstance(transform, Split) else ()

    def across(self, rows: Group) -> Sequence[Split]:
        """The splits of what rows have by where these begin in memory."""
        if self._across is None:
            self._across = {}
            for transform in self._transforms:
                if isinstance(transform, Split):
                    for counted in self.rows_of(transform):
                        self._across.setdefault(counted, []).append(transform)
        return self._across.get(rows, ())

    def _choices(self, fusion: Program) -> Iterator[tuple[Group, tuple[Group, TensorView]]]:
        for operation in fusion.operations:
            if isinstance(operation, Matmul) and operation.ends is not None:
                rows, groups = map(self.group, operation.rows_and_groups or ())
                yield rows, (groups, operation.ends)

    def sides(self, transform: Transform) -> tuple[Group, Group, Group]:
        """Groups of a transform's whole, outer and inner axis."""
        found = self._sides.get(transform)
        if found is None:
            whole, outer, inner = transform.axis, transform.outer, transform.inner
            found = self.group(whole), self.group(outer), self.group(inner)
            self._sides[transform] = found
        return found

    def extent_of(self, axis: IterDomain) -> Expr:
        """Iterations of an axis's group."""
        return self.extent(self.group(axis))

    def extent(self, group: Group) -> Expr:
        """Iterations of the group: those of its concrete axes, where any is."""
        known = self._extent.get(group)
        if known is None:
            self._extent[group] = integers.ONE  # stops a cycle; overwritten below
            known = self._extent[group] = self._derive_extent(group)
        return known

    def divides(self, split: Split, facts: integers.Facts) -> bool:
        """Whether a split's factor is known to divide what it splits, from its begin on."""
        if split.rows:
            return False
        key = split, facts
        found = self._divides.get(key)
        if found is None:
            extent = self.extent_of(split.axis)
            found = self._divides[key] = integers.divides(split.factor, extent, facts)
        return found

    def _derive_extent(self, group: Group) -> Expr:
        concrete = [axis for axis in self.members(group) if not axis.is_broadcast]
        originals = [axis for axis in concrete if axis not in self._derived]
        if originals:
            constants = [axis.extent for axis in originals if isinstance(axis.extent, Const)]
            return constants[0] if constants else originals[0].extent
        for transform in self.touching(group):
            if any(self.group(axis) == group for axis in transform.results):
                return self._result_extent(transform, group)
        return concrete[0].extent if concrete else integers.ONE

    def _result_extent(self, transform: Transform, group: Group) -> Expr:
        if isinstance(transform, Merge):
            outer = self.extent(self.group(transform.outer))
            return integers.mul(outer, self.extent(self.group(transform.inner)))
        given = transform.inner if transform.inner_split else transform.outer
        if self.group(given) == group:
            return transform.factor
        whole = self.extent(self.group(transform.axis))
        chosen = self.chosen_for(transform)
        if chosen is not None:
            return parts_of(whole, transform.factor, self.extent(chosen[0]))
        if self.rows_of(transform):
            grain = transform.grain
            room = integers.add(transform.factor, integers.sub(1, grain))
            if self._fits(whole, room):
                return integers.ONE
            return pieces_across(whole, transform.factor, grain)
        if self._fits(whole, transform.factor):
            return integers.ONE
        return integers.ceildiv(whole, transform.factor)

    def _fits(self, extent: Expr, factor: Expr) -> bool:
        """Whether an extent is known to be no more than a constant factor.

        Such an axis has one part, which runs, and finds itself past the end, where it is empty too;
        but one that is empty by definition is a multiple of the factor, and asks for no end.
        """
        if extent == integers.ZERO:
            return False
        number = integers.constant(factor)
        known = (most for limited, most in self._limits if limited == extent)
        return number is not None and any(most <= number for most in known)

    def _joined(self, axis: IterDomain) -> Group:
        """Representative of the axis's group as far as it has been joined."""
        return self._find(self._number[axis])

    def _find(self, number: int) -> int:
        parent = self._parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def _union(self, a: IterDomain, b: IterDomain) -> bool:
        # `_find` of both, written out: of all that planning runs, this runs most often.
        number, parent = self._number, self._parent
        x, y = number[a], number[b]
        while (above := parent[x]) != x:
            parent[x] = x = parent[above]
        while (above := parent[y]) != y:
            parent[y] = y = parent[above]
        if x == y:
            return False
        if x < y:
            parent[y] = x
        else:
            parent[x] = y
        return True

    def _collect(self, fusion: Program) -> None:
        met: list[IterDomain] = []
        for tensor in fusion.tensors:
            met += tensor.every_axis
            for transform in tensor.transforms:
                self._transforms.append(transform)
                self._derived.update(transform.results)
        self._axes = list(dict.fromkeys(met))
        self._number = {axis: number for number, axis in enumerate(self._axes)}
        self._parent = list(range(len(self._axes)))
        clones: dict[IterDomain, IterDomain] = {}
        for axis in self._axes:
            origin = axis.clone_of
            if origin is None:
                continue
            while origin not in self._number and origin.clone_of is not None:
                origin = origin.clone_of  # an rfactor took it out of the fusion
            if origin in self._number:
                self._union(axis, origin)
            else:  # the first is gone as well; its clones stay one iteration
                self._union(axis, clones.setdefault(origin, axis))
            self._derived.add(axis)

    def _pair(self, fusion: Program, apart: set[TensorView]) -> None:
        """Join the axes that operations pair; tensors in `apart` are not joined to their users."""
        widened: list[tuple[IterDomain, IterDomain]] = []
        broadcast = IterType.broadcast
        for group in fusion.together:
            for axes in zip(*(tensor.shape_axes for tensor in group), strict=True):
                known = list(filter(self.knows, axes))
                for axis in known[1:]:
                    self._union(known[0], axis)
        for operation in fusion.operations:
            first, *others = operation.outputs
            for other in others:
                for a, b in zip(first.root, other.root, strict=True):
                    self._union(a, b)
            for source in tensor_inputs(operation):
                if source in apart or (_repeats(operation) and source.is_input):
                    continue
                for a, b in operation.pairs(source):
                    if a.kind is broadcast and b.kind is not broadcast:
                        widened.append((a, b))
                    else:
                        self._union(a, b)
        self._close()
        self._concretize(widened)
        chosen: dict[object, IterDomain] = {}
        for operation in fusion.operations:  # two matrices of each group are chosen together
            pair = operation.rows_and_groups if isinstance(operation, Matmul) else None
            if pair is not None:
                key = self._joined(pair[0]), operation.inputs[-1]
                self._union(chosen.setdefault(key, pair[1]), pair[1])

    def _concretize(self, widened: Iterable[tuple[IterDomain, IterDomain]]) -> None:
        """Join each broadcast group with the one concrete group that it meets, if only one."""
        targets: dict[Group, set[Group]] = {}
        for narrow, wide in widened:
            targets.setdefault(self._joined(narrow), set()).add(self._joined(wide))
        for narrow_group, wide_groups in targets.items():
            if len({self._find(g) for g in wide_groups}) == 1:
                self._parent[self._find(narrow_group)] = self._find(next(iter(wide_groups)))

    def _close(self) -> None:
        """Equal transforms of equal groups make equal groups."""
        changed = True
        while changed:
            changed = False
            seen: dict[tuple[object, ...], Transform] = {}
            for transform in self._transforms:
                if isinstance(transform, Split):
                    key: tuple[object, ...] = (
                        "split",
                        self._joined(transform.axis),
                        transform.factor,
                        transform.inner_split,
                        transform.by_group,
                        tuple(map(self._joined, transform.rows)),
                        transform.grain,
                    )
                else:
                    parts = self._joined(transform.outer), self._joined(transform.inner)
                    key = ("merge", *parts, transform.band)
                twin = seen.setdefault(key, transform)
                if twin is not transform:
                    for a, b in zip(twin.results, transform.results, strict=True):
                        changed |= self._union(a, b)
            if self._nested is not None and not changed:
                for a, b in list(self._nested.pairs(self._joined)):
                    changed |= self._union(a, b)


def _repeats(operation: Operation) -> bool:
    return isinstance(operation, Move) and bool(operation.repeats)
