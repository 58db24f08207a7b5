"""Instance norm of images in both memory formats, forward and backward."""

from __future__ import annotations

from typing import Any

from bench.images import Images, problem_of
from bench.problem import Problem, type_named

EPSILON = 1e-5


def instance_norm(images: Images, dtype: str) -> Problem:
    """Each channel of each image by itself; weight and bias by channel."""
    area, over = images.area, images.over
    dims = [d for d, gone in enumerate(area) if gone]

    def eager(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        wide = images.outer(x)
        y = torch.nn.functional.instance_norm(wide, weight=weight, bias=bias, eps=EPSILON)
        return images.back(y)

    def fused(x: Any, weight: Any, bias: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        variance, mean = ops.var_mean(wide, dims, 0)
        scale = ops.rsqrt(ops.add(variance, EPSILON))
        normal = (wide - ops.broadcast(mean, area)) * ops.broadcast(scale, area)
        y = normal * ops.broadcast(weight, over) + ops.broadcast(bias, over)
        return y.to(x.dtype)

    def define(fd: Any, types: Any, x: Any, weight: Any, bias: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        a, b = fd.from_pytorch(weight), fd.from_pytorch(bias)
        variance, mean = fd.ops.var_mean(wide, dims=dims, correction=0, keepdim=False)
        scale = fd.ops.rsqrt(fd.ops.add(variance, fd.define_scalar(EPSILON)))
        middle, slope = (fd.ops.broadcast(t, is_broadcast_dim=area) for t in (mean, scale))
        factor, added = (fd.ops.broadcast(t, is_broadcast_dim=over) for t in (a, b))
        normal = fd.ops.mul(fd.ops.sub(wide, middle), slope)
        y = fd.ops.add(fd.ops.mul(normal, factor), added)
        fd.add_output(fd.ops.cast(y, dtype=type_named(types, dtype)))

    vectors = ((images.channels,),) * 2
    programs = eager, fused, define
    return problem_of("instance_norm", images, dtype, programs, vectors=vectors)


def instance_norm_bwd(images: Images, dtype: str) -> Problem:
    """dx, dW and dB from the saved mean and scale, which here are any numbers."""
    area, over, share = images.area, images.over, 1 / images.side**2
    dims = [d for d, gone in enumerate(area) if gone]

    def eager(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        wide, given = (images.outer(t.to(weight.dtype)) for t in (x, dy))
        middle, slope = (t[:, :, None, None] for t in (mean, scale))
        normal = (wide - middle) * slope
        dbias, dweight = given.sum((2, 3)), (given * normal).sum((2, 3))
        first, second = ((t * share)[:, :, None, None] for t in (dbias, dweight))
        dx = (given - first - normal * second) * (weight[:, None, None] * slope)
        return images.back(dx.to(x.dtype)), dweight.sum(0), dbias.sum(0)

    def fused(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide, given = (t.to(warpsmith.DataType.Float) for t in (x, dy))
        middle, slope = (ops.broadcast(t, area) for t in (mean, scale))
        normal = (wide - middle) * slope
        dbias, dweight = ops.sum(given, dims), ops.sum(given * normal, dims)
        first, second = (ops.broadcast(ops.mul(t, share), area) for t in (dbias, dweight))
        factor = ops.mul(ops.broadcast(weight, over), slope)
        dx = (given - first - normal * second) * factor
        return dx.to(x.dtype), ops.sum(dweight, [0]), ops.sum(dbias, [0])

    def define(fd: Any, types: Any, x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> None:
        wide, given = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in (x, dy))
        factor = fd.ops.broadcast(fd.from_pytorch(weight), is_broadcast_dim=over)
        saved = [fd.from_pytorch(t) for t in (mean, scale)]
        middle, slope = (fd.ops.broadcast(t, is_broadcast_dim=area) for t in saved)
        normal = fd.ops.mul(fd.ops.sub(wide, middle), slope)
        sums = [fd.ops.sum(t, dims=dims) for t in (given, fd.ops.mul(given, normal))]
        parts = [fd.ops.mul(t, fd.define_scalar(share)) for t in sums]
        first, second = (fd.ops.broadcast(t, is_broadcast_dim=area) for t in parts)
        inside = fd.ops.sub(fd.ops.sub(given, first), fd.ops.mul(normal, second))
        dx = fd.ops.mul(inside, fd.ops.mul(factor, slope))
        fd.add_output(fd.ops.cast(dx, dtype=type_named(types, dtype)))
        for t in reversed(sums):
            fd.add_output(fd.ops.sum(t, dims=[0]))

    vectors = ((images.channels,), *(((images.batch, images.channels),) * 2))
    saved = 2 * images.channels
    programs = eager, fused, define
    return problem_of(
        "instance_norm_bwd", images, dtype, programs, full=2, vectors=vectors, saved=saved
    )
