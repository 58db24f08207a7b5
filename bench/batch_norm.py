"""Batch norm and its kin in both memory formats, and softmax over the outer dimension.

Channels lie outer, `[N, C, H, W]`, or inner, `[N, H, W, C]`: eager PyTorch gets the latter as a
tensor in its `channels_last` format. Parameters and statistics are float, as mixed precision has
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.group_norm import group_norm
from bench.images import SUITE, Call, Images, problem_of
from bench.instance_norm import instance_norm
from bench.pointwise import DTYPES
from bench.problem import ITEM_BYTES, Problem, Tensors, type_named

EPSILON = 1e-5
SIZES = ((32, 256, 56), (128, 64, 112), (256, 512, 14), (64, 2048, 7))
"""Images, channels, and height and width, as in ResNets."""
QUICK_SIZES = ((64, 2048, 7), (32, 64, 56))
SOFTMAX_SIZES = ((4096, 4096), (1024, 16384), (256, 65536))


def problems(*, quick: bool) -> Iterator[Problem]:
    """All problems of the suite, in the order of its tables."""
    sizes = QUICK_SIZES if quick else SIZES
    for dtype in DTYPES:
        for inner in (False, True):
            for make in (batch_norm, batch_norm_bwd):
                for size in sizes:
                    yield make(Images(*size, inner), dtype)
        for make in (instance_norm, group_norm):
            for size in sizes[-1:] if quick else sizes:
                yield make(Images(*size, False), dtype)
        for rows, columns in SOFTMAX_SIZES[:1] if quick else SOFTMAX_SIZES:
            yield outer_softmax(rows, columns, dtype)


def for_cudnn(x: Any) -> Any:
    """Half in place of bfloat16, of as many bytes: torch's door to cuDNN wants parameters of
    bfloat16 with the latter, and cuDNN takes none.
    """
    import torch

    return x.to(torch.float16) if x.dtype == torch.bfloat16 else x


def batch_norm(images: Images, dtype: str) -> Problem:
    """The training step forward: the result, the mean, and one over the standard deviation."""
    over, dims = images.over, images.reduced

    def eager(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        wide = images.outer(x)
        y, mean, scale = torch.native_batch_norm(wide, weight, bias, None, None, True, 0.1, EPSILON)
        return images.back(y), mean, scale

    def fused(x: Any, weight: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        variance, mean = ops.var_mean(wide, dims, 0)
        scale = ops.rsqrt(ops.add(variance, EPSILON))
        normal = (wide - ops.broadcast(mean, over)) * ops.broadcast(scale, over)
        y = normal * ops.broadcast(weight, over) + ops.broadcast(bias, over)
        return y.to(x.dtype), mean, scale

    def define(fd: Any, types: Any, x: Any, weight: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        a, b = fd.from_pytorch(weight), fd.from_pytorch(bias)
        variance, mean = fd.ops.var_mean(wide, dims=dims, correction=0, keepdim=False)
        scale = fd.ops.rsqrt(fd.ops.add(variance, fd.define_scalar(EPSILON)))
        spread = [fd.ops.broadcast(t, is_broadcast_dim=over) for t in (mean, scale, a, b)]
        normal = fd.ops.mul(fd.ops.sub(wide, spread[0]), spread[1])
        y = fd.ops.add(fd.ops.mul(normal, spread[2]), spread[3])
        fd.add_output(fd.ops.cast(y, dtype=type_named(types, dtype)))
        fd.add_output(mean)
        fd.add_output(scale)

    def cudnn(inputs: Tensors) -> Call:
        import torch

        x, weight, bias = inputs
        wide = for_cudnn(images.outer(x))
        forward = torch.ops.aten.cudnn_batch_norm

        def call() -> Any:
            y, mean, scale, _ = forward(wide, weight, bias, None, None, True, 0.1, EPSILON)
            return images.back(y), mean, scale

        return call

    return problem_of(
        "batch_norm",
        images,
        dtype,
        (eager, fused, define),
        vectors=((images.channels,),) * 2,
        saved=2 * images.channels,
        peers={"cudnn": cudnn},
    )


def batch_norm_bwd(images: Images, dtype: str) -> Problem:
    """dx, dW and dB from the saved mean and scale, which here are any numbers."""
    over, dims, share = images.over, images.reduced, 1 / images.count

    def eager(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        import torch

        backward = torch.ops.aten.native_batch_norm_backward
        given = images.outer(dy), images.outer(x), weight, None, None, mean, scale
        dx, dweight, dbias = backward(*given, True, EPSILON, [True, True, True])
        return images.back(dx), dweight, dbias

    def fused(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide, given = (t.to(warpsmith.DataType.Float) for t in (x, dy))
        normal = (wide - ops.broadcast(mean, over)) * ops.broadcast(scale, over)
        dbias, dweight = ops.sum(given, dims), ops.sum(given * normal, dims)
        first, second = (ops.broadcast(ops.mul(t, share), over) for t in (dbias, dweight))
        dx = (given - first - normal * second) * ops.broadcast(weight * scale, over)
        return dx.to(x.dtype), dweight, dbias

    def define(fd: Any, types: Any, x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> None:
        wide, given = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in (x, dy))
        factor, *saved = (fd.from_pytorch(t) for t in (weight, mean, scale))
        factor = fd.ops.mul(factor, saved[1])
        rows = [fd.ops.broadcast(t, is_broadcast_dim=over) for t in (*saved, factor)]
        normal = fd.ops.mul(fd.ops.sub(wide, rows[0]), rows[1])
        sums = [fd.ops.sum(t, dims=dims) for t in (given, fd.ops.mul(given, normal))]
        parts = [fd.ops.mul(t, fd.define_scalar(share)) for t in sums]
        first, second = (fd.ops.broadcast(t, is_broadcast_dim=over) for t in parts)
        inside = fd.ops.sub(fd.ops.sub(given, first), fd.ops.mul(normal, second))
        dx = fd.ops.mul(inside, rows[2])
        fd.add_output(fd.ops.cast(dx, dtype=type_named(types, dtype)))
        fd.add_output(sums[1])
        fd.add_output(sums[0])

    def cudnn(inputs: Tensors) -> Call:
        import torch

        x, dy, weight, mean, scale = inputs
        wide, given = (for_cudnn(images.outer(each)) for each in (x, dy))
        forward, backward = (
            torch.ops.aten.cudnn_batch_norm,
            torch.ops.aten.cudnn_batch_norm_backward,
        )
        *_, reserved = forward(wide, weight, weight, None, None, True, 0.1, EPSILON)
        saved = weight, None, None, mean, scale, EPSILON, reserved

        def call() -> Any:
            dx, dweight, dbias = backward(wide, given, *saved)
            return images.back(dx), dweight, dbias

        return call

    return problem_of(
        "batch_norm_bwd",
        images,
        dtype,
        (eager, fused, define),
        full=2,
        vectors=((images.channels,),) * 3,
        saved=2 * images.channels,
        peers={"cudnn": cudnn},
    )


def outer_softmax(rows: int, columns: int, dtype: str) -> Problem:
    """Softmax over dimension 0."""

    def eager(x: Any) -> Any:
        return x.softmax(0)

    def fused(x: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        e = ops.exp(wide - ops.max(wide, [0], keepdim=True))
        return (e / ops.sum(e, [0], keepdim=True)).to(x.dtype)

    def define(fd: Any, types: Any, x: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        e = fd.ops.exp(fd.ops.sub(wide, fd.ops.max(wide, dims=[0], keepdim=True)))
        out = fd.ops.div(e, fd.ops.sum(e, dims=[0], keepdim=True))
        fd.add_output(fd.ops.cast(out, dtype=type_named(types, dtype)))

    return Problem(
        suite=SUITE,
        name="outer_softmax",
        shapes=((rows, columns),),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=rows * columns * ITEM_BYTES[dtype],
    )
