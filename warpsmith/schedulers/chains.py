"""What a read at computed places reads, as operations on each element of what lies in memory."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.ir.exprs import Full, Iota, Move, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import TensorView

MOST_REPEATED = 8
"""Operations that are computed again at each place where what they make is read."""

MOST_COMPUTED = 64
"""Operations, and moves, that are computed elsewhere at all."""

_RENAMES = ("permute", "broadcast", "squeeze", "expand", "reshape")


def renames(move: Move) -> bool:
    """Whether each dimension of what is moved is one of the result, or has one element."""
    kept = {dim for dim in move.origin if dim is not None}
    axes = move.source.shape_axes
    copied = all(dim in kept or axis.is_broadcast for dim, axis in enumerate(axes))
    return move.kind in _RENAMES and copied


def computed(graph: Graph, read: Read) -> frozenset[TensorView]:
    """The tensors that are computed where a read needs them, as few operations make its sources."""
    along = len(read.output.concrete_order())
    single = all(
        along < len(source.concrete_order()) and graph.live_readers(source) == 1
        for source in read.sources
    )
    chains = _Chains(graph, bool(read.indices), len(read.sources) == 1, single)
    return frozenset(tensor for source in read.sources for tensor in chains.of(source))


@dataclass(frozen=True, slots=True)
class _Chains:
    """The operations that make what a read reads.

    Attributes:
        chosen: by tensors of indices, which may choose an element many times.
        one: it reads one tensor; what nothing else needs is then not computed again, but elsewhere,
            where nothing is chosen.
        sums: it alone needs what it reads, and chooses single elements of rows, as a loss does:
            sums of rows are stored rather than whole rows.
    """

    graph: Graph
    chosen: bool
    one: bool
    sums: bool

    def of(self, source: TensorView) -> tuple[TensorView, ...]:
        """The tensors of the chain that makes a source, it the first; none where there is something
        else in it than operations on each element, or more is computed again than is worth it.
        """
        chain = self._chain(source)
        readers = dict.fromkeys(chain, 0) | {source: 1}
        again, apart = ({source} if self.chosen or not self.one else set()), {source}
        repeated = found = 0
        for tensor in chain:
            made = tensor.definition
            moved = isinstance(made, Move) and renames(made)
            if not (moved or (isinstance(made, Pointwise) and made.op != "philox")):
                return ()  # numbers that are drawn know their place, too
            assert made is not None
            if self.graph.live_readers(tensor) > readers[tensor]:
                again.add(tensor)
            if tensor.rank and tensor.shape_axes[-1].is_broadcast:
                apart.discard(tensor)  # neighbours share it
            found += isinstance(made, Pointwise)
            repeated += isinstance(made, Pointwise) and tensor in again & apart
            for needed in {t for t in tensor_inputs(made) if t in readers}:
                readers[needed] += 1
                again |= {needed} if tensor in again else set()
                apart |= {needed} if tensor in apart else set()
        return tuple(chain) if found and repeated <= MOST_REPEATED else ()

    def _chain(self, source: TensorView) -> list[TensorView]:
        """What makes it of what lies in memory in any case, each tensor behind those that need it;
        nothing where that is too much.
        """
        found: list[TensorView] = []
        met: set[TensorView] = set()
        pending = [(source, False)]
        while pending and len(met) <= MOST_COMPUTED:
            tensor, done = pending.pop()
            if done:
                found.append(tensor)
            elif tensor not in met and not self._lies_in_memory(tensor):
                met.add(tensor)
                assert tensor.definition is not None
                pending.append((tensor, True))
                pending += [(each, False) for each in tensor_inputs(tensor.definition)]
        return [] if pending else found[::-1]

    def _lies_in_memory(self, tensor: TensorView) -> bool:
        """Whether it does, or is made of nothing that lies there, or is to be stored."""
        made = tensor.definition
        if made is None or tensor.is_output or isinstance(made, Full):
            return True
        if isinstance(made, Iota):
            return not self.chosen
        if isinstance(made, Reduction):
            return self.sums
        return isinstance(made, Read) and made.is_one
