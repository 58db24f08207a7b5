"""`nvfuser_direct.idm`: graphs of which axes of a fusion are one iteration."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.frontends.nvfuser_direct.axes import IterDomain
from warpsmith.frontends.nvfuser_direct.enums import IdMappingMode
from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.ir.disjoint import Disjoint
from warpsmith.ir.domains import IterDomain as Domain
from warpsmith.ir.domains import Split, Transform
from warpsmith.ir.exprs import tensor_inputs

__all__ = ["DisjointValSets", "IdModel", "ValGraph"]

_WITH_BROADCASTS = (IdMappingMode.broadcast, IdMappingMode.permissive)


class DisjointValSets(Disjoint[Domain]):
    """Sets of axes, each of one iteration."""

    def find(self, thing: Domain) -> Domain:
        if thing not in self:
            self.add(thing)
        return super().find(thing)

    def strict_are_mapped(self, entry0: IterDomain, entry1: IterDomain) -> bool:
        """Whether two axes are one iteration."""
        return self.find(entry0.domain) is self.find(entry1.domain)

    def __str__(self) -> str:
        return "".join(f"{{ {'; '.join(map(repr, members))} }}\n" for members in self.sets())


class ValGraph:
    """Sets of axes, and the splits and merges between them."""

    def __init__(self, fusion: Fusion, mode: IdMappingMode) -> None:
        self._sets = DisjointValSets()
        tensors, operations = fusion.ours.tensors, fusion.ours.operations
        self._transforms: list[Transform] = [t for each in tensors for t in each.transforms]
        for tensor in tensors:
            for axis in (*tensor.root, *tensor.logical, *tensor.loop):
                self._sets.join(axis, axis if axis.clone_of is None else axis.clone_of)
        for operation in operations:
            first, *others = operation.outputs
            pairs = [pair for other in others for pair in zip(first.root, other.root, strict=True)]
            pairs += [pair for each in tensor_inputs(operation) for pair in operation.pairs(each)]
            for a, b in pairs:
                if a.is_broadcast is b.is_broadcast or mode in _WITH_BROADCASTS:
                    self._sets.join(a, b)
        self._close()

    def disjoint_val_sets(self) -> DisjointValSets:
        return self._sets

    def map_vals(self, val0: IterDomain, val1: IterDomain) -> None:
        """Say that two axes are one iteration; what is made of them alike is one, too."""
        self._sets.join(val0.domain, val1.domain)
        self._close()

    def _close(self) -> None:
        """Equal transforms of equal sets make equal sets, and are of equal sets."""
        changed = True
        while changed:
            changed = False
            for outward in (True, False):
                seen: dict[object, Sequence[Domain]] = {}
                for transform in self._transforms:
                    given, made = _sides(transform)[:: 1 if outward else -1]
                    key = (_kind(transform), *map(self._sets.find, given))
                    twin = seen.setdefault(key, made)
                    for a, b in zip(twin, made, strict=True):
                        changed |= self._sets.join(a, b)

    def __str__(self) -> str:
        return f"IdGraph{{\n{self._sets}}}\n"


def _sides(transform: Transform) -> tuple[Sequence[Domain], Sequence[Domain]]:
    is_split = isinstance(transform, Split)
    given = (transform.axis,) if is_split else (transform.outer, transform.inner)
    return given, transform.results


def _kind(transform: Transform) -> tuple[object, ...]:
    if isinstance(transform, Split):
        return "split", transform.factor, transform.inner_split, transform.by_group
    return "merge", transform.band


class IdModel:
    """The graphs of a fusion as it stands, by what counts as one iteration."""

    def __init__(
        self,
        fusion: Fusion,
        build_graphs: bool = False,
        allow_self_mapping: bool = True,
        validate: bool = False,
    ) -> None:
        self._fusion = fusion
        self._graphs: dict[IdMappingMode, ValGraph] = {}
        if build_graphs:
            self.maybe_build_graph(IdMappingMode.exact)

    def maybe_build_graph(self, mode: IdMappingMode) -> ValGraph:
        """The graph of a mode, which is made once.

        Raises:
            Unsupported: WS0190 for modes that ask for loops as nvFuser lowers them.
        """
        if mode is not IdMappingMode.exact and mode not in _WITH_BROADCASTS:
            raise unsupported(
                f"IdMappingMode.{mode.name}", "loops are lowered otherwise", "use exact"
            )
        if mode not in self._graphs:
            self._graphs[mode] = ValGraph(self._fusion, mode)
        return self._graphs[mode]

    def __str__(self) -> str:
        return "".join(f"{mode.name}: {graph}" for mode, graph in self._graphs.items())
