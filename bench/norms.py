"""Norms and softmaxes forward: rows that are needed again after they were reduced."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.dropout import dropped_residual
from bench.pointwise import DTYPES, QUICK_SIZES
from bench.pointwise import SIZES as POINTWISE_SIZES
from bench.problem import ITEM_BYTES, Builder, Problem, Tensors, type_named

SIZES = (*POINTWISE_SIZES[:8], (8192, 24576), *POINTWISE_SIZES[8:10])
"""Rows and columns: the sizes of docs/benchmarks.md's norms."""

EPSILON = 1e-6

Call = Callable[..., Any]


def norm_problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite `norm_fwd`, in the order of its tables."""
    for dtype in DTYPES:
        for make in (layer_norm, rms_norm, residual, dropped_residual):
            for rows, columns in QUICK_SIZES if quick else SIZES:
                yield make(rows, columns, dtype)


def softmax_problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite `softmax`, in the order of its tables."""
    for dtype in DTYPES:
        for make in (softmax, log_softmax, softmax_bwd):
            for rows, columns in QUICK_SIZES if quick else SIZES:
                yield make(rows, columns, dtype)


def layer_norm(rows: int, columns: int, dtype: str) -> Problem:
    """`(x - mean) / sqrt(var + epsilon) * weight + bias`."""

    def eager(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        return torch.nn.functional.layer_norm(x, (columns,), weight, bias, EPSILON)

    def fused(x: Any, weight: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        variance, mean = ops.var_mean(wide, [-1], 0, True)
        normal = (wide - mean) * ops.rsqrt(ops.add(variance, EPSILON))
        return (normal * weight + bias).to(x.dtype)

    def define(fd: Any, types: Any, x: Any, weight: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        variance, mean = fd.ops.var_mean(wide, dims=[1], correction=0, keepdim=True)
        scale = fd.ops.rsqrt(fd.ops.add(variance, fd.define_scalar(EPSILON)))
        normal = fd.ops.mul(fd.ops.sub(wide, mean), scale)
        scaled = fd.ops.mul(normal, _row(fd, types, weight))
        out = fd.ops.add(scaled, _row(fd, types, bias))
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    def quack(inputs: Tensors) -> Call:
        forward = importlib.import_module("quack.rmsnorm").layernorm_fwd
        x, weight, bias = inputs
        wide = weight.float(), bias.float()  # it takes no others
        return lambda: forward(x, *wide, eps=EPSILON)

    def liger(inputs: Tensors) -> Call:
        apply = _liger("layer_norm", "LigerLayerNormFunction")
        return lambda: apply(*inputs, EPSILON)

    shapes = ((rows, columns), (columns,), (columns,))
    programs = eager, fused, define
    return _norm("layer_norm", shapes, dtype, programs, {"liger": liger, "quack": quack})


def rms_norm(rows: int, columns: int, dtype: str) -> Problem:
    """`x / sqrt(mean(x * x) + epsilon) * weight`."""

    def eager(x: Any, weight: Any) -> Any:
        import torch

        return torch.nn.functional.rms_norm(x, (columns,), weight, EPSILON)

    def fused(x: Any, weight: Any) -> Any:
        import warpsmith

        wide = x.to(warpsmith.DataType.Float)
        return (wide * _fused_scale(wide) * weight).to(x.dtype)

    def define(fd: Any, types: Any, x: Any, weight: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        normal = fd.ops.mul(wide, _defined_scale(fd, wide, columns))
        out = fd.ops.mul(normal, _row(fd, types, weight))
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    def quack(inputs: Tensors) -> Call:
        forward = importlib.import_module("quack.rmsnorm").rmsnorm_fwd
        x, weight = inputs
        return lambda: forward(x, weight, eps=EPSILON)[0]

    def liger(inputs: Tensors) -> Call:
        apply = _liger("rms_norm", "LigerRMSNormFunction")
        return lambda: apply(*inputs, EPSILON, 0.0, "llama", False)

    shapes = ((rows, columns), (columns,))
    programs = eager, fused, define
    return _norm("rms_norm", shapes, dtype, programs, {"liger": liger, "quack": quack})


def residual(rows: int, columns: int, dtype: str) -> Problem:
    """RMSNorm of `x + residual`, and that sum."""

    def eager(x: Any, other: Any, weight: Any) -> Any:
        import torch

        total = x + other
        return torch.nn.functional.rms_norm(total, (columns,), weight, EPSILON), total

    def fused(x: Any, other: Any, weight: Any) -> Any:
        import warpsmith

        total = x.to(warpsmith.DataType.Float) + other
        return (total * _fused_scale(total) * weight).to(x.dtype), total.to(x.dtype)

    def define(fd: Any, types: Any, x: Any, other: Any, weight: Any) -> None:
        a, b = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in (x, other))
        total = fd.ops.add(a, b)
        normal = fd.ops.mul(total, _defined_scale(fd, total, columns))
        out = fd.ops.mul(normal, _row(fd, types, weight))
        for result in (out, total):
            fd.add_output(fd.ops.cast(result, dtype=type_named(types, dtype)))

    def quack(inputs: Tensors) -> Call:
        forward = importlib.import_module("quack.rmsnorm").rmsnorm_fwd
        x, other, weight = inputs
        return lambda: forward(x, weight, residual=other, eps=EPSILON)[:2]

    def liger(inputs: Tensors) -> Call:
        apply = _liger("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
        return lambda: apply(*inputs, EPSILON, 0.0, "llama", False)

    shapes = ((rows, columns), (rows, columns), (columns,))
    programs = eager, fused, define
    peers = {"liger": liger, "quack": quack}
    return _norm("residual_rms_norm", shapes, dtype, programs, peers, outputs=2)


def softmax(rows: int, columns: int, dtype: str) -> Problem:
    """`exp(x - max(x)) / sum(exp(x - max(x)))`."""

    def eager(x: Any) -> Any:
        return x.softmax(-1)

    def fused(x: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        e = ops.exp(wide - ops.max(wide, [-1], keepdim=True))
        return (e / ops.sum(e, [-1], keepdim=True)).to(x.dtype)

    def define(fd: Any, types: Any, x: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        e = fd.ops.exp(fd.ops.sub(wide, fd.ops.max(wide, dims=[1], keepdim=True)))
        out = fd.ops.div(e, fd.ops.sum(e, dims=[1], keepdim=True))
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    def quack(inputs: Tensors) -> Call:
        forward = importlib.import_module("quack.softmax").softmax_fwd
        return lambda: forward(*inputs)

    def liger(inputs: Tensors) -> Call:
        apply = _liger("softmax", "LigerSoftmaxFunction")
        return lambda: apply(*inputs)

    peers = {"liger": liger, "quack": quack}
    return _softmax("softmax", ((rows, columns),), dtype, (eager, fused, define), peers)


def log_softmax(rows: int, columns: int, dtype: str) -> Problem:
    """`x - max(x) - log(sum(exp(x - max(x))))`."""

    def eager(x: Any) -> Any:
        return x.log_softmax(-1)

    def fused(x: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        shifted = wide - ops.max(wide, [-1], keepdim=True)
        return (shifted - ops.log(ops.sum(ops.exp(shifted), [-1], keepdim=True))).to(x.dtype)

    def define(fd: Any, types: Any, x: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        shifted = fd.ops.sub(wide, fd.ops.max(wide, dims=[1], keepdim=True))
        total = fd.ops.log(fd.ops.sum(fd.ops.exp(shifted), dims=[1], keepdim=True))
        out = fd.ops.sub(shifted, total)
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    return _softmax("log_softmax", ((rows, columns),), dtype, (eager, fused, define), {})


def softmax_bwd(rows: int, columns: int, dtype: str) -> Problem:
    """`y * (dy - sum(y * dy))`: the gradient of a softmax by its input, given its result y."""

    def eager(y: Any, dy: Any) -> Any:
        import torch

        return torch.ops.aten._softmax_backward_data(dy, y, -1, dy.dtype)

    def fused(y: Any, dy: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        a, b = (t.to(warpsmith.DataType.Float) for t in (y, dy))
        return (a * (b - ops.sum(a * b, [-1], keepdim=True))).to(y.dtype)

    def define(fd: Any, types: Any, y: Any, dy: Any) -> None:
        a, b = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in (y, dy))
        along = fd.ops.sum(fd.ops.mul(a, b), dims=[1], keepdim=True)
        out = fd.ops.mul(a, fd.ops.sub(b, along))
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    def quack(inputs: Tensors) -> Call:
        backward = importlib.import_module("quack.softmax").softmax_bwd
        y, dy = inputs
        return lambda: backward(dy, y)

    shapes = ((rows, columns), (rows, columns))
    return _softmax("softmax_bwd", shapes, dtype, (eager, fused, define), {"quack": quack})


def _row(fd: Any, types: Any, vector: Any) -> Any:
    """A vector along the columns, in float."""
    row = fd.ops.broadcast(fd.from_pytorch(vector), is_broadcast_dim=[True, False])
    return fd.ops.cast(row, dtype=types.Float)


def _fused_scale(wide: Any) -> Any:
    from warpsmith import ops

    return ops.rsqrt(ops.add(ops.mean(wide * wide, [-1], keepdim=True), EPSILON))


def _defined_scale(fd: Any, wide: Any, columns: int) -> Any:
    total = fd.ops.sum(fd.ops.mul(wide, wide), dims=[1], keepdim=True)
    mean = fd.ops.mul(total, fd.define_scalar(1 / columns))
    return fd.ops.rsqrt(fd.ops.add(mean, fd.define_scalar(EPSILON)))


def _liger(module: str, function: str) -> Call:
    found: Call = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function).apply
    return found


def _norm(
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    programs: tuple[Call, Call, Call],
    peers: Mapping[str, Builder],
    outputs: int = 1,
) -> Problem:
    return _problem("norm_fwd", name, shapes, dtype, programs, peers, outputs)


def _softmax(
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    programs: tuple[Call, Call, Call],
    peers: Mapping[str, Builder],
) -> Problem:
    return _problem("softmax", name, shapes, dtype, programs, peers, 1)


def _problem(
    suite: str,
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    programs: tuple[Call, Call, Call],
    peers: Mapping[str, Builder],
    outputs: int,
) -> Problem:
    eager, fused, define = programs
    rows, columns = shapes[0]
    return Problem(
        suite=suite,
        name=name,
        shapes=shapes,
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        builders=peers,
        bytes_written=outputs * rows * columns * ITEM_BYTES[dtype],
    )
