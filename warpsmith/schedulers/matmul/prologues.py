"""What a product's kernel computes of one operand, in the registers that tensor cores read it from.

Only the first operand of an instruction can be there, so that one is a tile's rows: of a product
whose second operand is computed, operands change places. What is as large as the operand comes
through shared memory in the type that it is stored in; what is smaller, such as a scale of each row
or of parts of k, the threads load.
"""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.products import split_operand
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.shape import is_computed, loads_of, sources_of, tiles_of
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

MATRIX_BYTES = 2
"""Of the elements that `ldmatrix` loads."""

REGISTER_BYTES = 4
"""Of a register, in which neighbours along k lie together where they are smaller."""


def refusal(fusion: Program, product: Matmul, operand: TensorView) -> str:
    """Why an operand cannot be computed in registers, tile by tile; empty where it can."""
    for operation in fusion.depends_on([operand]):
        if not isinstance(operation, Pointwise | Move | Full | Iota):
            return f"{operation.outputs[0].name}, which an operand needs, is no pointwise work"
    sources = sources_of(operand)
    if not sources:
        return f"{operand.name}, an operand of its product, is computed of nothing as large"
    first, *others = sources
    for other in others:
        if (other.memory_order(), other.contiguity) != (first.memory_order(), first.contiguity):
            return f"{other.name} and {first.name}, of which an operand is computed, lie apart"
    return _covered(fusion, product, operand, sources)


def _covered(
    fusion: Program, product: Matmul, operand: TensorView, sources: Collection[TensorView]
) -> str:
    """Why the loops of a product do not reach what an operand is computed of."""
    domains = map_of(fusion)
    known = [domains.group(axis) for axis in product.output.root if not axis.is_broadcast]
    derivation = Derivation(domains, dict.fromkeys(known, integers.ZERO))
    own = {domains.group(axis) for axis in operand.shape_axes if not axis.is_broadcast}
    for operation in fusion.depends_on([operand]):
        (tensor,) = operation.outputs
        axes = [axis for axis in (*tensor.root, *tensor.logical) if not axis.is_broadcast]
        if not all(derivation.reaches(domains.group(axis)) for axis in axes):
            return f"{tensor.name} has a dimension that the product lacks"
        for source in tensor_inputs(operation):
            if isinstance(operation, Pointwise) and (source in sources or not source.is_input):
                continue
            pairs = operation.pairs(source)
            if own <= {domains.group(axis) for before, axis in pairs if not before.is_broadcast}:
                return f"{source.name}, of which an operand is computed, has its dimensions moved"
    return ""


HELD_OPERATIONS = 4
"""Instructions that bring an element from shared memory to registers and pack it, its share of the
loop around it included: int8 weights take 181 for 32 elements, their conversions among them."""


@dataclass(frozen=True, slots=True)
class Prologue:
    """What tiles of a computed operand take.

    Attributes:
        element: bytes of an element of the first tensor that is loaded for them.
        share: bytes that are loaded for each byte of them.
        operations: instructions that compute an element.
    """

    element: int
    share: float
    operations: int


def prologue_of(fusion: Program, operand: TensorView) -> Prologue | None:
    """What it takes to compute an operand in registers; None where it is loaded."""
    if not is_computed(operand):
        return None
    sizes = [source.dtype.size for source, _ in loads_of(operand)]
    leading = (op for op in fusion.depends_on([operand]) if isinstance(op, Pointwise))
    operations = HELD_OPERATIONS + sum(op.op != "set" for op in leading)
    return Prologue(sizes[0], sum(sizes) / operand.dtype.size, operations)


@dataclass(frozen=True, slots=True)
class Held:
    """An operand that the threads of a warp group compute in their registers.

    Attributes:
        operand: it.
        tiles: in shared memory, of what is as large as the operand.
        copies: of these.
        others: what else is computed on the way from the copies to the operand.
    """

    operand: TensorView
    tiles: tuple[TensorView, ...]
    copies: tuple[TensorView, ...]
    others: tuple[TensorView, ...]

    @staticmethod
    def of(fusion: Fusion, product: Matmul, params: MatmulParams) -> Held | None:
        """What leads to the first operand of a product, with copies of its tiles that are made
        here; None where it is no more than they are.
        """
        operand = product.a
        if not is_computed(operand):
            return None
        if params.whole > 1:
            summed = map_of(fusion).extent_of(product.output.root[-1])
            steps = integers.ceildiv(summed, params.tile[2])
            fusion.divisors |= {(summed, params.whole), (steps, params.splits)}
        tiles = tiles_of(operand)
        copies = tuple(map(cache_after, tiles))
        made = (out for op in fusion.depends_on([operand]) for out in op.outputs)
        apart = {operand, *tiles, *copies}
        return Held(operand, tiles, copies, tuple(t for t in made if t not in apart))

    @property
    def tensors(self) -> tuple[TensorView, ...]:
        return (*self.copies, *self.others, self.operand)

    def lay(self, parts: TensorView, at: int, *, turned: bool) -> None:
        """Have each thread compute its part of a tile, behind the copies of it.

        Loops `[turn, grid_x, rows, columns, k tile, k]` of the operand, and of all that leads to
        it, become `[turn, grid_x, k tile, group, columns, thread, k / 8, 2, 2]`; what does not walk
        k is computed outside its tiles. Matrices of 16 bits are loaded as such, other elements in
        vectors of those that lie together. Of an operand of 32 bits none do, and there is no last
        loop of 2.

        Args:
            parts: what the product sums.
            at: how many loops stand before the rows.
            turned: what is as large as the operand does not lie along k.
        """
        operand, rest = self.operand, (*self.copies, *self.others)
        split(operand, at, ROWS)  # group, 64, columns, k tile, k
        reorder(operand, {at + 3: at, at: at + 1, at + 2: at + 2, at + 1: at + 3})
        split_operand(operand, at + 3, operand.dtype)
        parallelize(operand, at + 1, ParallelType.block_y)
        parallelize(operand, at + 3, ParallelType.block_x)
        transform_like(operand, rest)
        parallelize_like(operand, selected_tensors=rest)
        packed = operand.dtype.size < REGISTER_BYTES
        rows = [tensor for tensor in self.others if not _walks_k(tensor, parts)]
        for tensor in rows:  # group, thread, 2
            loops = tensor.loop
            tensor.loop = [*loops[:at], loops[at + 1], loops[at + 3], loops[-2 if packed else -1]]
        inside = [tensor for tensor in rest if tensor not in rows]
        inline_at(parts, at + 2, selected_tensors=[operand, *inside])
        if rows:
            inline_at(parts, at, selected_tensors=rows)
        for copy in self.copies:
            if copy.dtype.size == MATRIX_BYTES:
                inside.remove(copy)
            elif packed and not turned:
                parallelize(copy, -1, ParallelType.vectorize)
        if inside:
            inline_most(Fusion.of(operand), inside)


def _walks_k(tensor: TensorView, parts: TensorView) -> bool:
    """Whether a tensor has the dimension that a product sums, or a part of it."""
    domains = map_of(Fusion.of(tensor))
    known = [domains.group(axis) for axis in parts.root if not axis.is_broadcast]
    derivation = Derivation(domains, dict.fromkeys(known, integers.ZERO))
    summed = domains.group(parts.root[-1])
    walked = (domains.group(axis) for axis in tensor.shape_axes if not axis.is_broadcast)
    return any(summed in derivation.needs(group) for group in walked)
