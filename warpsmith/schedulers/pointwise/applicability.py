"""When the pointwise scheduler applies."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul, Move, Reduction
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.program import Program, View
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    if any(isinstance(op, Matmul) for op in fusion.operations):
        return "it has a matrix product"
    if any(isinstance(op, Reduction) for op in fusion.operations):
        return "it reduces"
    domains = cached_map(fusion)
    if reference(fusion, domains) is None:
        return "no output has all the dimensions that the others need"
    return self_mapped(fusion, domains)


def cached_map(fusion: Program) -> DomainMap:
    """The groups of axes that there will be once the inputs have caches."""
    return fusion.once(_cached_map) if isinstance(fusion, View) else _cached_map(fusion)


def _cached_map(fusion: Program) -> DomainMap:
    shared = DomainMap(fusion, through_inputs=True)
    return map_of(fusion) if self_mapped(fusion, shared) else shared


def uses_agree(fusion: Program) -> bool:
    """Whether all users of an input can read one cache of it.

    They cannot where that would make two dimensions of a tensor one loop: `x + transpose(x)`.
    """
    return not self_mapped(fusion, DomainMap(fusion, through_inputs=True))


def reference(fusion: Program, domains: DomainMap) -> TensorView | None:
    """The output whose loops can compute every tensor: the first of those of the highest rank."""
    outputs = sorted((o.value for o in fusion.outputs), key=lambda t: -t.rank)
    for candidate in outputs:
        if covers(fusion, domains, candidate):
            return candidate
    return None


def covers(fusion: Program, domains: DomainMap, tensor: TensorView) -> bool:
    """Whether the indices of `tensor` determine those of every tensor of the fusion.

    A dimension of one element determines nothing, whatever it is broadcast to elsewhere.
    """
    return beyond(fusion.computed, domains, tensor.logical) is None


def beyond(
    tensors: Iterable[TensorView], domains: DomainMap, axes: Iterable[IterDomain]
) -> TensorView | None:
    """The first of these tensors whose indices do not all follow from those of some axes."""
    known = {domains.group(a): integers.ZERO for a in axes if not a.is_broadcast}
    derivation = Derivation(domains, known)
    for tensor in tensors:
        for axis in (*tensor.root, *tensor.logical):
            if not axis.is_broadcast and not derivation.reaches(domains.group(axis)):
                return tensor
    return None


def self_mapped(fusion: Program, domains: DomainMap) -> str:
    """Names a tensor two of whose dimensions must be one loop, which no loop nest can compute.

    So must those that are parts of one dimension elsewhere: of `y[j, k] = sum(i, x[i, k] * m[i,
    j])`, where `x` and `y`, reshaped to rows, are added.
    """
    reshaped = any(isinstance(op, Move) and op.kind == "reshape" for op in fusion.operations)
    apart: set[tuple[Group, ...]] = set()
    for tensor in fusion.computed:
        concrete = tuple(domains.group(axis) for axis in tensor.logical if not axis.is_broadcast)
        if len(set(concrete)) != len(concrete):
            return f"two dimensions of {tensor.name} come from one dimension of its inputs"
        if reshaped and concrete not in apart:
            if any(_follows(domains, group, concrete) for group in concrete):
                return f"two dimensions of {tensor.name} are parts of one by a reshape"
            apart.add(concrete)
    if reshaped and _at_two_places(fusion, domains):
        return "a dimension lies at two places of one by reshapes"
    return ""


def _at_two_places(fusion: Program, domains: DomainMap) -> bool:
    """Whether a dimension is a part of another one at two strides, as in `reshape(x, [n * n]) +
    reshape(transpose(x), [n * n])`: no index is both of what these say.
    """
    parts: dict[Group, dict[tuple[Group, Group], Expr]] = {}
    for tensor in fusion.computed:
        for transform in tensor.transforms:
            whole, *both = domains.sides(transform)
            parts.setdefault(whole, {})[both[0], both[1]] = domains.extent(both[1])
    strides: dict[Group, dict[Group, Expr]] = {}

    def found(whole: Group) -> bool:
        """Whether one is found in a dimension; else `strides` has where all of its parts lie."""
        own: dict[Group, Expr] = {whole: integers.ONE}
        strides[whole] = own
        for (outer, inner), step in parts.get(whole, {}).items():
            for part, times in ((outer, step), (inner, integers.ONE)):
                if part not in strides and found(part):
                    return True
                for each, stride in strides[part].items():
                    there = integers.mul(stride, times)
                    if own.setdefault(each, there) != there:
                        return True
        return False

    return any(whole not in strides and found(whole) for whole in parts)


def _follows(domains: DomainMap, group: Group, all_groups: Iterable[Group]) -> bool:
    """Whether a dimension is known where all the others are."""
    others = {other: integers.ZERO for other in all_groups if other != group}
    return Derivation(domains, others).reaches(group)
