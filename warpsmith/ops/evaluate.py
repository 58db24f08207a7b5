"""NumPy meaning of a fusion: the reference that kernels are compared with.

The schedule does not matter: loops, memory and inlining are not looked at, and a reduction that was
cut in two by rfactor is evaluated as the one that it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import OF_GROUP, Full, Iota, Matmul, Move, Pointwise, Reduction, Scan
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Read, Search
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.ops.joining import reduced, scanned
from warpsmith.ops.reading import found
from warpsmith.ops.reading import meaning as read_meaning
from warpsmith.ops.scalars import ScalarEvaluator, in_type, numpy_dtype, symbols_of_call
from warpsmith.ops.table import TABLE


def evaluate(
    fusion: Fusion,
    inputs: Sequence[Any],
    *,
    precise: bool = False,
) -> list[np.ndarray]:
    """Values of the fusion's outputs, in their order, aliased ones included.

    Args:
        inputs: one array or number for each input of the fusion, already known to fit
            (`engine/bind.py` checks).
        precise: compute all floats in float64 and round nothing; results are float64 then.
    """
    return _Evaluator(fusion, inputs, precise).outputs()


def reduction_origin(operation: Reduction) -> tuple[TensorView, tuple[int, ...]]:
    """The tensor that a reduction reads and the dimensions it reduces, as before any rfactor."""
    sources, dims = _parts(operation)
    return next(value for value in sources if isinstance(value, TensorView)), dims


def _parts(
    operation: Reduction, later: frozenset[IterDomain] = frozenset()
) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    """All that it reads, and those dimensions.

    Args:
        later: axes of the operation's result that further steps reduce.
    """
    source, output = operation.source, operation.output
    reduced = [axis.is_reduction or axis in later for axis in output.root]
    definition = source.definition
    if is_rfactored(source) and isinstance(definition, Reduction):
        pairs = zip(source.shape_axes, reduced, strict=True)
        return _parts(definition, frozenset(axis for axis, goes in pairs if goes))
    return operation.sources, tuple(d for d, goes in enumerate(reduced) if goes)


def is_rfactored(tensor: TensorView) -> bool:
    """Whether the tensor is the first half of a reduction that was cut in two.

    Such a half has a root of its own, even where that has the axes of its shape.
    """
    sums = isinstance(tensor.definition, Reduction | Matmul)
    return sums and tensor.root is not tensor.logical


class _Evaluator:
    def __init__(self, fusion: Fusion, inputs: Sequence[Any], precise: bool) -> None:
        self._fusion = fusion
        self._precise = precise
        self._arrays: dict[TensorView, np.ndarray] = {}
        for declared, given in zip(fusion.inputs, inputs, strict=True):
            if isinstance(declared, TensorView):
                self._arrays[declared] = self._store(np.asarray(given), declared.dtype)
        values = symbols_of_call(
            (declared, self._arrays[declared] if isinstance(declared, TensorView) else given)
            for declared, given in zip(fusion.inputs, inputs, strict=True)
        )
        self._values = values
        self._scalars = ScalarEvaluator(values, precise=precise)

    def outputs(self) -> list[np.ndarray]:
        needed = self._fusion.depends_on([output.value for output in self._fusion.outputs])
        with np.errstate(all="ignore"):
            for operation in needed:
                self._run(operation)
        found = [self._arrays[output.value] for output in self._fusion.outputs]
        return [np.array(array, order="C") for array in found]  # no views of inputs or each other

    def _store(self, array: np.ndarray, dtype: DataType) -> np.ndarray:
        return in_type(array, dtype, precise=self._precise)

    def _shape(self, axes: Sequence[IterDomain]) -> tuple[int, ...]:
        return tuple(self._scalars.integer(axis.extent) for axis in axes)

    def _value(self, value: Value) -> np.ndarray:
        if isinstance(value, Expr):
            return self._scalars(value)
        return self._arrays[value]

    def _run(self, operation: Operation) -> None:
        if is_rfactored(operation.outputs[0]):
            return
        if isinstance(operation, Reduction):
            part = operation.source.definition
            if not (isinstance(part, Matmul) and is_rfactored(part.output)):
                self._reduce(operation)
                return
            operation = replace(part, output=operation.outputs[0])
        if isinstance(operation, Pointwise):
            result = self._pointwise(operation)
        elif isinstance(operation, Move):
            result = self._move(operation)
        elif isinstance(operation, Scan):
            self._scan(operation)
            return
        elif isinstance(operation, Matmul):
            result = self._matmul(operation)
        elif isinstance(operation, Read):
            fill = 0 if operation.fill is None else self._scalars(operation.fill)
            result = read_meaning(operation, self._arrays, self._values, fill)
        elif isinstance(operation, Search):
            result = found(
                operation, self._arrays[operation.source], self._arrays[operation.wanted]
            )
        elif isinstance(operation, Full):
            shape = self._shape(operation.output.shape_axes)
            result = np.broadcast_to(self._scalars(operation.value), shape)
        else:
            assert isinstance(operation, Iota)
            result = self._iota(operation)
        (output,) = operation.outputs
        self._arrays[output] = self._store(result, output.dtype)

    def _pointwise(self, operation: Pointwise) -> np.ndarray:
        arrays = [self._value(value) for value in operation.inputs]
        result = arrays[0]
        if operation.op not in ("cast", "set"):
            result = TABLE[operation.op].numpy(*arrays)
        # An operand that is a scalar, or broadcast, does not give the result its shape.
        return np.broadcast_to(result, np.broadcast_shapes(*(a.shape for a in arrays)))

    def _move(self, operation: Move) -> np.ndarray:
        array = self._arrays[operation.source]
        kept = [d for d in operation.origin if d is not None]
        dropped = tuple(d for d in range(array.ndim) if d not in kept)
        array = array.transpose(*kept, *dropped).reshape([array.shape[d] for d in kept])
        for position, dim in enumerate(operation.origin):
            if dim is None:
                array = np.expand_dims(array, position)
        shape = self._shape(operation.output.shape_axes)
        for dim, times in enumerate(operation.repeats):
            array = np.repeat(array, times, dim).take(range(shape[dim]), dim)
        if operation.kind == "tiles":
            place, size = operation.tiles
            missing = shape[place] * size - array.shape[place]
            ends = [(0, missing if d == place else 0) for d in range(array.ndim)]
            return np.pad(array, ends).reshape(shape)
        return (
            array.reshape(shape) if operation.kind == "reshape" else np.broadcast_to(array, shape)
        )

    def _matmul(self, operation: Matmul) -> np.ndarray:
        dtype = numpy_dtype(operation.output.dtype, precise=self._precise)
        a, b = (self._arrays[t].astype(dtype, copy=False) for t in (operation.a, operation.b))
        if operation.ends is not None:
            return _grouped(a, b, self._arrays[operation.ends], operation.axes)
        return _matmul(a, b, *operation.axes)

    def _iota(self, operation: Iota) -> np.ndarray:
        dtype = numpy_dtype(operation.output.dtype, precise=self._precise)
        (extent,) = self._shape(operation.output.shape_axes)
        start, step = self._scalars(operation.start), self._scalars(operation.step)
        return np.asarray(start + step * np.arange(extent).astype(dtype))

    def _scan(self, operation: Scan) -> None:
        arrays = [self._value(source) for source in operation.sources]
        states = scanned(
            operation.carry,
            arrays,
            operation.dim,
            exclusive=operation.exclusive,
            reverse=operation.reverse,
            precise=self._precise,
        )
        for output, result in zip(operation.outputs, states, strict=True):
            self._arrays[output] = self._store(result, output.dtype)

    def _reduce(self, operation: Reduction) -> None:
        sources, dims = _parts(operation)
        arrays = [self._value(source) for source in sources]
        states = reduced(operation.carry, arrays, dims, precise=self._precise)
        for output, result in zip(operation.outputs, states, strict=True):
            self._arrays[output] = self._store(result, output.dtype)


def _grouped(
    a: np.ndarray, b: np.ndarray, ends: np.ndarray, axes: tuple[tuple[int, ...], tuple[int, ...]]
) -> np.ndarray:
    """The rows of each group times its own matrix, and those of none times zeros."""
    if OF_GROUP in axes[0]:
        a, b, axes = b, a, axes[::-1]
    of_rows, of_groups = axes
    (place,) = set(of_rows) - set(of_groups)
    own = tuple(p for p in of_groups if p != OF_GROUP)
    stop = np.maximum.accumulate(np.clip(ends, 0, a.shape[of_rows.index(place)]))
    matrices = np.moveaxis(b, of_groups.index(OF_GROUP), 0)
    parts = zip(
        np.split(a, stop, of_rows.index(place)),
        (*matrices, np.zeros(matrices.shape[1:], b.dtype)),
        strict=True,
    )
    return np.concatenate([_matmul(rows, matrix, of_rows, own) for rows, matrix in parts], place)


def _matmul(
    a: np.ndarray, b: np.ndarray, of_a: tuple[int, ...], of_b: tuple[int, ...]
) -> np.ndarray:
    """The product of two arrays whose dimensions are the given axes of it; the last is summed."""
    last = max(of_a)
    batches = [place for place in of_a if place in of_b and place != last]
    rows = [place for place in of_a if place not in of_b]
    columns = [place for place in of_b if place not in of_a]
    first = a.transpose([of_a.index(place) for place in (*batches, *rows, last)])
    second = b.transpose([of_b.index(place) for place in (*batches, last, *columns)])
    m, n = (
        tuple(array.shape[own.index(place)] for place in places)
        for array, own, places in ((a, of_a, rows), (b, of_b, columns))
    )
    start = len(batches)
    product = np.matmul(
        first.reshape(*first.shape[:start], math.prod(m), first.shape[-1]),
        second.reshape(*second.shape[: start + 1], math.prod(n)),
    )
    order = np.argsort([*batches, *rows, *columns])
    return np.transpose(product.reshape((*product.shape[:start], *m, *n)), order)
