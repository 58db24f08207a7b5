"""When the matmul scheduler applies."""

from __future__ import annotations

from collections.abc import Sequence, Set

from warpsmith.ir import integers
from warpsmith.ir.atoms import atom_for
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, tensor_inputs
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.program import Program
from warpsmith.ir.reads import Read, at, start_and_step, stretch_of
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.layouts.matrices import WORD
from warpsmith.reach import reached
from warpsmith.schedulers.matmul import partials, prologues
from warpsmith.schedulers.matmul.blocks import factors_of, unscaled
from warpsmith.schedulers.matmul.partials import has_parts, is_partial
from warpsmith.schedulers.matmul.sectors import DEPTH_BYTES
from warpsmith.schedulers.matmul.shape import (
    fastest_of,
    is_computed,
    last_row,
    memory_of,
    shape_of,
    tiles_of,
)
from warpsmith.schedulers.matmul.turned_columns import is_of_columns
from warpsmith.targets.atoms import Atom, Unit
from warpsmith.targets.target import Target

MOVES = (
    "broadcast",
    "broadcast_in_dim",
    "expand",
    "permute",
    "repeat_interleave",
    "squeeze",
)
"""Kinds of moves whose dimensions are those of the product, or parts of them."""

MOST_PRODUCTS = 2
"""Of one left operand and of the same dimensions, whose sums a warp group holds at once."""

MAP_RANK = 5
"""Dimensions of a tensor map (CUDA driver API)."""


def refusal(fusion: Program, target: Target) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    if not products:
        return "it has no matrix product"
    if len(products) > MOST_PRODUCTS:
        return f"it has {len(products)} matrix products"
    product, *others = products
    for other in others:
        alike = other.a is product.a and other.axes == product.axes and other.ends is product.ends
        if not alike or other.b is product.b or factors_of(product) or factors_of(other):
            return f"it has {len(products)} matrix products"
        if any(is_computed(each) for each in (product.a, product.b, other.b)):
            return f"it has {len(products)} matrix products, and computes an operand"
    unfit = "".join(_operands(fusion, unscaled(each), target) or _sizes(each) for each in products)
    return _scales(fusion, product) or unfit or _results(fusion, products)


def _scales(fusion: Program, product: Matmul) -> str:
    """Why the product of operands that are scaled by blocks of k is not one of what they were."""
    factors = factors_of(product)
    if factors is None:
        return ""
    share = max(each.share for each in factors)
    if share * factors[0].narrow.dtype.size != DEPTH_BYTES:
        return f"{share} elements of k share a scale, and a tile has {DEPTH_BYTES} bytes of them"
    read = {t for op in _beside(fusion, [product]) for t in tensor_inputs(op)}
    for source in (source for each in factors for source in each.sources):
        if not source.is_input:
            return f"{source.name}, which its product scales, or by which, is not an input"
        if source in read:
            return f"{source.name}, which its product scales, or by which, is read beside it"
    return ""


def _operands(fusion: Program, product: Matmul, target: Target) -> str:
    """Why tensor cores cannot read the operands."""
    if not any(atom.unit is Unit.WGMMA for atom in target.family.atoms):
        return f"{target.name} ({target.family.arch}) has no product of tensor cores that is known"
    if product.a is product.b:
        return "its product has one tensor as both operands"
    if product.ends is not None and not product.ends.is_input:
        return f"{product.ends.name}, which says where its groups end, is not an input"
    computed = [operand for operand in (product.a, product.b) if is_computed(operand)]
    if computed and product.ends is not None:
        return f"{computed[0].name}, an operand of its product by group, is not an input"
    if len(computed) > 1:
        return "both operands of its product are computed, and one of them can be in registers"
    for which, operand in enumerate((product.a, product.b)):
        atom = atom_for(product, target.family.atoms)
        if atom is None:
            return f"{operand.name}, an operand of its product, is {operand.dtype.value}"
        if operand in computed and (refused := prologues.refusal(fusion, product, operand)):
            return refused
        if refused := _no_stretch(product, which):
            return refused
        memory = memory_of(operand)
        order = memory.concrete_order()
        lies = fastest_of(product, which) in majors(product, which, atom)
        if not lies or not memory.contiguity[order[-1]]:
            ways = ("k or m", "k or n")[which] if atom.any_major else "k"
            return f"{memory.name}, an operand of its product, is not contiguous along {ways}"
        if len(order) > MAP_RANK and not all(memory.contiguity[d] for d in order):
            return f"{memory.name}, an operand of its product, has {len(order)} dimensions apart"
    return ""


