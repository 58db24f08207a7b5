"""Operations' CUDA spellings beside their meanings: a kernel, operands, and what is wrong."""

from typing import Any

import numpy as np

from warpsmith.codegen.prelude import prelude_text
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.ops.table import TABLE, PointwiseOp

C_TYPES = {
    DataType.Double: "double",
    DataType.Float: "float",
    DataType.Int: "long long",
    DataType.Int32: "int",
    DataType.Bool: "bool",
}
# Units in the last place of a result that the libraries of both sides may err by together.
ULPS = {DataType.Double: 16.0, DataType.Float: 8.0}
INTEGER_DIVISIONS = {"div", "fmod", "remainder", "mod"}
CASES = [(name, dtype) for name, op in TABLE.items() for dtype in op.cuda.dtypes]


def kernel_text(dtype: DataType) -> str:
    """`apply` computes the operation with the given position in the table."""
    ctype = C_TYPES[dtype]
    pieces: set[str] = set()
    cases = []
    for index, op in enumerate(TABLE.values()):
        if dtype not in op.cuda.dtypes:
            continue
        pieces.update(op.pieces)
        args = tuple([*["flags[i]"] * op.conditions, "a[i]", "b[i]", "c[i]", "d[i]"][: op.arity])
        result = C_TYPES[op.result_dtype(dtype)]
        cases.append(f"case {index}: (({result}*)out)[i] = {op.cuda(dtype, args)}; break;")
    body = "\n    ".join(cases)
    pointers = ", ".join(f"const {ctype}* {name}" for name in "abcd")
    return f"""{prelude_text(pieces)}
extern "C" __global__ void apply({pointers}, const bool* flags, void* out, int which, int size) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    switch (which) {{
    {body}
    }}
}}
"""


def specials(dtype: DataType) -> np.ndarray:
    """Values at the edges of a type."""
    kind = numpy_dtype(dtype)
    if dtype is DataType.Bool:
        return np.array([False, True])
    if dtype.is_int:
        integers = np.iinfo(kind)
        edges = [0, 1, -1, 2, -2, 7, -7, 31, 32, 63, 64, integers.max, integers.min]
        return np.array(edges, kind)
    floats = np.finfo(kind)
    steps = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, np.inf]
    steps += [float(floats.max), float(floats.tiny), float(floats.tiny) / 2]
    return np.array([np.nan, *steps, *(-step for step in steps)], kind)


def inputs(op: PointwiseOp, dtype: DataType) -> list[np.ndarray]:
    """Random and special operands: two of them meet in all pairs."""
    random = np.random.default_rng(11)
    kind = numpy_dtype(dtype)
    edges = specials(dtype)
    if dtype is DataType.Bool:
        drawn = random.integers(0, 2, 200).astype(bool)
    elif dtype.is_int:
        drawn = random.integers(-1000, 1000, 200).astype(kind)
    else:
        drawn = np.concatenate([random.normal(0, 3, 150), random.uniform(-1, 1, 50)]).astype(kind)
    if op.arity > 2 and dtype.is_float:
        # Products and sums of three may overflow in float alone; edges that do not, stay.
        edges = edges[~(np.isfinite(edges) & (np.abs(edges) > 1e15))]
    base = np.concatenate([edges, drawn])
    left, right = np.repeat(base, base.size), np.tile(base, base.size)
    args = [left, right, np.roll(right, 3), np.roll(right, 8)][: op.arity - op.conditions]
    if op.arity == 1:
        args = [base]
    args = [random.integers(0, 2, left.size).astype(bool)] * op.conditions + args
    keep = meaningful(op.name, dtype, args)
    return [arg[keep] for arg in args]


def meaningful(name: str, dtype: DataType, args: list[np.ndarray]) -> np.ndarray:
    """Where the result is specified, and accurate."""
    x = args[0]
    if name in INTEGER_DIVISIONS and dtype.is_int:
        return np.asarray((args[1] != 0) & (args[1] != -1))
    if name == "lgamma":
        return ~((x > -11.0) & (x < -2.0))  # CUDA promises no bound there
    if name == "erfcinv":
        return ~((x > 0.0) & (x < 1e-300))  # nor does the meaning here
    return np.ones(x.shape, bool)


def reference(op: PointwiseOp, dtype: DataType, args: list[np.ndarray]) -> np.ndarray:
    """The meaning, in float64 for floats except where the type itself is the point."""
    if dtype is not DataType.Float or op.name == "nextafter":
        return op.numpy(*args)
    return op.numpy(*(arg.astype(np.float64) if arg.dtype.kind == "f" else arg for arg in args))


def terms(name: str, args: list[np.ndarray], exact: np.ndarray) -> np.ndarray:
    """What rounding errors are relative to: the terms of a sum, which may cancel."""
    wide = [arg.astype(np.float64) for arg in args]
    if name == "addcmul":
        return np.asarray(np.abs(wide[0]) + np.abs(wide[1] * wide[2] * wide[3]))
    if name == "lerp":
        step = np.abs((wide[1] - wide[0]) * wide[2])
        return np.asarray(np.abs(wide[0]) + np.abs(wide[1]) + 2 * step)
    if name == "lgamma":
        # The meaning has no relative accuracy at the roots.
        return np.asarray(np.maximum(np.abs(exact), 1.0))
    return np.asarray(np.abs(exact))


def judged(
    op: PointwiseOp, dtype: DataType, args: list[np.ndarray], got: np.ndarray
) -> tuple[float, str]:
    """The largest error in units in the last place, and what is wrong in words; empty if nothing.

    `dtype` is that of the operands; the result's own decides how exact it has to be.
    """
    exact = reference(op, dtype, args)
    result = op.result_dtype(dtype)
    assert got.dtype == numpy_dtype(result)
    if not result.is_float:
        assert got.dtype == exact.dtype
        unequal = got != exact
        return 0.0, first_wrong(unequal, args, got, exact) if unequal.any() else ""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        scale = terms(op.name, args, exact.astype(np.float64))
        limits: Any = np.finfo(got.dtype)
        unit = np.maximum(scale * float(limits.eps), float(limits.smallest_subnormal))
        error = np.abs(got.astype(np.float64) - exact.astype(np.float64)) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        finite = np.isfinite(got) & np.isfinite(rounded)
    wrong = ~(same | (finite & (error <= ULPS[result])))
    words = first_wrong(wrong, args, got, exact) if wrong.any() else ""
    return float(np.max(error[finite], initial=0.0)), words


def first_wrong(
    wrong: np.ndarray, args: list[np.ndarray], got: np.ndarray, exact: np.ndarray
) -> str:
    at = int(np.argmax(wrong))
    operands = ", ".join(repr(arg[at]) for arg in args)
    return f"{wrong.sum()} wrong; of ({operands}) got {got[at]!r}, not {exact[at]!r}"
