"""What a product's kernel computes of one operand, in the registers that tensor cores read it from.

Only the first operand of an instruction can be there, so that one is a tile's rows: of a product
whose second operand is computed, operands change places. What is as large as the operand comes
through shared memory in the type that it is stored in, and so do bytes that hold several elements
each, which one thread makes of them; what is smaller, such as a scale of each row or of parts of k,
the threads load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, ParallelType, Split
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.products import split_operand
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.schedulers.matmul.loads import REGISTER_BYTES, loads_of
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.shape import is_computed, is_turned, sources_of
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

MATRIX_BYTES = 2
"""Of the elements that `ldmatrix` loads."""


def refusal(fusion: Program, product: Matmul, operand: TensorView) -> str:
    """Why an operand cannot be computed in registers, tile by tile; empty where it can."""
    for operation in fusion.depends_on([operand]):
        if not isinstance(operation, Pointwise | Move | Full | Iota):
            return f"{operation.outputs[0].name}, which an operand needs, is no pointwise work"
    sources = sources_of(operand)
    if not sources:
        return f"{operand.name}, an operand of its product, is computed of nothing as large"
    if is_packed_across(product, product.operands.index(operand)):
        return f"{sources[0].name} is packed along other dimensions than the summed one"
    first, *others = sources
    for other in others:
        if (other.memory_order(), other.contiguity) != (first.memory_order(), first.contiguity):
            return f"{other.name} and {first.name}, of which an operand is computed, lie apart"
    return _covered(fusion, product, operand, sources)


def is_packed_across(product: Matmul, which: int) -> bool:
    """Whether an operand's memory has several elements of it in one, which do not lie along k."""
    packed = any(load.packed > 1 for load in loads_of(product.operands[which]))
    return packed and is_turned(product, which)


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


UNPACKING = {"bitwise_left_shift", "bitwise_right_shift", "bitwise_and"}
"""What takes an element out of a byte of several: with its conversion no more instructions than the
conversion of a whole byte (docs/lessons/weights.md)."""

HELD_OPERATIONS = 4
"""Instructions that bring an element from shared memory to registers and pack it, its share of the
loop around it included: int8 weights take 181 for 32 elements, their conversions among them."""

WIDE, WIDE_OPERATIONS = 2, 2
"""Bytes of an element beyond which shared memory is busy, which each passes twice, while tensor
cores read the other operand there; and the instructions that one more takes as long as: products
of weights in Float took 1.21 times what is predicted without, 1.01 with it
(docs/lessons/weights.md)."""


@dataclass(frozen=True, slots=True)
class Prologue:
    """What tiles of a computed operand take.

    Attributes:
        element: bytes of an element of the first tensor that is loaded for them.
        share: bytes that are loaded for each byte of them.
        operations: instructions that compute an element.
        packed: elements of the operand that one of that tensor is for.
    """

    element: int
    share: float
    operations: int
    packed: int = 1

    @property
    def stored(self) -> tuple[int, int]:
        """Bytes of that element, and elements of the operand that it is for."""
        return self.element, self.packed


def prologue_of(fusion: Program, operand: TensorView) -> Prologue | None:
    """What it takes to compute an operand in registers; None where it is loaded."""
    return taken(operand, fusion.depends_on([operand])) if is_computed(operand) else None


def taken(operand: TensorView, leading: Iterable[Operation]) -> Prologue:
    """What it takes to compute an operand by the operations that lead to it, which are in order.

    Those count that are done for each element: what is computed of scales, or of numbers of
    elements, many elements share.
    """
    loads = loads_of(operand)
    reached = {load.memory for load in loads}
    operations = HELD_OPERATIONS
    for operation in leading:
        if not reached.isdisjoint(tensor_inputs(operation)):
            reached.update(operation.outputs)
            operations += isinstance(operation, Pointwise) and not _is_free(operation)
    loaded = sum(load.memory.dtype.size / load.packed for load in loads)
    operations += WIDE_OPERATIONS * max(0, round(loaded) - WIDE)
    share = loaded / operand.dtype.size
    return Prologue(loads[0].memory.dtype.size, share, operations, loads[0].packed)


def _is_free(operation: Pointwise) -> bool:
    """Whether it takes no instruction: a copy, or what makes an integer another one."""
    of_integers = not any(t.dtype.is_float for t in (operation.output, *tensor_inputs(operation)))
    return operation.op == "set" or (of_integers and operation.op in UNPACKING | {"cast"})


