"""Reshape, as merges and splits of dimensions.

The dimensions of both shapes are grouped from the left so that each group has one product on both
sides: `[6, 4, n] -> [24, n]` is the groups `6, 4 -> 24` and `n -> n`. Within a group all input
dimensions are merged and the result is split, which loops over unrelated dimensions never see.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, domains, integers
from warpsmith.ir.domains import IterDomain, Split, Transform
from warpsmith.ir.exprs import Full, Move
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.factories import full
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.promotion import rounded, unrounded
from warpsmith.ops.shape import Extents, as_extent, squeeze
from warpsmith.ops.values import as_tensor
from warpsmith.values import dataclass


def reshape(arg: TensorView, new_shape: Extents) -> TensorView:
    """The tensor's elements, in row-major order, in another shape.

    One entry of `new_shape` may be -1. Sizes that are only known at run time may be given as
    expressions of `size`; a call checks that the shapes agree.

    Raises:
        DefinitionError: two entries -1, or constant shapes of different numbers of elements.
    """
    tensor = as_tensor(arg, "reshape")
    old = tuple(axis.extent for axis in tensor.shape_axes)
    new = _resolved(tensor, old, new_shape)
    if old == new:
        return tensor
    squeezed = [extent for extent in old if extent != integers.ONE]
    if bool(squeezed) != any(extent != integers.ONE for extent in new):
        raise _disagreement(tensor, old, new_shape, "define the extents that are 1 as 1")
    if integers.ZERO in old and integers.ZERO in new:
        return full(new, 0, tensor.dtype, fusion=Fusion.of(tensor))
    return rounded(_moved(unrounded(tensor), new), tensor.dtype)


def _moved(tensor: TensorView, new: tuple[Expr, ...]) -> TensorView:
    """Dimensions of extent 1 are squeezed before, and broadcast after, the merges and splits."""
    ones = [d for d, axis in enumerate(tensor.shape_axes) if axis.is_broadcast]
    source = squeeze(tensor, ones)
    wanted = tuple(extent for extent in new if extent != integers.ONE)
    if tuple(axis.extent for axis in source.shape_axes) != wanted:
        source = _regrouped(source, wanted)
    return add_axes(source, [extent == integers.ONE for extent in new])


def _regrouped(source: TensorView, wanted: tuple[Expr, ...]) -> TensorView:
    root = tuple(IterDomain(axis.extent, axis.kind) for axis in source.shape_axes)
    transforms: list[Transform] = []
    logical: list[IterDomain] = []
    old = [axis.extent for axis in root]
    for group in groups(old, wanted):
        axes = root[group.first : group.first + group.count]
        logical += _transformed(axes, group.targets, transforms)
    output = Fusion.of(source).tensor(
        source.dtype, tuple(logical), root=root, transforms=tuple(transforms)
    )
    Fusion.of(source).divisors |= _constant_divisors(transforms)
    origin = tuple(range(source.rank))
    Fusion.of(source).append(Move("reshape", source, output, origin, (wanted,)))
    return output


def shaping(tensor: TensorView) -> list[Transform]:
    """The transforms that lead from root to logical; those of the loops come after them."""
    below = set(tensor.logical)
    found: list[Transform] = []
    for transform in tensor.transforms:
        split = isinstance(transform, Split)
        sources = (transform.axis,) if split else (transform.outer, transform.inner)
        if any(axis in below for axis in sources):
            below.update(transform.results)
        else:
            found.append(transform)
    return found


def uneven_splits(transforms: Sequence[Transform]) -> list[Split]:
    """Splits that only divide evenly if the extents at run time say so."""
    return [
        transform
        for transform in transforms
        if isinstance(transform, Split)
        and not integers.divides(transform.factor, transform.axis.extent)
    ]


def without_reshapes(program: Fusion, numbers: Collection[int]) -> Fusion:
    """A copy in which the reshapes that make tensors of these numbers are tensors of zeros.

    That is what a call means in which they have no elements: their extents are free then, and need
    not be products of those that were reshaped.
    """
    twin = program.draft()
    moves = [op for op in twin.operations if isinstance(op, Move)]
    for move in moves:
        if (output := move.output).number in numbers:
            output.root, output.loop, output.transforms = output.logical, list(output.logical), []
            twin.replace(move, Full(arithmetic.convert(literal(0), output.dtype), output))
    remove_dead(twin)
    facts = (_constant_divisors(shaping(t)) for t in twin.computed)
    twin.divisors = frozenset[tuple[Expr, int]]().union(*facts)
    return twin


def _constant_divisors(transforms: Sequence[Transform]) -> frozenset[tuple[Expr, int]]:
    """What lowering may rely on, since a call checks every split of elements."""
    return frozenset(
        (split.axis.extent, int(split.factor.value))
        for split in uneven_splits(transforms)
        if isinstance(split.factor, Const)
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Input dimensions `first` to `first + count`, which become dimensions of extents `targets`."""

    first: int
    count: int
    targets: tuple[Expr, ...]


