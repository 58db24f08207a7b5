"""Attention forward by hand: one kernel, an online softmax, weights in registers as an operand."""

import math
from typing import Any

from tests.support.register_products import BLOCK_X, GRID_X, ROWS, TMA, shared
from warpsmith import CarryRule, DataType, FusionDefinition, ParallelType, ops


def _joined(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Both with their sums scaled to the larger of the two largest scores."""
    largest = ops.maximum(a.top, b.top)

    def scaled(side: Any, value: Any) -> Any:
        return ops.where(ops.eq(side.top, largest), value, value * ops.exp(side.top - largest))

    total = scaled(a, a.total) + scaled(b, b.total)
    return largest, total, scaled(a, a.sums) + scaled(b, b.sums)


ONLINE = CarryRule(
    name="online_softmax", identity={"top": -math.inf, "total": 0.0, "sums": 0.0}, join=_joined
)
"""The largest score so far, and of the weights relative to it their sum and that of the values."""


def online_attention(
    *, width: int = 64, keys: int = 64, stages: int = 2, groups: int = 2, role: str = "load"
) -> FusionDefinition:
    """`softmax(q @ k.T) @ v`: q [m, width], k [tiles, width, keys] along its width, v [tiles, keys,
    width].

    A warp group has 64 rows. For each tile it multiplies scores, reduces them among the four
    threads of a row, multiplies the weights where they are, and joins what came out to what it
    carries.

    Args:
        keys: of a tile.
        stages: of tiles of keys and values.
        groups: warp groups of a block.
        role: that loads q, keys and values.
    """
    with FusionDefinition() as fd:
        q = fd.define_tensor([-1, width], True, DataType.BFloat16)
        k = fd.define_tensor([-1, width, keys], True, DataType.BFloat16, stride_order=[2, 0, 1])
        v = fd.define_tensor([-1, keys, width], True, DataType.BFloat16)
        scores: Any = fd.ops.matmul(q, k, dtype=DataType.Float)
        top: Any = fd.ops.max(scores, [2])
        under: Any = fd.ops.broadcast(top, [False, False, True])
        less: Any = scores - under
        powers: Any = fd.ops.exp(less)
        total: Any = fd.ops.sum(powers, [2])
        weights: Any = fd.ops.cast(powers, DataType.BFloat16)
        sums: Any = fd.ops.matmul(weights, v, dtype=DataType.Float)
        beside: list[Any] = [fd.ops.broadcast(t, [False, False, True]) for t in (top, total)]
        carried: Any = fd.ops.reduce([*beside, sums], ONLINE, [0])
        out: Any = carried[2] / carried[1]
        fd.add_output(out)
        spread = [source for source in carried[0].definition.sources if source is not sums]
        held, keyed, valued = (shared(t) for t in (q, k, v))

        def bound(tensor: Any, *axes: int) -> None:
            """Groups, threads with rows of their own, and those that share them."""
            kinds = ParallelType.block_z, ParallelType.block_y, BLOCK_X
            for axis, kind in zip(axes, kinds, strict=False):
                tensor.axis(axis).parallelize(kind)

        def like(reference: Any, others: list[Any]) -> None:
            fd.sched.transform_like(reference, others)
            fd.sched.parallelize_like(reference, selected_tensors=others)

        out.split(0, ROWS)
        out.split(0, groups)  # block, group, 64, columns
        out.axis(0).parallelize(GRID_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        out.split_fragments(quads=True)
        bound(out, 1, 2, 3)
        result = carried[2]  # block, group, 64, columns, tile
        result.reorder({4: 2})
        result.split_fragments(quads=True)
        bound(result, 1, 3, 4)
        like(result, [*spread, *beside])
        sums.split(5, 16)  # block, group, 64, columns, tile, step, keys
        sums.reorder({4: 2, 5: 3})
        bound(sums, 1)
        sums.tensorize()
        weights.reorder({4: 2, 3: 3, 2: 4})  # block, group, tile, columns, 64, keys
        weights.split_fragments(quads=True)
        bound(weights, 1, 4, 5)
        like(weights, [powers, less, under, top, total])
        for tensor in (top, total):
            tensor.rfactor([6, 8])  # a thread's own columns, before the four of a row
        scores.split(6, 16)  # block, group, 64, columns, tile, keys, step, width
        scores.reorder({4: 2, 3: 3, 6: 4, 2: 5})
        bound(scores, 1)
        scores.tensorize()
        held.reorder({3: 2})  # block, group, columns, 64, width
        held.set_role(role)
        keyed.reorder({4: 1, 6: 5})  # block, tile, group, 64, columns, keys, width
        valued.reorder({4: 1, 5: 4})  # block, tile, group, 64, keys, columns
        for tensor, first in ((held, 1), (keyed, 2), (valued, 2)):
            for axis in range(first, len(tensor.loop)):
                tensor.axis(axis).parallelize(TMA)
        for tensor in (keyed, valued):
            tensor.circular_buffer(stages, role=role, stage_slice_position=2)
        loaded = (held, keyed, valued, out, *carried)
        inner = [t for t in fd.fusion.tensors if not t.is_input and t not in loaded]
        fd.sched.inline_at(out, 2, selected_tensors=[result])
        fd.sched.inline_at(result, 3, selected_tensors=inner, best_effort=True)
        fd.sched.inline_most([less, under, *spread, *beside])
    return fd
