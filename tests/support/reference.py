"""What a fusion means, on whole arrays in float64: the plain NumPy way, for comparison."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.support.memory import NUMPY_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, Scan
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, Symbol, evaluate
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.ops.joining import reduced, scanned
from warpsmith.ops.table import TABLE

_REDUCERS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def wide(array: np.ndarray, dtype: DataType) -> np.ndarray:
    """Floats as float64, everything else as it is."""
    return array.astype(np.float64) if dtype.is_float else array


def reference(
    fusion: Fusion, inputs: Mapping[str, np.ndarray], values: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Every tensor of a fusion by name; 16-bit results are not rounded."""
    known = {t.name: wide(inputs[t.name], t.dtype) for t in fusion.input_tensors}
    for operation in fusion.operations:
        results = _results(operation, known, values)
        for output, result in zip(operation.outputs, results, strict=True):
            known[output.name] = wide(np.asarray(result), output.dtype)
    return known


def _results(
    operation: Operation, known: Mapping[str, np.ndarray], values: Mapping[str, float]
) -> tuple[np.ndarray, ...]:
    numbers = {name: v for name, v in values.items() if isinstance(v, int)}

    def get(value: Value) -> np.ndarray:
        if isinstance(value, TensorView):
            return known[value.name]
        return wide(np.asarray(_scalar(value, values)), value.dtype)

    match operation:
        case Pointwise(op="set", inputs=(source,)):
            return (get(source),)
        case Pointwise(op="cast", inputs=(source,), output=output):
            return (_cast(get(source), output.dtype),)
        case Pointwise(op=op, inputs=inputs):
            return (np.asarray(TABLE[op].numpy(*map(get, inputs))),)
        case Move(source=source, output=output, origin=origin):
            array = get(source)
            kept = [dim for dim in origin if dim is not None]
            dropped = tuple(d for d in range(array.ndim) if d not in kept)
            array = np.transpose(np.squeeze(array, dropped), np.argsort(np.argsort(kept)))
            array = array.reshape(
                [1 if dim is None else known[source.name].shape[dim] for dim in origin]
            )
            shape = [evaluate(axis.extent, numbers) for axis in output.shape_axes]
            if operation.kind == "reshape":
                return (array.reshape(shape),)
            return (np.broadcast_to(array, shape),)
        case Reduction(op=op, source=source, output=output) if op in _REDUCERS:
            return (np.asarray(_REDUCERS[op](get(source), axis=_gone(output))),)
        case Reduction(source=source, output=output) if operation.is_moments:
            array, gone = get(source), _gone(output)
            count = np.prod([array.shape[d] for d in gone])
            mean, spread = array.mean(axis=gone), array.var(axis=gone) * count
            return mean, spread, np.full(mean.shape, count)
        case Reduction(carry=carry, sources=sources, output=output):
            return reduced(carry, list(map(get, sources)), _gone(output), precise=True)
        case Scan(carry=carry, sources=sources, dim=dim):
            how = {"exclusive": operation.exclusive, "reverse": operation.reverse}
            return scanned(carry, list(map(get, sources)), dim, **how, precise=True)
        case Matmul(a=a, b=b, output=output, axes=axes):
            kind = np.float64 if output.dtype.is_float else NUMPY_TYPES[output.dtype]
            left, right = (get(tensor).astype(kind) for tensor in (a, b))
            return (np.einsum(left, axes[0], right, axes[1], range(len(output.root) - 1)),)
        case Full(value=value, output=output):
            shape = [evaluate(axis.extent, numbers) for axis in output.shape_axes]
            return (np.full(shape, get(value)),)
        case Iota(start=start, step=step, output=output):
            count = evaluate(output.logical[0].extent, numbers)
            return (get(start) + get(step) * np.arange(count),)
    raise TypeError(f"no reference for {operation!r}")


def _gone(output: TensorView) -> tuple[int, ...]:
    return tuple(d for d, axis in enumerate(output.logical) if axis.is_reduction)


def _scalar(expr: Expr, values: Mapping[str, float]) -> float:
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Symbol):
        return values[expr.name]
    return evaluate(expr, {name: v for name, v in values.items() if isinstance(v, int)})


def _cast(array: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype is DataType.Bool:
        return array != 0
    if dtype.is_float:
        return array.astype(np.float64)
    return array.astype(np.int64 if dtype is DataType.Int else np.int32)
