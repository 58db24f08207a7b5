"""Statements about matrix products, which whole warps run.

Those of `wgmma` are for the threads of a warp group (four warps, the first of them a multiple of
four). Such a product is asynchronous: until its group has been waited for, its operands, those in
registers too, may still be read and its accumulators are not defined (PTX ISA, "Asynchronous
warpgroup level matrix instructions"). A warp's own `mma.sync` is over when it has run.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import (
    Done,
    Effect,
    Orders,
    Proxy,
    Who,
    access,
    expression,
    keeps,
    nested,
    plain,
    reads,
    updates,
    writes,
)
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.layouts.descriptors import Descriptor
from warpsmith.layouts.matrices import Matrices
from warpsmith.values import dataclass

_PRODUCT = Effect(proxy=Proxy.ASYNC, done=Done.PRODUCTS, who=Who.GROUP, words="wgmma accumulates")
_OPERAND = replace(_PRODUCT, reads=True, words="wgmma reads")
_HELD = replace(_OPERAND, words="wgmma reads registers")
_SUMS = replace(_PRODUCT, reads=True, writes=True)
_BY_WARPS = Effect(writes=True, who=Who.WARP, words="stmatrix writes")
_TO_WARPS = Effect(reads=True, who=Who.WARP, words="ldmatrix reads")

A_BYTES = 16
"""Bytes of operand a that a thread holds for one product: 64 rows of 32 bytes, of 128 threads."""


@dataclass(frozen=True, slots=True)
class MatrixTile(Declared):
    """An operand in shared memory, swizzled.

    Attributes:
        index: its first element, before 16-byte chunks trade places.
        descriptor: how it lies from there on.
    """

    words = "{buffer}"

    buffer: Buffer = field(metadata=access(_OPERAND, "index", ""))
    index: Expr = field(metadata=expression())
    descriptor: Descriptor = field(metadata=plain())

    @property
    def dtype(self) -> DataType:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class MatrixRegisters(Declared):
    """Operand a in registers, read until the group of the product has been waited for.

    Attributes:
        buffer: elements that lie as the atom's `a_layout` says; behind `pack_operands` words of 32
            bits, as the instruction reads them.
        index: the first of a thread's.
        dtype: of the elements.
    """

    words = "registers {buffer}"

    buffer: Buffer = field(metadata=access(_HELD, "index", "count"))
    index: Expr = field(metadata=expression())
    dtype: DataType = field(metadata=plain())

    @property
    def count(self) -> int:
        """Elements of the buffer that one product reads."""
        return A_BYTES // self.buffer.dtype.size


@dataclass(frozen=True, slots=True)
class PackRegisters(Statement):
    """Words of 32 bits from all of a thread's elements, neighbours in one.

    Attributes:
        dtype: of the elements in words; floats are rounded to it, to TF32 where that is Float.
    """

    words = "{target} = {source} packed as {dtype}"

    target: Buffer = field(metadata=writes(count=""))
    source: Buffer = field(metadata=reads(count=""))
    dtype: DataType = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class Multiply(Statement):
    """`wgmma.mma_async`: add the product of 64 rows of `a` and `columns` rows of `b`, transposed.

    Thread t of the warp group holds, of the 64 x columns accumulators, `columns / 2`: element
    `index + 4 * j + 2 * h + e` of its registers is row `16 * (t / 32) + 8 * h + t % 32 / 4` and
    column `8 * j + 2 * (t % 4) + e`.

    Attributes:
        accumulators: registers of the type that the operands' instruction sums in
            (`targets/atoms.py`).
        columns: 8 to 256, a multiple of 8.
        keep: whether the product is added; where false, it takes the accumulators' place.
    """

    collective: ClassVar[bool] = True
    words = "{accumulators} += {a} x {b}, {columns} columns, kept if {keep}"

    accumulators: Buffer = field(metadata=access(_SUMS, "index", "registers"))
    index: Expr = field(metadata=expression())
    a: MatrixTile | MatrixRegisters = field(metadata=nested())
    b: MatrixTile = field(metadata=nested())
    columns: int = field(metadata=plain())
    keep: Expr = field(metadata=expression())

    @property
    def registers(self) -> int:
        """Accumulators of a thread."""
        return self.columns // 2


@dataclass(frozen=True, slots=True)
class FenceProducts(Statement):
    """`wgmma.fence`: what was written to registers is there for the products that follow.

    Attributes:
        accumulators: that were written; so the compiler keeps these writes before it.
    """

    collective: ClassVar[bool] = True
    words = "fence for products"

    accumulators: tuple[Buffer, ...] = field(default=(), metadata=keeps())


@dataclass(frozen=True, slots=True)
class CommitProducts(Statement, orders=Orders.GROUP):
    """`wgmma.commit_group`: the products since the last one form a group."""

    collective: ClassVar[bool] = True
    words = "commit products"
    done: ClassVar[Done] = Done.PRODUCTS


@dataclass(frozen=True, slots=True)
class AwaitProducts(Statement, orders=Orders.GROUP):
    """`wgmma.wait_group`: wait until at most `pending` groups are on their way.

    Attributes:
        accumulators: that may be read behind it; so the compiler keeps reads there.
        apart: the compiler is not to know that it is run, as behind a loop that leaves a group on
            its way and certainly runs, or with nothing but the wait that asks whether it did: ptxas
            serializes the products of that loop otherwise.
    """

    collective: ClassVar[bool] = True
    words = "await products but {pending} groups{accumulators:, for %}"
    done: ClassVar[Done] = Done.PRODUCTS

    pending: int = field(default=0, metadata=plain())
    accumulators: tuple[Buffer, ...] = field(default=(), metadata=keeps())
    apart: bool = field(default=False, kw_only=True, metadata=plain())


@dataclass(frozen=True, slots=True)
class StoreMatrix(Statement):
    """`stmatrix`: each warp stores two or four 8 x 8 matrices of 16-bit elements.

    The elements from `source_index` on are, two by two, this lane's part of matrix 0, 1 and so on:
    elements `2 * (lane % 4)` and the next of row `lane / 4`; transposed, of two rows that are
    columns in memory. `target_index` is where this lane's row lies, of 16 bytes: row `lane % 8` of
    matrix `lane / 8`.
    """

    collective: ClassVar[bool] = True
    words = "{target} = {source} by stmatrix"

    target: Buffer = field(metadata=access(_BY_WARPS, "target_index", ""))
    target_index: Expr = field(metadata=expression())
    source: Buffer = field(metadata=reads("source_index", "elements"))
    source_index: Expr = field(metadata=expression())
    matrices: Matrices = field(default=Matrices(4, 2), metadata=plain())

    @property
    def elements(self) -> int:
        """Elements of a lane."""
        return self.matrices.count * self.matrices.each


@dataclass(frozen=True, slots=True)
class LoadMatrix(Statement):
    """`ldmatrix`: each warp loads one, two or four 8 x 8 matrices of 16 bits to its registers.

    `source_index` is where this lane's row lies, of 16 bytes: row `lane % 8` of matrix `lane / 8`.
    Which elements of which rows are a lane's, `layouts/matrices.py` says.
    """

    collective: ClassVar[bool] = True
    words = "{target} = {source} by ldmatrix"

    target: Buffer = field(metadata=writes("target_index", "elements"))
    target_index: Expr = field(metadata=expression())
    source: Buffer = field(metadata=access(_TO_WARPS, "source_index", ""))
    source_index: Expr = field(metadata=expression())
    matrices: Matrices = field(metadata=plain())

    @property
    def elements(self) -> int:
        """Elements of a lane."""
        return self.matrices.count * self.matrices.each


@dataclass(frozen=True, slots=True)
class Fragment(Declared):
    """What each thread of a warp has of an operand of `mma.sync`.

    Attributes:
        index: the first of a thread's `count` elements, which lie as the atom's layouts say.
    """

    words = "{buffer}"

    buffer: Buffer = field(metadata=reads("index", "count"))
    index: Expr = field(metadata=expression())
    count: int = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class MultiplyByWarp(Statement):
    """`mma.sync`: add the product of a's rows and 8 columns of b, transposed, to a warp's sums."""

    collective: ClassVar[bool] = True
    words = "{sums} += {a} x {b} by mma.sync"

    sums: Buffer = field(metadata=updates("index", "registers"))
    index: Expr = field(metadata=expression())
    registers: int = field(metadata=plain())
    a: Fragment = field(metadata=nested())
    b: Fragment = field(metadata=nested())


BY_WARPS = (
    Multiply,
    MultiplyByWarp,
    LoadMatrix,
    PackRegisters,
    FenceProducts,
    CommitProducts,
    AwaitProducts,
    StoreMatrix,
)
"""Statements that whole warps run, without a barrier."""
