"""Cross entropy of rows, and it with the gradient of the logits in one pass, for `bench.unseen`."""

from __future__ import annotations

from typing import Any

from bench.problem import ITEM_BYTES, Problem, type_named

SUITE = "losses"


def cross_entropy(rows: int, columns: int, dtype: str) -> Problem:
    """Each row's loss in float, of logits and classes."""

    def eager(x: Any, target: Any) -> Any:
        import torch

        wide = x if x.dtype is torch.float64 else x.float()
        return torch.nn.functional.cross_entropy(wide, target.long(), reduction="none")

    def fused(x: Any, target: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        found: Any = ops.cross_entropy(wide, target, reduction="none")
        return found[0]

    def define(fd: Any, types: Any, x: Any, target: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        most = fd.ops.max(wide, dims=[1], keepdim=True)
        total = fd.ops.sum(fd.ops.exp(fd.ops.sub(wide, most)), dims=[1])
        place = fd.ops.broadcast(fd.from_pytorch(target), is_broadcast_dim=[False, True])
        own = fd.ops.squeeze(fd.ops.gather(wide, place, dim=1), dims=[1])
        above = fd.ops.sub(fd.ops.squeeze(most, dims=[1]), own)
        fd.add_output(fd.ops.add(fd.ops.log(total), above))

    return Problem(
        suite=SUITE,
        name="cross_entropy",
        shapes=((rows, columns), (rows,)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=4 * rows,
        ceiling="read",
        below={1: columns},
    )


def cross_entropy_step(rows: int, columns: int, dtype: str) -> Problem:
    """The same, and the gradient of the logits from that of each loss, which is float."""

    def eager(x: Any, target: Any, grad: Any) -> Any:
        import torch

        wide = x if x.dtype is torch.float64 else x.float()
        log = wide.log_softmax(1)
        own = torch.nn.functional.one_hot(target.long(), columns)
        return -(log * own).sum(1), ((log.exp() - own) * grad[:, None]).to(x.dtype)

    def fused(x: Any, target: Any, grad: Any) -> Any:
        import warpsmith
        from warpsmith import ops

        wide = x.to(warpsmith.DataType.Float)
        found: Any = ops.cross_entropy(wide, target, reduction="none")
        loss, lse, _ = found
        return loss, ops.cross_entropy_backward(grad, x, target, lse)

    def define(fd: Any, types: Any, x: Any, target: Any, grad: Any) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        most = fd.ops.max(wide, dims=[1], keepdim=True)
        shifted = fd.ops.sub(wide, most)
        total = fd.ops.sum(fd.ops.exp(shifted), dims=[1], keepdim=True)
        place = fd.ops.broadcast(fd.from_pytorch(target), is_broadcast_dim=[False, True])
        zero, one = fd.define_scalar(0), fd.define_scalar(1)
        classes = fd.ops.iota(fd.define_scalar(columns), zero, one, types.Int)
        own = fd.ops.eq(fd.ops.broadcast(classes, is_broadcast_dim=[True, False]), place)
        share = fd.ops.div(fd.ops.exp(shifted), total)
        taken = fd.ops.gather(shifted, place, dim=1)
        fd.add_output(fd.ops.squeeze(fd.ops.sub(fd.ops.log(total), taken), dims=[1]))
        along = fd.ops.broadcast(fd.from_pytorch(grad), is_broadcast_dim=[False, True])
        dx = fd.ops.mul(fd.ops.sub(share, fd.ops.cast(own, dtype=types.Float)), along)
        fd.add_output(fd.ops.cast(dx, dtype=type_named(types, dtype)))

    return Problem(
        suite=SUITE,
        name="cross_entropy_step",
        shapes=((rows, columns), (rows,), (rows,)),
        dtype=dtype,
        eager=eager,
        fused=fused,
        define=define,
        bytes_written=rows * columns * ITEM_BYTES[dtype] + 4 * rows,
        in_float=(2,),
        below={1: columns},
    )
