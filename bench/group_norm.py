"""Group norm of images in both memory formats, forward and backward.

Sums of the gradient are taken by channel and image first, as PyTorch's decomposition takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.images import Images, problem_of
from bench.problem import Problem, type_named

EPSILON = 1e-5
GROUPS = 32


def group_norm(images: Images, dtype: str) -> Problem:
    """Each of `GROUPS` groups of channels of each image by itself."""
    return _forward(_Groups(images, min(GROUPS, images.channels)), dtype)


def group_norm_bwd(images: Images, dtype: str) -> Problem:
    """dx, dW and dB from the saved mean and scale, which here are any numbers."""
    return _backward(_Groups(images, min(GROUPS, images.channels)), dtype)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Images whose channels are split into `[groups, channels of a group]`."""

    images: Images
    groups: int

    @property
    def split(self) -> list[int]:
        """Five extents; what PyTorch finds from the others is written out."""
        batch, channels, side = self.images.batch, self.images.channels, self.images.side
        inside = [self.groups, channels // self.groups]
        return [batch, side, side, *inside] if self.images.inner else [batch, *inside, side, side]

    @property
    def area(self) -> list[int]:
        """Of the five dimensions, those of height and width."""
        return [1, 2] if self.images.inner else [3, 4]

    @property
    def inside(self) -> int:
        """The dimension of a group's channels."""
        return 4 if self.images.inner else 2

    @property
    def reduced(self) -> list[int]:
        """What a group's statistics are of."""
        return sorted([*self.area, self.inside])

    @property
    def of_groups(self) -> list[bool]:
        """Per dimension, whether one number an image and group lacks it."""
        return [d in self.reduced for d in range(5)]

    @property
    def of_channels(self) -> list[bool]:
        """Per dimension, whether one number a channel lacks it."""
        return [d == 0 or d in self.area for d in range(5)]

    @property
    def share(self) -> float:
        """One over the elements of a group of an image."""
        images = self.images
        return self.groups / (images.channels * images.side**2)


def _forward(of: _Groups, dtype: str) -> Problem:
    images, groups = of.images, of.groups
    split, weights = of.split, [groups, images.channels // groups]

    def eager(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        wide = images.outer(x.to(weight.dtype))
        y = torch.nn.functional.group_norm(wide, groups, weight, bias, EPSILON)
        return images.back(y.to(x.dtype))

    def fused(x: Any, weight: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = _apart(of, x.to(warpsmith.DataType.Float))
        variance, mean = ops.var_mean(wide, of.reduced, 0)
        scale = ops.rsqrt(ops.add(variance, EPSILON))
        middle, slope = (ops.broadcast(t, of.of_groups) for t in (mean, scale))
        normal = ops.mul(ops.sub(wide, middle), slope)
        shaped = (ops.reshape(t, [groups, -1]) for t in (weight, bias))
        a, b = (ops.broadcast(t, of.of_channels) for t in shaped)
        y = ops.add(ops.mul(normal, a), b)
        return ops.cast(ops.reshape(y, x.shape()), x.dtype)

    def define(fd: Any, types: Any, x: Any, weight: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.ops.reshape(fd.from_pytorch(x), split), dtype=types.Float)
        variance, mean = fd.ops.var_mean(wide, dims=of.reduced, correction=0, keepdim=False)
        scale = fd.ops.rsqrt(fd.ops.add(variance, fd.define_scalar(EPSILON)))
        middle, slope = (fd.ops.broadcast(t, is_broadcast_dim=of.of_groups) for t in (mean, scale))
        normal = fd.ops.mul(fd.ops.sub(wide, middle), slope)
        shaped = [fd.ops.reshape(fd.from_pytorch(t), weights) for t in (weight, bias)]
        a, b = (fd.ops.broadcast(t, is_broadcast_dim=of.of_channels) for t in shaped)
        y = fd.ops.cast(fd.ops.add(fd.ops.mul(normal, a), b), dtype=type_named(types, dtype))
        fd.add_output(fd.ops.reshape(y, list(images.shape)))

    vectors = ((images.channels,),) * 2
    return problem_of("group_norm", images, dtype, (eager, fused, define), vectors=vectors)


def _backward(of: _Groups, dtype: str) -> Problem:
    images, groups = of.images, of.groups
    split, weights = of.split, [groups, images.channels // groups]

    def eager(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        wide, given = (t.to(weight.dtype).reshape(split) for t in (x, dy))
        dims = [d for d, gone in enumerate(of.of_groups) if gone]

        def spread(t: Any) -> Any:
            for d in dims:
                t = t.unsqueeze(d)
            return t

        normal = (wide - spread(mean)) * spread(scale)
        dbias, dweight = given.sum(of.area), (given * normal).sum(of.area)
        factor = weight.reshape(weights)
        first, second = (spread((t * factor).sum(2) * of.share) for t in (dbias, dweight))
        by_channel = factor.reshape(
            [1 if gone else n for n, gone in zip(split, of.of_channels, strict=True)]
        )
        dx = (given * by_channel - first - normal * second) * spread(scale)
        return dx.reshape(x.shape).to(x.dtype), *(t.sum(0).reshape(-1) for t in (dweight, dbias))

    def fused(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide, given = (_apart(of, t.to(warpsmith.DataType.Float)) for t in (x, dy))
        middle, slope = (ops.broadcast(t, of.of_groups) for t in (mean, scale))
        normal = (wide - middle) * slope
        factor = ops.reshape(weight, [groups, -1])
        dbias, dweight = ops.sum(given, of.area), ops.sum(given * normal, of.area)
        ahead = ops.broadcast(factor, [True, False, False])
        parts = (ops.sum(ops.mul(t, ahead), [2]) for t in (dbias, dweight))
        first, second = (ops.broadcast(ops.mul(t, of.share), of.of_groups) for t in parts)
        dx = (given * ops.broadcast(factor, of.of_channels) - first - normal * second) * slope
        flat = (ops.reshape(ops.sum(t, [0]), [-1]) for t in (dweight, dbias))
        return ops.cast(ops.reshape(dx, dy.shape()), x.dtype), *flat

    def define(fd: Any, types: Any, x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> None:
        shaped = [fd.ops.reshape(fd.from_pytorch(t), split) for t in (x, dy)]
        wide, given = (fd.ops.cast(t, dtype=types.Float) for t in shaped)
        factor, *saved = (fd.from_pytorch(t) for t in (weight, mean, scale))
        middle, slope = (fd.ops.broadcast(t, is_broadcast_dim=of.of_groups) for t in saved)
        normal = fd.ops.mul(fd.ops.sub(wide, middle), slope)
        factor = fd.ops.reshape(factor, weights)
        sums = [fd.ops.sum(t, dims=of.area) for t in (given, fd.ops.mul(given, normal))]
        ahead = fd.ops.broadcast(factor, is_broadcast_dim=[True, False, False])
        parts = [fd.ops.sum(fd.ops.mul(t, ahead), dims=[2]) for t in sums]
        shares = [fd.ops.mul(t, fd.define_scalar(of.share)) for t in parts]
        first, second = (fd.ops.broadcast(t, is_broadcast_dim=of.of_groups) for t in shares)
        weighted = fd.ops.mul(given, fd.ops.broadcast(factor, is_broadcast_dim=of.of_channels))
        inside = fd.ops.sub(fd.ops.sub(weighted, first), fd.ops.mul(normal, second))
        dx = fd.ops.cast(fd.ops.mul(inside, slope), dtype=type_named(types, dtype))
        fd.add_output(fd.ops.reshape(dx, list(images.shape)))
        for t in reversed(sums):
            fd.add_output(fd.ops.reshape(fd.ops.sum(t, dims=[0]), [images.channels]))

    vectors = ((images.channels,), *(((images.batch, groups),) * 2))
    saved = 2 * images.channels
    programs = eager, fused, define
    return problem_of(
        "group_norm_bwd", images, dtype, programs, full=2, vectors=vectors, saved=saved
    )


def _apart(of: _Groups, x: Any) -> Any:
    """Images with a dimension of groups."""
    from warpsmith import ops

    a, b, c, d = x.shape()
    inner = of.images.inner
    return ops.reshape(x, [a, b, c, of.groups, -1] if inner else [a, of.groups, -1, c, d])
