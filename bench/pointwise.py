"""Pointwise fusions: activations, adds, a broadcast bias, a transposed input."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from bench.problem import ITEM_BYTES, Builder, Problem, Tensors, type_named

SIZES = (
    (8192, 1024),
    (8192, 2048),
    (2048, 4096),
    (8192, 4096),
    (8192, 5120),
    (8192, 8192),
    (8192, 12288),
    (8192, 16384),
    (32768, 4096),
    (4096, 32768),
    (16384, 16384),
)
QUICK_SIZES = ((8192, 1024), (8192, 4096), (8192, 16384))
NCHW = (32, 256, 56, 56)
TRANSPOSED = ((8192, 8192), (4096, 16384))
QUICK_TRANSPOSED = ((8192, 8192),)
DTYPES = ("bfloat16", "float")

_ROOT = 0.7978845608028654  # sqrt(2 / pi)
_CUBE = 0.044715


def problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite, in the order of its tables."""
    sizes = QUICK_SIZES if quick else SIZES
    for dtype in DTYPES:
        for rows, columns in sizes:
            yield silu_mul(rows, columns, dtype)
        for rows, columns in sizes:
            yield bias_gelu(rows, columns, dtype)
        for rows, columns in sizes:
            yield add3(rows, columns, dtype)
        yield broadcast_nchw(NCHW, dtype)
        for rows, columns in QUICK_TRANSPOSED if quick else TRANSPOSED:
            yield transpose_add(rows, columns, dtype)


def silu_mul(rows: int, columns: int, dtype: str) -> Problem:
    """`silu(x) * y`, the gate of a feed-forward block."""

    def eager(x: Any, y: Any) -> Any:
        import torch

        return torch.nn.functional.silu(x) * y

    def fused(x: Any, y: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        gate = ops.silu(x.to(warpsmith.DataType.Float))
        return ops.cast(ops.mul(gate, y), x.dtype)

    def define(fd: Any, types: Any, x: Any, y: Any) -> None:
        a = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        b = fd.ops.cast(fd.from_pytorch(y), dtype=types.Float)
        product = fd.ops.mul(fd.ops.silu(a), b)
        fd.add_output(fd.ops.cast(product, dtype=type_named(types, dtype)))

    shape, size = (rows, columns), rows * columns * ITEM_BYTES[dtype]
    return Problem(
        suite="pointwise",
        name="silu_mul",
        shapes=(shape, shape),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        builders={"liger": _liger_silu_mul()},
        bytes_written=size,
    )


def _liger_silu_mul() -> Builder:
    def build(inputs: Tensors) -> Any:
        swiglu = importlib.import_module("liger_kernel.ops.swiglu")
        x, y = inputs
        return lambda: swiglu.LigerSiLUMulFunction.apply(x, y)

    return build


def bias_gelu(rows: int, columns: int, dtype: str) -> Problem:
    """`gelu(x + bias)` in its tanh form."""

    def eager(x: Any, bias: Any) -> Any:
        import torch

        return torch.nn.functional.gelu(x + bias, approximate="tanh")

    def fused(x: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        a = x.to(warpsmith.DataType.Float) + bias
        inner = _ROOT * (a + _CUBE * a * a * a)
        return (0.5 * a * (1.0 + ops.tanh(inner))).to(x.dtype)

    def define(fd: Any, types: Any, x: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        row = fd.ops.broadcast(fd.from_pytorch(bias), is_broadcast_dim=[True, False])
        a = fd.ops.add(wide, fd.ops.cast(row, dtype=types.Float))
        cube = fd.ops.mul(fd.ops.mul(a, a), fd.ops.mul(a, fd.define_scalar(_CUBE)))
        inner = fd.ops.mul(fd.ops.add(a, cube), fd.define_scalar(_ROOT))
        one_plus = fd.ops.add(fd.ops.tanh(inner), fd.define_scalar(1.0))
        out = fd.ops.mul(fd.ops.mul(a, fd.define_scalar(0.5)), one_plus)
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    shape, item = (rows, columns), ITEM_BYTES[dtype]
    return Problem(
        suite="pointwise",
        name="bias_gelu",
        shapes=(shape, (columns,)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=rows * columns * item,
    )


def add3(rows: int, columns: int, dtype: str) -> Problem:
    """`x + y + z`."""

    def eager(x: Any, y: Any, z: Any) -> Any:
        return x + y + z

    def fused(x: Any, y: Any, z: Any) -> Any:
        import warpsmith

        return (x.to(warpsmith.DataType.Float) + y + z).to(x.dtype)

    def define(fd: Any, types: Any, *tensors: Any) -> None:
        a, b, c = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in tensors)
        total = fd.ops.add(fd.ops.add(a, b), c)
        fd.add_output(fd.ops.cast(total, dtype=type_named(types, dtype)))

    shape, size = (rows, columns), rows * columns * ITEM_BYTES[dtype]
    return Problem(
        suite="pointwise",
        name="add3",
        shapes=(shape, shape, shape),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=size,
    )


def broadcast_nchw(shape: tuple[int, int, int, int], dtype: str) -> Problem:
    """`relu(x + bias)` with a bias a channel of `[N, C, H, W]`."""
    batch, channels, height, width = shape

    def eager(x: Any, bias: Any) -> Any:
        return (x + bias[None, :, None, None]).relu()

    def fused(x: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        row = ops.broadcast(bias, [True, False, True, True])
        return ops.cast(ops.relu(x.to(warpsmith.DataType.Float) + row), x.dtype)

    def define(fd: Any, types: Any, x: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        row = fd.ops.broadcast(fd.from_pytorch(bias), is_broadcast_dim=[True, False, True, True])
        out = fd.ops.relu(fd.ops.add(wide, fd.ops.cast(row, dtype=types.Float)))
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    item = ITEM_BYTES[dtype]
    elements = batch * channels * height * width
    return Problem(
        suite="pointwise",
        name="broadcast_nchw",
        shapes=(shape, (channels,)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=elements * item,
    )


def transpose_add(rows: int, columns: int, dtype: str) -> Problem:
    """`a + b.T`: one input lies across the other's rows."""

    def eager(a: Any, b: Any) -> Any:
        return a + b.transpose(0, 1)

    def fused(a: Any, b: Any) -> Any:
        import warpsmith

        return (a.to(warpsmith.DataType.Float) + b.permute(1, 0)).to(a.dtype)

    def define(fd: Any, types: Any, a: Any, b: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(a), dtype=types.Float)
        turned = fd.ops.permute(fd.from_pytorch(b), dims=[1, 0])
        total = fd.ops.add(wide, fd.ops.cast(turned, dtype=types.Float))
        fd.add_output(fd.ops.cast(total, dtype=type_named(types, dtype)))

    size = rows * columns * ITEM_BYTES[dtype]
    return Problem(
        suite="pointwise",
        name="transpose_add",
        shapes=((rows, columns), (columns, rows)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=size,
    )
