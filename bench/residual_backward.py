"""RMSNorm of `x + residual` backward, with and without dropout of x: one gradient more each.

PyTorch reads the mask that it stored forward; warpsmith and nvFuser draw theirs again from a seed.
"""

from __future__ import annotations

from typing import Any

from bench.dropout import DROPPED, check_share
from bench.problem import ITEM_BYTES, Problem, Tensors, type_named

SEED = 7


def residual_bwd(rows: int, columns: int, dtype: str) -> Problem:
    """Gradients of the sum and of the weight, from those of the norm and of the sum."""
    return _problem(rows, columns, dtype, dropped=0.0)


def dropped_residual_bwd(rows: int, columns: int, dtype: str) -> Problem:
    """The same and the gradient of what was dropped from."""
    return _problem(rows, columns, dtype, dropped=DROPPED)


def _problem(rows: int, columns: int, dtype: str, *, dropped: float) -> Problem:
    """Inputs are the sum, both gradients, the weight and the saved scale, which is float."""
    kept: list[Any] = []

    def eager(x: Any, dy: Any, dtotal: Any, weight: Any, scale: Any) -> Any:
        import torch

        if x.is_cuda and x.dtype is not torch.float64:
            native = torch.ops.aten._fused_rms_norm_backward
            inner, summed = native(dy, x, (columns,), scale, weight, (True, True))
        else:
            normal, weighted = x * scale, dy * weight
            inner = (weighted - normal * (weighted * normal).mean(-1, keepdim=True)) * scale
            summed = (dy * normal).sum(0).to(x.dtype)
        total = (inner + dtotal).to(x.dtype)
        if not dropped:
            return total, summed
        if not kept:
            kept.append(_mask(x.device, rows, columns))
        return (
            torch.ops.aten.native_dropout_backward(total, kept[0], 1 / (1 - dropped)),
            total,
            summed,
        )

    def fused(x: Any, dy: Any, dtotal: Any, weight: Any, scale: Any, seed: int = SEED) -> Any:
        import warpsmith
        from warpsmith import ops

        wide, given = (t.to(warpsmith.DataType.Float) for t in (x, dy))
        normal, weighted = wide * scale, given * weight
        inner = (weighted - normal * ops.mean(weighted * normal, [-1], keepdim=True)) * scale
        total = inner + dtotal
        results: tuple[Any, ...] = (total, ops.sum(given * normal, [0]))
        if dropped:
            results = ops.dropout(total, dropped, rng_seed=seed, rng_offset=0)[0], *results
        return tuple(result.to(x.dtype) for result in results)

    def define(fd: Any, types: Any, x: Any, dy: Any, dtotal: Any, weight: Any, scale: Any) -> None:
        tensors = (fd.from_pytorch(t) for t in (x, dy, dtotal))
        wide, given, other = (fd.ops.cast(t, dtype=types.Float) for t in tensors)
        row = fd.ops.broadcast(fd.from_pytorch(weight), is_broadcast_dim=[True, False])
        saved = fd.from_pytorch(scale)
        normal = fd.ops.mul(wide, saved)
        weighted = fd.ops.mul(given, fd.ops.cast(row, dtype=types.Float))
        along = fd.ops.sum(fd.ops.mul(weighted, normal), dims=[1], keepdim=True)
        along = fd.ops.mul(along, fd.define_scalar(1 / columns))
        inner = fd.ops.mul(fd.ops.sub(weighted, fd.ops.mul(normal, along)), saved)
        total = fd.ops.add(inner, other)
        results = [total, fd.ops.sum(fd.ops.mul(given, normal), dims=[0])]
        if dropped:
            low, high, seed, offset = (fd.define_scalar(v) for v in (0.0, 1.0, SEED, 0))
            drawn = fd.ops.uniform(
                low, high, [rows, columns], rng_seed=seed, rng_offset=offset, dtype=types.Float
            )
            stays = fd.ops.ge(drawn, fd.define_scalar(dropped))
            scaled = fd.ops.mul(total, fd.define_scalar(1 / (1 - dropped)))
            results.insert(0, fd.ops.where(stays, scaled, fd.define_scalar(0.0)))
        for result in results:
            fd.add_output(fd.ops.cast(result, dtype=type_named(types, dtype)))

    def redrawn(inputs: Tensors, outputs: Tensors) -> Tensors:
        total, summed = eager(*(t.double() for t in inputs))[-2:]
        stays = outputs[0] != 0
        check_share(stays)
        return stays * total / (1 - dropped), total, summed

    full = (rows, columns)
    return Problem(
        suite="norm_bwd",
        name="dropout_residual_rms_norm_bwd" if dropped else "residual_rms_norm_bwd",
        shapes=(full, full, full, (columns,), (rows, 1)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=((2 if dropped else 1) * rows + 1) * columns * ITEM_BYTES[dtype],
        in_float=(4,),
        redrawn=redrawn if dropped else None,
    )


def _mask(device: Any, rows: int, columns: int) -> Any:
    """Where the seed keeps an element; the same as what warpsmith draws."""
    import torch

    import warpsmith
    from warpsmith import ops

    drawn = warpsmith.fuse(lambda x, seed: ops.dropout(x, DROPPED, rng_seed=seed, rng_offset=0)[1])
    return drawn(torch.empty(rows, columns, device=device), SEED)
