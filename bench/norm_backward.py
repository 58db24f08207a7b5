"""Norms backward: gradients of the input, the weight and the bias, from saved statistics."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.norms import SIZES
from bench.pointwise import DTYPES, QUICK_SIZES
from bench.problem import ITEM_BYTES, Builder, Problem, Tensors, type_named
from bench.residual_backward import dropped_residual_bwd, residual_bwd

SUITE = "norm_bwd"

Call = Callable[..., Any]


def problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite, in the order of its tables."""
    for dtype in DTYPES:
        for make in (layer_norm_bwd, rms_norm_bwd, residual_bwd, dropped_residual_bwd):
            for rows, columns in QUICK_SIZES if quick else SIZES:
                yield make(rows, columns, dtype)


def layer_norm_bwd(rows: int, columns: int, dtype: str) -> Problem:
    """dx, dW and dB of `(x - mean) * scale * weight + bias`, whose mean and scale were saved.

    Statistics are float. Here they are any numbers, which changes no implementation's work.
    """

    def eager(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        import torch

        if x.is_cuda and x.dtype is not torch.float64:
            native = torch.ops.aten.native_layer_norm_backward
            return native(dy, x, (columns,), mean, scale, weight, weight, (True, True, True))
        normal, weighted = (x - mean) * scale, dy * weight
        first = weighted.mean(-1, keepdim=True)
        second = (weighted * normal).mean(-1, keepdim=True)
        dx = (weighted - first - normal * second) * scale
        return dx.to(x.dtype), (dy * normal).sum(0).to(x.dtype), dy.sum(0)

    def fused(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide, given = (t.to(warpsmith.DataType.Float) for t in (x, dy))
        normal, weighted = (wide - mean) * scale, given * weight
        first = ops.mean(weighted, [-1], keepdim=True)
        second = ops.mean(weighted * normal, [-1], keepdim=True)
        dx = (weighted - first - normal * second) * scale
        results: tuple[Any, ...] = (dx, ops.sum(given * normal, [0]), ops.sum(given, [0]))
        return tuple(result.to(x.dtype) for result in results)

    def define(fd: Any, types: Any, x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> None:
        wide, given, weighted = _defined(fd, types, x, dy, weight)
        saved = fd.from_pytorch(mean), fd.from_pytorch(scale)
        normal = fd.ops.mul(fd.ops.sub(wide, saved[0]), saved[1])
        first = _mean(fd, weighted, columns)
        second = fd.ops.mul(normal, _mean(fd, fd.ops.mul(weighted, normal), columns))
        inner = fd.ops.sub(fd.ops.sub(weighted, first), second)
        sums = fd.ops.sum(fd.ops.mul(given, normal), dims=[0]), fd.ops.sum(given, dims=[0])
        for result in (fd.ops.mul(inner, saved[1]), *sums):
            fd.add_output(fd.ops.cast(result, dtype=type_named(types, dtype)))

    def liger(inputs: Tensors) -> Call:
        backward = importlib.import_module("liger_kernel.ops.layer_norm").layer_norm_backward
        x, dy, weight, mean, scale = inputs
        saved = mean.flatten(), scale.flatten()
        return lambda: backward(dy, x, weight, weight, *saved)

    def quack(inputs: Tensors) -> Call:
        backward = importlib.import_module("quack.rmsnorm").layernorm_bwd
        x, dy, weight, mean, scale = inputs
        saved = scale.flatten(), mean.flatten()
        return lambda: backward(x, weight, dy, *saved)

    programs = eager, fused, define
    return _problem("layer_norm_bwd", rows, columns, dtype, programs, (liger, quack), 2)


def rms_norm_bwd(rows: int, columns: int, dtype: str) -> Problem:
    """dx and dW of `x * scale * weight`, whose scale was saved in float."""

    def eager(x: Any, dy: Any, weight: Any, scale: Any) -> Any:
        import torch

        if x.is_cuda and x.dtype is not torch.float64:
            native = torch.ops.aten._fused_rms_norm_backward
            return native(dy, x, (columns,), scale, weight, (True, True))
        normal, weighted = x * scale, dy * weight
        dx = (weighted - normal * (weighted * normal).mean(-1, keepdim=True)) * scale
        return dx.to(x.dtype), (dy * normal).sum(0).to(x.dtype)

    def fused(x: Any, dy: Any, weight: Any, scale: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide, given = (t.to(warpsmith.DataType.Float) for t in (x, dy))
        normal, weighted = wide * scale, given * weight
        dx = (weighted - normal * ops.mean(weighted * normal, [-1], keepdim=True)) * scale
        summed: Any = ops.sum(given * normal, [0])
        return dx.to(x.dtype), summed.to(x.dtype)

    def define(fd: Any, types: Any, x: Any, dy: Any, weight: Any, scale: Any) -> None:
        wide, given, weighted = _defined(fd, types, x, dy, weight)
        saved = fd.from_pytorch(scale)
        normal = fd.ops.mul(wide, saved)
        along = _mean(fd, fd.ops.mul(weighted, normal), columns)
        inner = fd.ops.sub(weighted, fd.ops.mul(normal, along))
        summed = fd.ops.sum(fd.ops.mul(given, normal), dims=[0])
        for result in (fd.ops.mul(inner, saved), summed):
            fd.add_output(fd.ops.cast(result, dtype=type_named(types, dtype)))

    def liger(inputs: Tensors) -> Call:
        backward = importlib.import_module("liger_kernel.ops.rms_norm").rms_norm_backward
        settings = importlib.import_module("liger_kernel.ops.utils").calculate_settings
        x, dy, weight, scale = inputs
        saved, (block, warps) = scale.flatten(), settings(columns)
        return lambda: backward(dy, x, weight, saved, 0.0, 0, block, warps, False, None)

    def quack(inputs: Tensors) -> Call:
        backward = importlib.import_module("quack.rmsnorm").rmsnorm_bwd
        x, dy, weight, scale = inputs
        saved = scale.flatten()
        return lambda: backward(x, weight, dy, saved)[:2]

    programs = eager, fused, define
    return _problem("rms_norm_bwd", rows, columns, dtype, programs, (liger, quack), 1)


def _defined(fd: Any, types: Any, x: Any, dy: Any, weight: Any) -> tuple[Any, Any, Any]:
    """x, dy, and dy times the weight, in float."""
    wide, given = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in (x, dy))
    row = fd.ops.broadcast(fd.from_pytorch(weight), is_broadcast_dim=[True, False])
    return wide, given, fd.ops.mul(given, fd.ops.cast(row, dtype=types.Float))


def _mean(fd: Any, values: Any, columns: int) -> Any:
    total = fd.ops.sum(values, dims=[1], keepdim=True)
    return fd.ops.mul(total, fd.define_scalar(1 / columns))


def _problem(
    name: str,
    rows: int,
    columns: int,
    dtype: str,
    programs: tuple[Call, Call, Call],
    peers: tuple[Builder, Builder],
    vectors: int,
) -> Problem:
    """`vectors` are the sums of columns that come out, and the statistics that go in."""
    eager, fused, define = programs
    builders: Mapping[str, Builder] = dict(zip(("liger", "quack"), peers, strict=True))
    return Problem(
        suite=SUITE,
        name=name,
        shapes=((rows, columns), (rows, columns), (columns,), *vectors * [(rows, 1)]),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        builders=builders,
        bytes_written=(rows + vectors) * columns * ITEM_BYTES[dtype],
        in_float=tuple(range(3, 3 + vectors)),
    )
