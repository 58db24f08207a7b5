"""`einsum`: products and sums of tensors, told by a letter for each dimension.

Operands are contracted pair by pair from the left. Of a pair, what neither the result nor a later
operand has is summed, in an operand that alone has it before the product. Dimensions that are 1 by
definition are dropped first and come back at the end, so that they broadcast.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType, promote
from warpsmith.ir.exprs import Precision
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import reductions
from warpsmith.ops.contraction import (
    check_equal_types,
    check_precision,
    check_type,
    finished,
    multiplied,
    product,
    result_of,
    summed,
)
from warpsmith.ops.elementwise import tensor_of
from warpsmith.ops.promotion import converted_tensor, rounded
from warpsmith.ops.reshape import reshape
from warpsmith.ops.shape import broadcast, expand, permute, squeeze
from warpsmith.ops.subscripts import Label, parsed
from warpsmith.ops.values import as_tensor, fusion_of
from warpsmith.values import dataclass

_OP = "einsum"


def einsum(
    equation: str,
    *operands: TensorView | Sequence[TensorView],
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """The sum of products that `equation` tells: `"bik,bkj->bij"` is `bmm`.

    It has the letters of each operand's dimensions, and, behind an arrow, those of the result;
    without one, letters that stand once come in the order of the alphabet. An ellipsis stands for
    any dimensions, which are broadcast. Where nothing is summed, types are those of `mul`; sums of
    one operand have those of `sum`, and all else those of `matmul`.

    Raises:
        DefinitionError: an equation that cannot be read or does not fit, a letter that stands
            twice in one operand, types that have no product.
    """
    given = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    )
    tensors = [as_tensor(value, _OP) for value in given]
    subscripts = parsed(equation, [tensor.rank for tensor in tensors])
    fusion_of(tensors, _OP)
    check_precision(_OP, precision, tensors[0].dtype)
    terms = [
        _Term(tensor, labels, frozenset(labels))
        for tensor, labels in zip(tensors, subscripts.operands, strict=True)
    ]
    _check_extents(terms)
    result = frozenset(subscripts.result)
    if len(terms) == 1:
        term = terms[0].summed(terms[0].declared - result, None)
    else:
        later = [result.union(*(t.declared for t in terms[k + 1 :])) for k in range(len(terms))]
        sums = bool(result.union(*(t.declared for t in terms)) - result)
        term = reduce(
            lambda done, step: _paired(done, step[0], step[1], sums, precision),
            zip(terms[1:], later[1:], strict=True),
            terms[0],
        )
    tensor = term.without_ones().arranged(subscripts.result)
    kept = term.without_ones().labels
    tensor = _widened(tensor, [label not in kept for label in subscripts.result])
    return finished(_OP, tensor, dtype)


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand, or what some became.

    Attributes:
        labels: of its dimensions.
        declared: those that it has by the equation; the others of these are 1.
        made: it is computed, so that its type is no choice of the user.
    """

    tensor: TensorView
    labels: tuple[Label, ...]
    declared: frozenset[Label]
    made: bool = False

    def summed(self, gone: Collection[Label], dtype: DataType | None) -> _Term:
        """The sum over some dimensions, in the type that `sum` gives if `dtype` is None."""
        dims = [d for d, label in enumerate(self.labels) if label in gone]
        if not dims:
            return self
        labels = tuple(label for label in self.labels if label not in gone)
        tensor = reductions.sum(self.tensor, dims, dtype=dtype)
        return _Term(tensor, labels, self.declared - set(gone), True)

    def without_ones(self) -> _Term:
        """Without the dimensions that are 1 by definition."""
        axes = self.tensor.shape_axes
        ones = [d for d, axis in enumerate(axes) if axis.is_broadcast]
        labels = tuple(
            x for x, axis in zip(self.labels, axes, strict=True) if not axis.is_broadcast
        )
        return _Term(squeeze(self.tensor, ones), labels, self.declared, self.made)

    def cast(self, dtype: DataType) -> _Term:
        if self.tensor.dtype is dtype:
            return self
        return _Term(converted_tensor(self.tensor, dtype), self.labels, self.declared, True)

    def arranged(self, order: Sequence[Label]) -> TensorView:
        """The tensor with its dimensions in a given order, of which some may be absent."""
        return permute(self.tensor, [self.labels.index(x) for x in order if x in self.labels])

    def spread(self, order: Sequence[Label]) -> TensorView:
        """`arranged`, with 1 for the absent dimensions."""
        return _widened(self.arranged(order), [label not in self.labels for label in order])


