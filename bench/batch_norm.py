"""Batch norm and its kin in both memory formats, and softmax over the outer dimension.

Channels lie outer, `[N, C, H, W]`, or inner, `[N, H, W, C]`: eager PyTorch gets the latter as a
tensor in its `channels_last` format. Parameters and statistics are float, as mixed precision has
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.pointwise import DTYPES
from bench.problem import ITEM_BYTES, Builder, Problem, Tensors, type_named

SUITE = "batch_norm"
EPSILON = 1e-5
SIZES = ((32, 256, 56), (128, 64, 112), (256, 512, 14), (64, 2048, 7))
"""Images, channels, and height and width, as in ResNets."""
QUICK_SIZES = ((64, 2048, 7), (32, 64, 56))
SOFTMAX_SIZES = ((4096, 4096), (1024, 16384), (256, 65536))
GROUPS = 32

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Images:
    """A batch of images: how many, their channels, their height and width, and the format."""

    batch: int
    channels: int
    side: int
    inner: bool

    @property
    def shape(self) -> tuple[int, ...]:
        sides = (self.side, self.side)
        return (
            (self.batch, *sides, self.channels)
            if self.inner
            else (self.batch, self.channels, *sides)
        )

    @property
    def over(self) -> list[bool]:
        """Per dimension, whether batch norm reduces it."""
        return [d != (3 if self.inner else 1) for d in range(4)]

    @property
    def reduced(self) -> list[int]:
        return [d for d, gone in enumerate(self.over) if gone]

    @property
    def count(self) -> int:
        """Elements of a channel."""
        return self.batch * self.side**2

    def outer(self, x: Any) -> Any:
        """PyTorch's view, channels the second dimension."""
        return x.permute(0, 3, 1, 2) if self.inner else x

    def back(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1) if self.inner else x


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
        wide = images.outer(x)
        forward = torch.ops.aten.cudnn_batch_norm

        def call() -> Any:
            y, mean, scale, _ = forward(wide, weight, bias, None, None, True, 0.1, EPSILON)
            return images.back(y), mean, scale

        return call

    peers: dict[str, Builder] = {"cudnn": cudnn}
    return _problem("batch_norm", images, dtype, 1, (eager, fused, define), peers)


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

    return _problem("batch_norm_bwd", images, dtype, 2, (eager, fused, define), {})


def instance_norm(images: Images, dtype: str) -> Problem:
    """Each channel of each image by itself; weight and bias by channel."""
    return _within("instance_norm", images, dtype, images.channels)


def group_norm(images: Images, dtype: str) -> Problem:
    """Each of `GROUPS` groups of channels of each image by itself."""
    return _within("group_norm", images, dtype, min(GROUPS, images.channels))


def _within(name: str, images: Images, dtype: str, groups: int) -> Problem:
    """Norms of the channels of one image, `groups` groups of them; channels lie outer."""
    batch, channels, side, _ = images.shape
    split = [batch, groups, channels // groups, side, side]
    weights = [groups, channels // groups]
    over, apart = [True, False, False, True, True], [False, False, True, True, True]
    flat = list(images.shape)

    def eager(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        return torch.nn.functional.group_norm(x, groups, weight, bias, EPSILON)

    def fused(x: Any, weight: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        n, c, h, w = x.shape()
        wide = ops.reshape(x.to(warpsmith.DataType.Float), [n, groups, -1, h, w])
        variance, mean = ops.var_mean(wide, [2, 3, 4], 0)
        scale = ops.rsqrt(ops.add(variance, EPSILON))
        normal = ops.mul(ops.sub(wide, ops.broadcast(mean, apart)), ops.broadcast(scale, apart))
        a, b = (ops.broadcast(ops.reshape(t, [groups, -1]), over) for t in (weight, bias))
        y = ops.add(ops.mul(normal, a), b)
        return ops.cast(ops.reshape(y, [n, c, h, w]), x.dtype)

    def define(fd: Any, types: Any, x: Any, weight: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.ops.reshape(fd.from_pytorch(x), split), dtype=types.Float)
        variance, mean = fd.ops.var_mean(wide, dims=[2, 3, 4], correction=0, keepdim=False)
        scale = fd.ops.rsqrt(fd.ops.add(variance, fd.define_scalar(EPSILON)))
        spread = [fd.ops.broadcast(t, is_broadcast_dim=apart) for t in (mean, scale)]
        normal = fd.ops.mul(fd.ops.sub(wide, spread[0]), spread[1])
        shaped = [fd.ops.reshape(fd.from_pytorch(t), weights) for t in (weight, bias)]
        a, b = (fd.ops.broadcast(t, is_broadcast_dim=over) for t in shaped)
        y = fd.ops.cast(fd.ops.add(fd.ops.mul(normal, a), b), dtype=type_named(types, dtype))
        fd.add_output(fd.ops.reshape(y, flat))

    return _problem(name, images, dtype, 1, (eager, fused, define), {}, saved=0)


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


def _problem(
    name: str,
    images: Images,
    dtype: str,
    full: int,
    programs: tuple[Call, Call, Call],
    peers: dict[str, Builder],
    saved: int = 2,
) -> Problem:
    """`full` inputs of the images' shape come first; the rest are float vectors of the channels.

    `saved` such vectors are written beside the result.
    """
    vectors = 2 if full == 1 else 3
    eager, fused, define = programs
    elements = math.prod(images.shape)
    return Problem(
        suite=SUITE,
        name=name + ("_nhwc" if images.inner else ""),
        shapes=(images.shape,) * full + ((images.channels,),) * vectors,
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        builders=peers,
        in_float=tuple(range(full, full + vectors)),
        known_as=(images.batch, images.channels, images.side, images.side),
        bytes_written=elements * ITEM_BYTES[dtype] + saved * images.channels * ITEM_BYTES["float"],
    )