def _no_stretch(product: Matmul, which: int) -> str:
    """Why the TMA unit cannot load an operand that is a stretch of a tensor: it reads 0 where that
    ends, not the stretch, and takes neighbours alone along the fastest dimension.
    """
    operand, axes = product.operands[which], product.axes[which]
    for tensor in tiles_of(operand):
        stretch = stretch_of(tensor)
        if stretch is None:
            continue
        (source,), (places,) = stretch.sources, stretch.places
        summed = axes.index(len(product.output.root) - 1)
        whole = source.shape_axes[summed].extent == tensor.root[summed].extent
        if is_computed(operand):
            return (
                f"{operand.name}, an operand of its product, is computed of a part of {source.name}"
            )
        if not whole or places[summed] != at(summed):
            return f"{operand.name}, an operand of its product, is a part of {source.name} along k"
        fastest = source.concrete_order()[-1]
        walked = start_and_step(places[fastest], fastest)
        if walked is None or walked[1] > 1:
            return f"{operand.name}, an operand of its product, has no neighbours in {source.name}"
    return ""


def majors(product: Matmul, which: int, atom: Atom | None) -> tuple[int, ...]:
    """The product's root axes along one of which an operand's memory is to be contiguous: k, and
    where the atom takes it, as threads do of words, the last of a tile's rows or columns.
    """
    last = len(product.output.root) - 1
    any_major = product.a.dtype.size >= WORD if atom is None else atom.any_major
    if not any_major or (which == 0 and product.ends is not None):
        return (last,)
    return (last, *((last - 1,) if which else last_row(product)))


def _sizes(product: Matmul) -> str:
    """Why there are no tiles: one row or column is summed faster by threads, none has no boxes."""
    shape = shape_of(product)
    if any(axis.extent == integers.ZERO for axis in product.output.root[:-1]):
        return "its product has a dimension of 0"
    if not shape.rows:
        return "its product has one row"
    if product.output.root[shape.columns[-1]].is_broadcast:
        return "its product has one column"
    return ""


def _results(fusion: Program, products: list[Matmul]) -> str:
    """Why what is computed from products, and beside them, does not fit their loops."""
    product, *_ = products
    others, memory = _beside(fusion, products), {*fusion.input_tensors}
    partial = [op for op in others if is_partial(op)]
    others = [op for op in others if op not in partial]
    reads = [other for other in others if not _is_pointwise(other)]
    turns = [each for each in reads if any(is_of_columns(each, op) for op in products)]
    if not all(_is_small_read(each, product, memory) for each in reads if each not in turns):
        return "it has other operations than pointwise ones beside the product"
    if turns and (partial or factors_of(product) or product.ends or is_computed(product.b)):
        return "it reads columns in place of others, of a product that is no plain one"
    if reason := partials.refusal(fusion, product):
        return reason
    domains = map_of(fusion)
    wanted = _dimensions(domains, product.output)
    walked = [domains.group(axis) for axis in product.output.root if not axis.is_broadcast]
    if len(set(walked)) < len(walked):
        return f"two dimensions of {product.output.name} come from one dimension of its inputs"
    for output in dict.fromkeys(output.value for output in fusion.outputs):
        if not has_parts(output) and sorted(_dimensions(domains, output)) != sorted(wanted):
            return f"its output {output.name} has other dimensions than the product"
    if any(_dimensions(domains, each.output) != wanted for each in products):
        return "its products have different dimensions"
    return _covered(domains, product.output, [op.outputs[0] for op in others])


def _beside(fusion: Program, products: list[Matmul]) -> list[Operation]:
    """All other operations, but those that only operands need."""

    def before(tensor: TensorView) -> Sequence[TensorView]:
        made = tensor.definition
        return () if made is None or made in products else tensor_inputs(made)

    made = {each.definition for each in reached((o.value for o in fusion.outputs), before)}
    return [op for op in fusion.operations if op in made and op not in products]


def _dimensions(domains: DomainMap, tensor: TensorView) -> list[Group]:
    return [domains.group(axis) for axis in tensor.shape_axes if not axis.is_broadcast]


def _is_pointwise(operation: Operation) -> bool:
    if isinstance(operation, Move):
        counts = isinstance(operation.source.definition, Iota)
        return operation.kind in MOVES or (operation.kind == "reshape" and counts)
    return isinstance(operation, Pointwise | Full | Iota)


def _is_small_read(operation: Operation, product: Matmul, memory: Set[TensorView]) -> bool:
    """Whether it reads, at places that sizes alone say, what lies in memory, or what rows, or
    columns, share.
    """
    if not isinstance(operation, Read) or operation.indices:
        return False
    return memory >= {*operation.sources} or len(operation.output.concrete_order()) < len(
        product.output.concrete_order()
    )


def _covered(domains: DomainMap, product: TensorView, others: list[TensorView]) -> str:
    known = {domains.group(axis): integers.ZERO for axis in product.shape_axes}
    derivation = Derivation(domains, known)
    for tensor in others:
        for axis in tensor.logical:
            if not axis.is_broadcast and not derivation.reaches(domains.group(axis)):
                return f"{tensor.name} has a dimension that the product lacks"
    return ""
