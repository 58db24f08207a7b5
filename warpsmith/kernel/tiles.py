"""Boxes of a tensor in global memory, the maps by which the TMA unit finds them, and prefetches."""

from __future__ import annotations

from dataclasses import field

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import Orders, expression, nested, plain
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class TileDim(Declared):
    """One dimension of a tile in global memory; all lengths in elements of the tensor.

    Attributes:
        box: elements of the tile along the dimension; an expression where calls decide.
        first: index of the tile's first one.
        size: extent of the tensor.
        stride: distance of neighbours in memory.
        step: the tile takes every `step`-th index.
        before: how many neighbours before the tensor's first one index 0 is.
    """

    words = "{first} +{box}{step: by %}{before: from -%}"

    box: int | Expr = field(metadata=expression())
    first: Expr = field(metadata=expression())
    size: Expr = field(metadata=expression())
    stride: Expr = field(metadata=expression())
    step: int = field(default=1, metadata=plain())
    before: int = field(default=0, metadata=plain())

    @property
    def length(self) -> int:
        """The box's elements, which are known. Raises InternalError where calls decide."""
        if isinstance(self.box, int):
            return self.box
        raise InternalError(f"a tile of {self.box!r} elements should be of constant length")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A kernel parameter that tells the TMA unit of a tensor: 128 bytes that a launch encodes.

    Dimensions are listed as `cuTensorMapEncodeTiled` takes them: the fastest first.

    Attributes:
        name: of the parameter.
        tensor: name of the global buffer that it maps.
        sizes: extents, in elements, over the launch's scalars.
        strides: of every dimension but the first, in elements, likewise.
        box: elements of a tile along each dimension.
        steps: the tile takes every so many-th index of each dimension.
        swizzle: bytes of the rows in which 16-byte chunks are permuted: 0, 32, 64 or 128.
        rounds: floats are rounded to TF32 on their way to shared memory.
        before: elements before the tensor's first one at which the map begins.
    """

    name: str
    tensor: str
    dtype: DataType
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int = 0
    rounds: bool = False
    before: Expr = integers.ZERO


def map_of(memory: Buffer, dims: tuple[TileDim, ...], swizzle: int) -> TensorMap:
    """The map, without a name, by which the TMA unit finds a box of memory."""
    fastest_first = tuple(reversed(dims))
    return TensorMap(
        name="",
        tensor=memory.name,
        dtype=memory.dtype,
        sizes=tuple(dim.size for dim in fastest_first),
        strides=tuple(dim.stride for dim in fastest_first[1:]),
        box=tuple(dim.length for dim in fastest_first),
        steps=tuple(dim.step for dim in fastest_first),
        swizzle=swizzle,
        before=integers.add(*(integers.mul(dim.before, dim.stride) for dim in dims)),
    )


@dataclass(frozen=True, slots=True)
class PrefetchTile(Statement, orders=Orders.NOTHING):
    """A box comes to the L2 before a copy brings it from there: `cp.async.bulk.prefetch.tensor`.

    No result depends on it.

    Attributes:
        dims, swizzle: as of that copy, whose map it goes by.
    """

    words = "prefetch {memory.name}[{dims}]"

    memory: Buffer = field(metadata=plain())
    dims: tuple[TileDim, ...] = field(metadata=nested())
    swizzle: int = field(default=0, metadata=plain())

    @property
    def tensor_map(self) -> TensorMap:
        """The map, without a name."""
        return map_of(self.memory, self.dims, self.swizzle)


@dataclass(frozen=True, slots=True)
class TileNeeds:
    """What must hold for the TMA unit to copy a tensor; checked by every launch.

    Where it does not hold, a kernel is used in which the threads copy the tensor.

    Attributes:
        tensor: name of the tensor that is copied.
        memory: name of the global buffer, whose address must be a multiple of 16 bytes.
        bytes: sizes and strides, over the launch's scalars, that must be multiples of 16.
        row: bytes of the fastest dimension; pieces that threads copy must divide it.
    """

    tensor: str
    memory: str
    bytes: tuple[Expr, ...]
    row: Expr


@dataclass(frozen=True, slots=True)
class PrefetchMap(Statement, orders=Orders.NOTHING):
    """A tensor map comes to the cache before a copy needs it: `prefetch.tensormap`."""

    words = "prefetch {name}"

    name: str = field(metadata=plain())
