"""Each operation's CUDA spelling computes what its NumPy meaning computes in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith.codegen.prelude import prelude_text
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE, PointwiseOp
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream

Record = Callable[[str, object], None]
Computed = Callable[[PointwiseOp, DataType, list[np.ndarray]], np.ndarray]

C_TYPES = {
    DataType.Double: "double",
    DataType.Float: "float",
    DataType.Int: "long long",
    DataType.Int32: "int",
    DataType.Bool: "bool",
}
NUMPY_TYPES = {
    DataType.Double: np.float64,
    DataType.Float: np.float32,
    DataType.Int: np.int64,
    DataType.Int32: np.int32,
    DataType.Bool: np.bool_,
}
# Units in the last place that the libraries of both sides may err by together.
ULPS = {DataType.Double: 16.0, DataType.Float: 8.0}
INTEGER_DIVISIONS = {"div", "fmod", "remainder", "mod"}
CASES = [(name, dtype) for name, op in TABLE.items() for dtype in op.cuda.dtypes]


@pytest.fixture(scope="module")
def run() -> Computed:
    """Runs an operation on the GPU; kernels with all operations of a type are compiled once."""
    kernels: dict[DataType, LoadedKernel] = {}

    def computed(op: PointwiseOp, dtype: DataType, args: list[np.ndarray]) -> np.ndarray:
        if dtype not in kernels:
            source = Source(text=kernel_text(dtype), entry="apply")
            kernels[dtype] = LoadedKernel(compile_source(source), "apply", 0)
        size = args[0].size
        tensors = [torch.from_numpy(np.ascontiguousarray(arg)).cuda() for arg in args]
        values = list(tensors[op.conditions :])
        values += [values[-1]] * (4 - len(values))
        flags = tensors[0] if op.conditions else values[0]
        result: np.ndarray = np.empty(size, NUMPY_TYPES[op.result_dtype(dtype)])
        out = torch.from_numpy(result).cuda()
        buffer = ArgumentBuffer("PPPPPPii")
        pointers = [tensor.data_ptr() for tensor in (*values, flags, out)]
        buffer.set((*pointers, list(TABLE).index(op.name), size))
        blocks = -(-size // 256)
        kernels[dtype].launch((blocks, 1, 1), (256, 1, 1), 0, current_stream(0), buffer)
        torch.cuda.synchronize()
        downloaded: np.ndarray = out.cpu().numpy()
        return downloaded

    return computed


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
    kind = NUMPY_TYPES[dtype]
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
    kind = NUMPY_TYPES[dtype]
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


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda case: getattr(case, "name", case))
def test_spelling_computes_the_meaning(
    run: Computed, record_property: Record, name: str, dtype: DataType
) -> None:
    op = TABLE[name]
    args = inputs(op, dtype)
    got = run(op, dtype, args)
    exact = reference(op, dtype, args)
    if got.dtype.kind != "f":
        assert got.dtype == exact.dtype
        assert np.array_equal(got, exact), first_wrong(got != exact, args, got, exact)
        return
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        scale = terms(name, args, exact.astype(np.float64))
        limits: Any = np.finfo(got.dtype)
        unit = np.maximum(scale * float(limits.eps), float(limits.smallest_subnormal))
        error = np.abs(got.astype(np.float64) - exact.astype(np.float64)) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        finite = np.isfinite(got) & np.isfinite(rounded)
    wrong = ~(same | (finite & (error <= ULPS[dtype])))
    assert not wrong.any(), first_wrong(wrong, args, got, exact)
    record_property("ulps", round(float(np.max(error[finite], initial=0.0)), 2))


def first_wrong(
    wrong: np.ndarray, args: list[np.ndarray], got: np.ndarray, exact: np.ndarray
) -> str:
    at = int(np.argmax(wrong))
    operands = ", ".join(repr(arg[at]) for arg in args)
    return f"{wrong.sum()} wrong; of ({operands}) got {got[at]!r}, not {exact[at]!r}"