MOST_AHEAD = 8
"""Elements of what several of k share that a thread loads a step ahead, and moves as it comes."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What a thread holds of a tensor that several elements of k in a row share, such as scales.

    Attributes:
        copy: of the tensor.
        dimension: along which it is repeated.
        times: how often.
        depth: of a tile along k.
        summed: k.
    """

    copy: TensorView
    dimension: int
    times: int
    depth: int
    summed: IterDomain

    @staticmethod
    def of(fusion: Fusion, product: Matmul, depth: int) -> Iterator[Shared]:
        """Copies, made here, of what the first operand repeats as often as tiles divide, or are
        divided by.
        """
        domains = map_of(fusion)
        summed = product.a.shape_axes[product.axes[0].index(len(product.output.root) - 1)]
        for operation in fusion.depends_on([product.a]):
            if not isinstance(operation, Move) or not operation.source.is_input:
                continue
            walked = zip(operation.output.root, operation.origin, operation.repeats, strict=False)
            for axis, dimension, times in walked:
                divides = 0 in (depth % times, times % depth)
                if dimension is not None and domains.same(axis, summed) and divides:
                    copy = cache_after(operation.source, cached_uses=[operation.output])
                    yield Shared(copy, dimension, times, depth, summed)

    @property
    def extent(self) -> Expr:
        """Elements along the dimension."""
        return self.copy.shape_axes[self.dimension].extent

    @property
    def held(self) -> int:
        """Elements that a thread has of it in a step, of its two rows."""
        return 2 * max(1, self.depth // self.times)

    def lay(self, operand: TensorView, at: int) -> None:
        """Loops `[.., group, thread, 2]` become `[.., k tile, group, thread, 2]`, and where a tile
        has several elements, there is one over them behind.

        Args:
            operand: which has the loop over tiles of k behind so many.
        """
        copy, loops = self.copy, list(self.copy.loop)
        loops.insert(at, operand.loop[at].clone())
        if self.times > self.depth:  # which one tiles share, a split of the loop over them says
            copy.loop = [self._tiles_of(operand).clone()]
            split(copy, 0, self.times // self.depth)
        elif self.times < self.depth:
            copy.loop = [copy.shape_axes[self.dimension]]
            split(copy, 0, self.depth // self.times)
            loops.append(copy.loop[-1])
        copy.loop = loops

    def _tiles_of(self, operand: TensorView) -> IterDomain:
        """The loop over all tiles of k, of which a block may have a part."""
        domains, depth = map_of(Fusion.of(operand)), integers.index(self.depth)
        splits = (t for t in operand.transforms if isinstance(t, Split) and t.factor == depth)
        return next(each.outer for each in splits if domains.same(each.axis, self.summed))


@dataclass(frozen=True, slots=True)
class Held:
    """An operand that the threads of a warp group compute in their registers.

    Attributes:
        operand: it.
        tiles: in shared memory, of what is as large as the operand, each with how many of its
            elements one is for.
        copies: of these, but for packed ones, which threads read as they compute.
        shared: copies of what has an element for several of k.
        others: what else is computed on the way from the copies to the operand.
    """

    operand: TensorView
    tiles: dict[TensorView, int]
    copies: tuple[TensorView, ...]
    shared: tuple[Shared, ...]
    others: tuple[TensorView, ...]

    @staticmethod
    def of(fusion: Fusion, product: Matmul, params: MatmulParams) -> Held | None:
        """What leads to the first operand of a product, with copies of its tiles that are made
        here; None where it is no more than they are.
        """
        operand = product.a
        if not is_computed(operand):
            return None
        tiles = {load.copy: load.packed for load in loads_of(operand)}
        copies = tuple(cache_after(tile) for tile, packed in tiles.items() if packed == 1)
        shared = tuple(Shared.of(fusion, product, params.tile[2]))
        if params.whole > 1:
            summed = map_of(fusion).extent_of(product.output.root[-1])
            steps = [integers.ceildiv(summed, params.tile[2])]
            steps += [each.extent for each in shared if each.times == each.depth]
            fusion.divisors |= {(summed, params.whole)}
            if params.whole % (params.tile[2] * params.splits) == 0:
                fusion.divisors |= {(n, params.splits) for n in steps}
        made = (out for op in fusion.depends_on([operand]) for out in op.outputs)
        apart = {operand, *tiles, *copies, *(each.copy for each in shared)}
        return Held(operand, tiles, copies, shared, tuple(t for t in made if t not in apart))

    @property
    def tensors(self) -> tuple[TensorView, ...]:
        return (*self.copies, *self._spread, *self.others, self.operand)

    @property
    def _spread(self) -> tuple[TensorView, ...]:
        return tuple(each.copy for each in self.shared)

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
        operand, rest = self.operand, (*self.copies, *self._spread, *self.others)
        split(operand, at, ROWS)  # group, 64, columns, k tile, k
        reorder(operand, {at + 3: at, at: at + 1, at + 2: at + 2, at + 1: at + 3})
        split_operand(operand, at + 3, operand.dtype)
        parallelize(operand, at + 1, ParallelType.block_y)
        parallelize(operand, at + 3, ParallelType.block_x)
        transform_like(operand, rest)
        parallelize_like(operand, selected_tensors=rest)
        packed = operand.dtype.size < REGISTER_BYTES
        rows = [tensor for tensor in self.others if not _walks_k(tensor, parts)]
        for tensor in (*rows, *self._spread):  # group, thread, 2
            loops = tensor.loop
            tensor.loop = [*loops[:at], loops[at + 1], loops[at + 3], loops[-2 if packed else -1]]
        for each in self.shared:
            each.lay(operand, at)
        inside = [tensor for tensor in rest if tensor not in rows]
        inline_at(parts, at + 2, selected_tensors=[operand, *inside])
        if rows:
            inline_at(parts, at, selected_tensors=rows)
        inside = [tensor for tensor in inside if tensor not in self._spread]
        for copy in self.copies:
            if copy.dtype.size == MATRIX_BYTES:
                inside.remove(copy)
            elif packed and not turned:
                parallelize(copy, -1, ParallelType.vectorize)
        if inside:
            inline_most(Fusion.of(operand), inside)
        for each in self.shared:
            if each.held <= MOST_AHEAD:
                circular_buffer(each.copy, 2)


def _walks_k(tensor: TensorView, parts: TensorView) -> bool:
    """Whether a tensor has the dimension that a product sums, or a part of it."""
    domains = map_of(Fusion.of(tensor))
    known = [domains.group(axis) for axis in parts.root if not axis.is_broadcast]
    derivation = Derivation(domains, dict.fromkeys(known, integers.ZERO))
    summed = domains.group(parts.root[-1])
    walked = (domains.group(axis) for axis in tensor.shape_axes if not axis.is_broadcast)
    return any(summed in derivation.needs(group) for group in walked)
