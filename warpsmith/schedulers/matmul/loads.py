"""What an operand is computed from that lies in memory and is as large as it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import Merge
from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.reads import stretch_of
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.reshape import shaping
from warpsmith.values import dataclass

REGISTER_BYTES = 4
"""Of a register, in which neighbours along k lie together where they are smaller."""


@dataclass(frozen=True, slots=True)
class Load:
    """A tensor in global memory that an operand is computed from.

    Attributes:
        copy: of it, where it is copied first, or what reads it.
        packed: how many neighbours of the operand each of its elements is for, along its fastest
            dimension, which is so many times shorter than the operand's.
    """

    memory: TensorView
    copy: TensorView
    packed: int = 1


def loads_of(operand: TensorView) -> tuple[Load, ...]:
    """Those of the tensors as large as an operand that it is computed from element by element, each
    as often as it is copied.
    """
    return tuple({load.copy: load for load in found_loads(operand)}.values())


def found_loads(operand: TensorView) -> Iterator[Load]:
    """The same with the copies of each that several lead to, found when they are asked for."""
    seen = set[TensorView]()
    pending = [(operand, _Walk.of(operand))]
    while pending:
        reader, walk = pending.pop()
        tensor, definition = walk.tensor, walk.tensor.definition
        stretch = stretch_of(tensor)
        if definition is None:
            if walk.ends():
                yield Load(tensor, reader, walk.packed)
        elif stretch is not None and walk.packed == 1:
            yield Load(stretch.sources[0], tensor)
        elif tensor not in seen:
            seen.add(tensor)
            befores = [walk.before(source, operand) for source in tensor_inputs(definition)[::-1]]
            pending += [(tensor, before) for before in befores if before is not None]


@dataclass(frozen=True, slots=True)
class _Walk:
    """A tensor on the way from an operand to memory.

    Attributes:
        needed: for each of its dimensions, whether the operand has as many elements along it.
        packed: how many neighbours of the operand each of its elements is for.
        along: the dimension along which these lie.
        part: the dimension that tells them apart, as long as there is one.
    """

    tensor: TensorView
    needed: tuple[bool, ...]
    packed: int = 1
    along: int = 0
    part: int | None = None

    @staticmethod
    def of(operand: TensorView) -> _Walk:
        return _Walk(operand, tuple(not axis.is_broadcast for axis in operand.shape_axes))

    def ends(self) -> bool:
        """Whether memory, which the tensor is, holds what is packed one behind the other."""
        order = self.tensor.concrete_order()
        return self.packed == 1 or (self.part is None and order[-1] == self.along)

    def before(self, source: TensorView, operand: TensorView) -> _Walk | None:
        """What the tensor is computed from, if that is as large as the operand."""
        made = self.tensor.definition
        found: _Walk | None = None
        if isinstance(made, Pointwise):
            found = replace(self, tensor=source)
        elif isinstance(made, Move) and made.kind == "reshape":
            found = self._parted(made, operand)
        elif isinstance(made, Move) and made.kind == "broadcast":
            found = self._narrowed(made)
        if found is None:
            return None
        pairs = zip(source.shape_axes, found.needed, strict=True)
        return None if any(axis.is_broadcast and needed for axis, needed in pairs) else found

    def _parted(self, reshape: Move, operand: TensorView) -> _Walk | None:
        """Before two dimensions become one, if a register has all that the second tells apart."""
        output = reshape.output
        root, transforms = list(output.root), shaping(output)
        merge = transforms[0] if len(transforms) == 1 else None
        if self.packed > 1 or not isinstance(merge, Merge) or merge.inner not in root:
            return None
        parts, part = integers.constant(merge.inner.extent), root.index(merge.inner)
        if parts is None or parts * operand.dtype.size > REGISTER_BYTES:
            return None
        kept = dict(zip(output.logical, self.needed, strict=True))
        kept[merge.outer], kept[merge.inner] = kept.pop(merge.axis), False
        needed = tuple(kept[axis] for axis in root)
        return _Walk(reshape.source, needed, parts, root.index(merge.outer), part)

    def _narrowed(self, broadcast: Move) -> _Walk | None:
        """Before the dimension is there that tells neighbours apart."""
        origin = broadcast.origin
        if self.part is None or [k for k, d in enumerate(origin) if d is None] != [self.part]:
            return None
        needed = tuple(need for need, d in zip(self.needed, origin, strict=True) if d is not None)
        return _Walk(broadcast.source, needed, self.packed, self.along)
