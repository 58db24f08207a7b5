"""Dropout before a residual add and a norm: everybody draws numbers of its own."""

from __future__ import annotations

from typing import Any

from bench.problem import ITEM_BYTES, Problem, Tensors, type_named

EPSILON = 1e-6
DROPPED = 0.1
"""Share of the elements that a dropout drops."""


def dropped_residual(rows: int, columns: int, dtype: str) -> Problem:
    """RMSNorm of `dropout(x) + residual`, and that sum; each draws numbers of its own."""

    def eager(x: Any, other: Any, weight: Any) -> Any:
        import torch

        total = torch.nn.functional.dropout(x, DROPPED) + other
        return torch.nn.functional.rms_norm(total, (columns,), weight, EPSILON), total

    def fused(x: Any, other: Any, weight: Any, seed: int = 7) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        dropped: Any = ops.dropout(wide, DROPPED, rng_seed=seed, rng_offset=0)[0]
        total = (dropped + other).to(x.dtype)
        wide = total.to(warpsmith.DataType.Float)
        scale = ops.rsqrt(ops.add(ops.mean(wide * wide, [-1], keepdim=True), EPSILON))
        return (wide * scale * weight).to(x.dtype), total

    def define(fd: Any, types: Any, x: Any, other: Any, weight: Any) -> None:
        a, b = (fd.ops.cast(fd.from_pytorch(t), dtype=types.Float) for t in (x, other))
        numbers = (fd.define_scalar(value) for value in (0.0, 1.0, 7, 0))
        low, high, seed, offset = numbers
        drawn = fd.ops.uniform(
            low, high, [rows, columns], rng_seed=seed, rng_offset=offset, dtype=types.Float
        )
        kept = fd.ops.ge(drawn, fd.define_scalar(DROPPED))
        scaled = fd.ops.mul(a, fd.define_scalar(1 / (1 - DROPPED)))
        total = fd.ops.add(fd.ops.where(kept, scaled, fd.define_scalar(0.0)), b)
        squares = fd.ops.sum(fd.ops.mul(total, total), dims=[1], keepdim=True)
        mean = fd.ops.mul(squares, fd.define_scalar(1 / columns))
        scale = fd.ops.rsqrt(fd.ops.add(mean, fd.define_scalar(EPSILON)))
        row = fd.ops.broadcast(fd.from_pytorch(weight), is_broadcast_dim=[True, False])
        normal = fd.ops.mul(total, scale)
        out = fd.ops.mul(normal, fd.ops.cast(row, dtype=types.Float))
        for result in (out, total):
            fd.add_output(fd.ops.cast(result, dtype=type_named(types, dtype)))

    def redrawn(inputs: Tensors, outputs: Tensors) -> Tensors:
        import torch

        x, other, weight = (t.double() for t in inputs)
        added = outputs[1].double() - other
        kept = (added - x / (1 - DROPPED)).abs() < added.abs()
        check_share(kept)
        total = kept * x / (1 - DROPPED) + other
        return torch.nn.functional.rms_norm(total, (columns,), weight, EPSILON), total

    return Problem(
        suite="norm_fwd",
        name="dropout_residual_rms_norm",
        shapes=((rows, columns), (rows, columns), (columns,)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=2 * rows * columns * ITEM_BYTES[dtype],
        redrawn=redrawn,
    )


def check_share(kept: Any) -> None:
    """Raises ValueError where not about so many elements are kept as there should be."""
    share = 1 - kept.double().mean().item()
    spread = (DROPPED * (1 - DROPPED) / kept.numel()) ** 0.5
    if abs(share - DROPPED) > 6 * spread + 0.01:
        raise ValueError(f"{share:.3f} of the elements were dropped in place of {DROPPED}")
