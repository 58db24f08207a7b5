"""What a read at computed places reads, as operations on each element of what lies in memory."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeGuard

from warpsmith.ir import integers
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.reads import Part, Read, chosen, is_window
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.reach import reached
from warpsmith.values import dataclass

MOST_REPEATED = 8
"""Operations that are computed again at each place where what they make is read."""

MOST_AGAIN = 16
"""Operations that are computed again for each element of what windows read: about as many as issue
while it would be stored and read. An estimate."""

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
    """The tensors that are computed where a read needs them, as few operations make its sources;
    none where an index says which source an element is of, as in a join of which rows are chosen.
    """
    said = {chosen(k, index.dtype) for k, index in enumerate(read.indices)}
    if any(node in said for inside in read.insides for node in inside.walk()):
        return frozenset()
    most = MOST_REPEATED if read.indices else MOST_AGAIN
    most = _most_again(graph, read) if is_window(read) else most
    chains = _Chains(graph, bool(read.indices), len(read.sources) == 1, most, not is_window(read))
    return frozenset(t for s in read.sources for t in chains.of(s, few_of(s, read)))


def _most_again(graph: Graph, window: Read) -> int:
    """Operations that may be computed again where each window needs their result.

    None where what makes it is reduced, too: the kernel that has that loads it for the sum, and
    stores what windows read.
    """
    (source,) = window.sources
    again = -1 + sum(_share(use, source) for use in graph.uses(source))
    if again <= 0:
        return MOST_COMPUTED
    return 0 if _is_of_reduction(source) else int(MOST_AGAIN / again)


def _share(use: Operation, source: TensorView) -> Fraction:
    """How often an operation reads each element of a tensor, on average: much more often than it is
    worth to compute it where a call says that.
    """
    share = Fraction(1)
    for axis, own in zip(use.outputs[0].root, source.shape_axes, strict=False):
        if is_window(use) and axis.extent != own.extent:
            count, size = (integers.constant(each.extent) for each in (axis, own))
            if not count or not size:
                return Fraction(MOST_AGAIN + 1)
            share *= Fraction(count, size)
    return share


def _is_of_reduction(tensor: TensorView) -> bool:
    def before(tensor: TensorView) -> Sequence[TensorView]:
        return () if tensor.definition is None else tensor_inputs(tensor.definition)

    return any(isinstance(each.definition, Reduction) for each in reached((tensor,), before))


def few_of(tensor: TensorView, read: Read) -> int:
    """Up to how many dimensions results have that are stored in place of what is read.

    Of what has more dimensions than is read of it, those of reductions that have fewer: the
    logarithm of a softmax of which each row's target is read is a maximum and a sum for each row,
    and no other element. Of what a cast widens, those of products; of others none, which is -1.
    """
    own = len(tensor.concrete_order())
    if len(read.output.concrete_order()) < own:
        return own - 1
    return 0 if is_cast(tensor.definition) and not tensor.dtype.is_narrow else -1


def is_of_product(tensor: TensorView) -> bool:
    """Whether a tensor is what a product may store: its result, or what is computed of that and
    known as a 16-bit value, of which reductions, or reads, want no more than a cast.
    """
    made, value = tensor.definition, tensor
    if isinstance(made, Matmul):
        return True  # what is computed of it has as many elements
    if isinstance(made, Pointwise) and is_cast(made) and tensor.dtype.is_narrow:
        (source,) = made.inputs
        value = source if isinstance(source, TensorView) else tensor
    known = isinstance(made, Pointwise) and (value is not tensor or value.narrow is not None)
    return known and _is_reduced(tensor) and _follows(value)


def _follows(value: TensorView) -> bool:
    """Whether a product is all that comes before a few operations which make a value."""
    found, products, ahead = 0, 0, [value]
    while ahead and found <= MOST_REPEATED:
        made = ahead.pop().definition
        if isinstance(made, Pointwise) or (isinstance(made, Move) and renames(made)):
            found += 1
            ahead += [each for each in made.inputs if isinstance(each, TensorView)]
        elif isinstance(made, Matmul):
            products += 1
        elif made is not None:
            return False
    return not ahead and products == 1


def _is_reduced(tensor: TensorView) -> bool:
    """Whether reductions, or reads, take a tensor as it is, moved or cast."""
    return any(
        isinstance(use, Reduction | Read)
        or ((isinstance(use, Move) or is_cast(use)) and _is_reduced(use.outputs[0]))
        for use in Fusion.of(tensor).uses(tensor)
    )


def is_join(made: Operation | None) -> TypeGuard[Read]:
    """Whether elements of a result are read at places that sizes alone say, each from one of some
    tensors, or what fills the rest.
    """
    return isinstance(made, Read) and not made.indices


def choices(join: Operation | None) -> int:
    """How often an element of a join is chosen."""
    return len(join.parts) - (join.fill is None) if isinstance(join, Read) else 0


def _is_one_read(made: Operation | None) -> bool:
    return isinstance(made, Read) and made.is_one


def is_cast(operation: Operation | None) -> bool:
    return isinstance(operation, Pointwise) and operation.op == "cast"


@dataclass(frozen=True, slots=True)
class _Chains:
    """The operations that make what a read reads.

    Attributes:
        chosen: by tensors of indices, which may choose an element many times.
        one: it reads one tensor; what nothing else needs is then not computed again, but elsewhere,
            where nothing is chosen.
        most: operations that are computed again.
        fills: what is padded is computed, too; windows read it as it is stored.
    """

    graph: Graph
    chosen: bool
    one: bool
    most: int = MOST_REPEATED
    fills: bool = True

    def of(self, source: TensorView, few: int) -> tuple[TensorView, ...]:
        """The tensors of the chain that makes a source, it the first; none where there is something
        else in it than operations on each element, or more is computed again than is worth it.

        It goes on before what takes one tensor's elements from other places, or else ends there. A
        tensor that is read in several ways is computed once for each.
        """
        return self._chosen(source, self._chain(source, few, ends=False)) or self._chosen(
            source, self._chain(source, few, ends=True)
        )

    def _chosen(self, source: TensorView, chain: Sequence[TensorView]) -> tuple[TensorView, ...]:
        readers = dict.fromkeys(chain, 0) | {source: 1}
        ways: dict[TensorView, frozenset[tuple[Part, ...]]] = {source: frozenset({()})}
        again, apart = ({source} if self.chosen or not self.one else set()), {source}
        repeated = found = 0
        for tensor in chain:
            made, own = tensor.definition, ways[tensor]
            parts = made.parts if is_join(made) and (self.fills or made.fill is None) else ()
            moved = parts or (isinstance(made, Move) and renames(made))
            if not (moved or (isinstance(made, Pointwise) and made.op not in OF_BLOCK)):
                return ()  # numbers that are drawn know their place, too
            assert made is not None
            if self.graph.live_readers(tensor) > readers[tensor]:
                again.add(tensor)
            if tensor.rank and tensor.shape_axes[-1].is_broadcast:
                apart.discard(tensor)  # neighbours share it
            steps = (
                len(parts) - 1 if parts else int(isinstance(made, Pointwise))
            )  # choices of parts
            found += steps
            if tensor in apart:
                repeated += steps * (len(own) - (tensor not in again))
            if len(own) > MOST_REPEATED or repeated > self.most:
                return ()
            for needed in {t for t in tensor_inputs(made) if t in readers}:
                readers[needed] += 1
                reading = [part for part in parts if part.source is needed]
                passed = {(*way, part) for way in own for part in reading} if reading else own
                ways[needed] = ways.get(needed, frozenset()) | passed
                again |= {needed} if tensor in again else set()
                apart |= {needed} if tensor in apart else set()
        return tuple(chain) if found else ()

    def _chain(self, source: TensorView, few: int, *, ends: bool) -> list[TensorView]:
        """What makes it of what lies in memory in any case, each tensor behind those that need it;
        nothing where that is too much.

        Args:
            ends: what is read counts as lying there, though it may be computed.
        """
        found: list[TensorView] = []
        met: set[TensorView] = set()
        pending = [(source, False)]
        while pending and len(met) <= MOST_COMPUTED:
            tensor, done = pending.pop()
            if done:
                found.append(tensor)
            elif tensor not in met and not (
                self._lies_in_memory(tensor, few) or (ends and _is_one_read(tensor.definition))
            ):
                met.add(tensor)
                assert tensor.definition is not None
                pending.append((tensor, True))
                pending += [(each, False) for each in tensor_inputs(tensor.definition)]
        return [] if pending else found[::-1]

    def _lies_in_memory(self, tensor: TensorView, few: int) -> bool:
        """Whether it does, or is made of nothing that lies there, or is to be stored."""
        made = tensor.definition
        if made is None or tensor.is_output or isinstance(made, Full):
            return True
        if isinstance(made, Iota):
            return not self.chosen
        if isinstance(made, Reduction):
            return len(tensor.concrete_order()) <= few
        return few >= 0 and is_of_product(tensor)