def _paired(a: _Term, b: _Term, kept: frozenset[Label], sums: bool, precision: Precision) -> _Term:
    """The product of two, summed over what nobody keeps; `sums` says that the equation sums, so
    that what is only multiplied here has the type of sums, too.
    """
    gone = (a.declared | b.declared) - kept
    declared = (a.declared | b.declared) & kept
    if not gone:
        if sums:
            a, b = (x.cast(result_of(x.tensor.dtype)) for x in (a, b))
        if a.made or b.made:
            a, b = _of_one_type(a, b)
        a, b = a.without_ones(), b.without_ones()
        order = _merged(a.labels, b.labels)
        tensor = tensor_of("mul", a.spread(order), b.spread(order))
        return _Term(tensor, order, declared, True)
    a, b = _of_one_type(a, b)
    for term in (a, b):
        check_type(_OP, term.tensor)
    wanted = result_of(a.tensor.dtype)
    a, b = (x.summed(x.declared - y.declared - kept, wanted) for x, y in ((a, b), (b, a)))
    a, b = a.without_ones(), b.without_ones()
    # Beside a 1 nothing is left to multiply with: such dimensions are summed in the other one.
    a, b = (x.summed(gone - set(y.labels), wanted) for x, y in ((a, b), (b, a)))
    a, b = _of_one_type(a, b)
    inner = [label for label in a.labels if label in gone]
    tensor, labels = _contracted(a, b, inner, precision)
    if tensor.dtype is not wanted:
        tensor = rounded(tensor, wanted)
    return _Term(tensor, labels, declared, True)


def _of_one_type(a: _Term, b: _Term) -> tuple[_Term, _Term]:
    """Both in types that have a product; only what was computed is promoted."""
    first, second = a.tensor.dtype, b.tensor.dtype
    if first is second or not (a.made or b.made) or (first.is_float8 and second.is_float8):
        check_equal_types(_OP, a.tensor, b.tensor)
        return a, b
    wide = [DataType.Float if dtype.is_float8 else dtype for dtype in (first, second)]
    common = promote(*wide)
    return a.cast(common), b.cast(common)


def _contracted(
    a: _Term, b: _Term, inner: Sequence[Label], precision: Precision
) -> tuple[TensorView, tuple[Label, ...]]:
    """The product summed over `inner`, which both have, and the labels of the result."""
    both = [label for label in a.labels if label in b.labels and label not in inner]
    rows = [label for label in a.labels if label not in b.labels]
    columns = [label for label in b.labels if label not in a.labels]
    labels = (*both, *rows, *columns)
    if not inner:
        return multiplied(a.spread(labels), b.spread(labels)), labels
    if not rows or not columns:
        order = (*labels, *inner)
        dims = range(len(labels), len(order))
        return summed(a.spread(order), b.spread(order), tuple(dims)), labels
    if len(inner) > 1:
        a, b = _merged_sums(a, b, inner)
    place = {label: position for position, label in enumerate((*labels, inner[0]))}
    axes = tuple(place[x] for x in a.labels), tuple(place[x] for x in b.labels)
    return product(_OP, a.tensor, b.tensor, axes, precision), labels


def _merged_sums(a: _Term, b: _Term, inner: Sequence[Label]) -> tuple[_Term, _Term]:
    """Both with the summed dimensions joined to one, which is called as the first was.

    Each of them must be equal, not only all together: `expand` has a call checked for that.
    """
    extents = {label: a.tensor.shape_axes[a.labels.index(label)].extent for label in inner}
    axes = zip(b.labels, b.tensor.shape_axes, strict=True)
    wanted = [extents.get(label, axis.extent) for label, axis in axes]
    b = _Term(expand(b.tensor, wanted), b.labels, b.declared, b.made)
    return _joined(a, inner), _joined(b, inner)


def _joined(term: _Term, inner: Sequence[Label]) -> _Term:
    """With the `inner` dimensions joined: in place where they follow each other, else the last."""
    start, order = term.labels.index(inner[0]), list(term.labels)
    if order[start : start + len(inner)] != list(inner):
        order = [*(label for label in order if label not in inner), *inner]
        start = len(order) - len(inner)
    tensor, end = term.arranged(order), start + len(inner)
    extents = [axis.extent for axis in tensor.shape_axes]
    shape = [*extents[:start], integers.mul(*extents[start:end]), *extents[end:]]
    labels = (*order[: start + 1], *order[end:])
    return _Term(reshape(tensor, shape), labels, term.declared, term.made)


def _widened(tensor: TensorView, flags: Sequence[bool]) -> TensorView:
    """`broadcast`, which leaves to what reads it the value before it was rounded."""
    return broadcast(tensor, flags) if any(flags) else tensor


def _merged(first: Sequence[Label], second: Sequence[Label]) -> tuple[Label, ...]:
    return (*first, *(label for label in second if label not in first))


def _check_extents(terms: Sequence[_Term]) -> None:
    """DefinitionError where dimensions of one label have known extents that differ."""
    known: dict[Label, tuple[TensorView, int]] = {}
    for term in terms:
        for d, (label, axis) in enumerate(zip(term.labels, term.tensor.shape_axes, strict=True)):
            if axis.is_broadcast or not isinstance(axis.extent, Const):
                continue
            tensor, of_first = known.setdefault(label, (term.tensor, d))
            extent = tensor.shape_axes[of_first].extent
            if extent != axis.extent:
                raise DefinitionError(
                    f"einsum: dimension {of_first} of {tensor.name} has extent {extent!r} and "
                    f"dimension {d} of {term.tensor.name} has {axis.extent!r}, and both are "
                    f"{label.told}",
                    code="WS0144",
                    remedy="extents of one subscript must be equal, or 1",
                )