def groups(old: Sequence[Expr], new: Sequence[Expr]) -> list[Group]:
    """The finest groups that can be told from the extents.

    Equal dimensions at the end are groups of their own; where nothing can be told from the left,
    one group takes what is left.
    """
    same = 0
    while same < min(len(old), len(new)) and old[-1 - same] == new[-1 - same]:
        same += 1
    if len(old) != len(new) and same == min(len(old), len(new)):
        same -= 1  # neither side may be left without a dimension when the other has some
    tail = [Group(k, 1, (old[k],)) for k in range(len(old) - same, len(old))]
    old, new = old[: len(old) - same], new[: len(new) - same]
    found: list[Group] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, start = i, j
        i, j = i + 1, j + 1
        left, right = old[first], new[start]
        while left != right:
            if i < len(old) and _extends(left, right):
                left = integers.mul(left, old[i])
                i += 1
            elif j < len(new) and _extends(right, left):
                right = integers.mul(right, new[j])
                j += 1
            else:
                i, j = len(old), len(new)
                break
        if i == len(old) or j == len(new):
            i, j = len(old), len(new)
        found.append(Group(first, i - first, tuple(new[start:j])))
    return [*found, *tail]


def _extends(product: Expr, other: Expr) -> bool:
    """Whether `product` needs more factors to become `other`, as far as can be told."""
    if isinstance(product, Const) and isinstance(other, Const):
        return product.value < other.value
    return integers.divides(product, other)


def _transformed(
    axes: Sequence[IterDomain], targets: Sequence[Expr], transforms: list[Transform]
) -> list[IterDomain]:
    """Merge `axes` and split the result into `targets`; appends what it does to `transforms`.

    One target is what is left after the others are split off: a symbolic one if there is any, so
    that split factors are constants.
    """
    rest = axes[0]
    for axis in axes[1:]:
        joined = domains.merge(rest, axis)
        transforms.append(joined)
        rest = joined.axis
    symbolic = [k for k, extent in enumerate(targets) if not isinstance(extent, Const)]
    remaining = symbolic[0] if symbolic else 0
    before: list[IterDomain] = []
    after: list[IterDomain] = []
    for k in range(remaining):
        others = integers.mul(*targets[k + 1 :])
        parts = domains.split(rest, targets[k], inner_split=False, other=others)
        transforms.append(parts)
        before.append(parts.outer)
        rest = parts.inner
    for k in reversed(range(remaining + 1, len(targets))):
        parts = domains.split(rest, targets[k], other=integers.mul(*targets[remaining:k]))
        transforms.append(parts)
        after.insert(0, parts.inner)
        rest = parts.outer
    return [*before, rest, *after]


def _resolved(tensor: TensorView, old: tuple[Expr, ...], new_shape: Extents) -> tuple[Expr, ...]:
    """The new extents with -1 computed."""
    entries = [
        None if isinstance(entry, int) and entry == -1 else as_extent(entry, "reshape")
        for entry in new_shape
    ]
    if entries.count(None) > 1:
        raise _disagreement(tensor, old, new_shape, "give -1 at most once")
    given = tuple(entry for entry in entries if entry is not None)
    total, known = integers.mul(*old), integers.mul(*given)
    both = isinstance(total, Const) and isinstance(known, Const)
    if None not in entries:
        if both and total != known:
            raise _disagreement(tensor, old, new_shape, "the products must be equal")
        return given
    if known == integers.ZERO or (both and not integers.divides(known, total)):
        raise _disagreement(tensor, old, new_shape, "-1 needs a whole, definite quotient")
    inferred = _quotient(old, given, total, known)
    return tuple(inferred if entry is None else entry for entry in entries)


def _quotient(old: tuple[Expr, ...], given: tuple[Expr, ...], total: Expr, known: Expr) -> Expr:
    """`total / known`, without the extents that both sides have, so that it is short."""
    if isinstance(total, Const) or integers.divides(known, total):
        return integers.floordiv(total, known)
    numerator, divisor = list(old), []
    for extent in given:
        if extent in numerator:
            numerator.remove(extent)
        else:
            divisor.append(extent)
    return integers.floordiv(integers.mul(*numerator), integers.mul(*divisor))


def _disagreement(
    tensor: TensorView, old: tuple[Expr, ...], new_shape: Extents, remedy: str
) -> DefinitionError:
    return DefinitionError(
        f"reshape of {tensor.name} from {list(old)} to {list(new_shape)} is not possible",
        code="WS0139",
        remedy=remedy,
    )
