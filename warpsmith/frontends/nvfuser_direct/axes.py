"""Axes of tensors under nvFuser's names, and the splits and merges between them."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.frontends.nvfuser_direct.enums import ParallelType, ours
from warpsmith.frontends.nvfuser_direct.failures import as_runtime_errors
from warpsmith.frontends.nvfuser_direct.statements import Expr, Statement, Val
from warpsmith.ir import domains
from warpsmith.ir.domains import IterDomain as Domain
from warpsmith.ir.domains import Transform
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView as Tensor


class TensorDomain(Statement):
    """The axes of a tensor, or its loops."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self._domains = tuple(domains)

    def __str__(self) -> str:
        return f"[{', '.join(map(repr, self._domains))}]"


class IterDomain(Statement):
    """An axis of a tensor, or one of its loops; or one of another tensor that its loops were made
    by, where it has none that is the same iteration.
    """

    __slots__ = ("_tensor", "domain")

    def __init__(self, tensor: Val, domain: Domain) -> None:
        self._tensor = tensor
        self.domain = domain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IterDomain) and self.domain is other.domain

    def __hash__(self) -> int:
        return hash(self.domain)

    def __str__(self) -> str:
        return repr(self.domain)

    def is_reduction(self) -> bool:
        return self.domain.is_reduction

    def extent(self) -> Val:
        return self._tensor.fusion.wrapped(self.domain.extent)

    def definition(self) -> Split | Merge | None:
        """The split or merge that makes it; None for an axis that an operation made."""
        tensor: Tensor = self._tensor.value
        axis: Domain | None = self.domain
        while axis is not None and axis not in tensor.root:
            made = _maker(tensor, axis)
            if made is not None:
                return _seen(made, self._tensor)
            axis = axis.clone_of
        return None

    def uses(self) -> list[Split | Merge]:
        """The splits and merges of its tensor that divide or join it."""
        made = self._tensor.value.transforms
        return [_seen(each, self._tensor) for each in made if self.domain in _operands(each)]

    def parallelize(self, parallel_type: ParallelType) -> None:
        """Bind the loop.

        One of a copy by TMA that threads are to ask for stays serial: one thread asks for all. One
        on `stream` has `execute` run products in pieces (`streams`).
        """
        tensor = self._tensor.value
        if parallel_type is ParallelType.stream:
            self._tensor.fusion.cut(tensor, self.domain)
            return
        kind = ours(parallel_type)
        if kind.is_block and tensor.copied_by.is_tma:
            return
        with as_runtime_errors():
            self._tensor.fusion.bind(tensor, self.domain, kind)


class _AxisExpr(Expr):
    """A split or a merge, as one tensor sees it: by its own axes where it has them."""

    def __init__(self, transform: Transform, tensor: Val) -> None:
        super().__init__(transform, tensor.fusion)
        self._tensor = tensor

    def outer(self) -> IterDomain:
        return self._axis(self._operation.outer)

    def inner(self) -> IterDomain:
        return self._axis(self._operation.inner)

    def input(self, index: int) -> IterDomain:  # type: ignore[override]  # axes are no tensors
        return self._axis(_operands(self._operation)[index])

    def output(self, index: int) -> IterDomain:  # type: ignore[override]  # as above
        return self._axis(self._operation.results[index])

    def _axis(self, domain: Domain) -> IterDomain:
        return IterDomain(self._tensor, _own(self._tensor.value, domain))


class Split(_AxisExpr):
    """An axis becomes two."""


class Merge(_AxisExpr):
    """Two axes become one."""


def _seen(transform: Transform, tensor: Val) -> Split | Merge:
    kind = Split if isinstance(transform, domains.Split) else Merge
    return kind(transform, tensor)


def _operands(transform: Transform) -> tuple[Domain, ...]:
    is_split = isinstance(transform, domains.Split)
    return (transform.axis,) if is_split else (transform.outer, transform.inner)


def _maker(tensor: Tensor, axis: Domain) -> Transform | None:
    """What makes an axis of the tensor, or of another one."""
    made = (each for other in Fusion.of(tensor).tensors for each in other.transforms)
    return next((each for each in made if axis in each.results), None)


def _own(tensor: Tensor, axis: Domain) -> Domain:
    """The tensor's own axis that is the same iteration; the axis itself where it has none."""
    made = (axis for each in tensor.transforms for axis in (each.axis, each.outer, each.inner))
    mine = dict.fromkeys((*tensor.root, *tensor.logical, *tensor.loop, *made))
    if axis in mine:
        return axis
    groups = map_of(Fusion.of(tensor))
    return next((each for each in mine if groups.same(each, axis)), axis)
