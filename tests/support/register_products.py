"""Products by hand whose operand a is in registers: computed there, or the sums of another one."""

from typing import Any

import ml_dtypes
import numpy as np

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

Array = np.ndarray
ROWS, TILE_BYTES = 64, 128
"""Rows of a block, and bytes of k of a tile."""

TMA, GRID_X, BLOCK_X = ParallelType.tma, ParallelType.grid_x, ParallelType.block_x


def shared(tensor: Any, *, swizzle: int = 128) -> Any:
    """A copy in shared memory, by TMA."""
    copy = tensor.cache_after(op_type=LoadStoreOpType.tma)
    copy.set_memory_type(MemoryType.shared)
    copy.set_swizzle(swizzle)
    return copy


def scaled_product(
    *,
    dtype: DataType = DataType.BFloat16,
    depth: int = 128,
    columns: int = 64,
    stages: int = 0,
    role: str = "",
    swapped: bool = False,
) -> FusionDefinition:
    """`(x * scale) @ weight.T`, x of 8 bits [m, depth].

    Args:
        dtype: of the scaled operand, and of the weight; floats are multiplied as TF32.
        stages: of the weight's tiles; 0 where all of them are loaded before.
        role: that loads them.
        swapped: whether threads hold the columns that others are to have.
    """
    tile = TILE_BYTES // dtype.size
    precision: Any = "tf32" if dtype is DataType.Float else "exact"
    sums = DataType.Int32 if dtype is DataType.Int8 else DataType.Float
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, depth], True, DataType.Int8)
        scale = fd.define_tensor([-1, 1], True, DataType.Float)
        weight = fd.define_tensor([columns, depth], True, dtype)
        wide: Any = fd.ops.cast(x, DataType.Float)
        scaled: Any = wide * scale
        a: Any = fd.ops.cast(scaled, dtype) if dtype is not DataType.Float else scaled
        out: Any = fd.ops.linear(a, weight, dtype=sums, precision=precision)
        fd.add_output(out)
        product = out.cache_before()
        b = shared(weight)
        out.split(0, ROWS)
        out.axis(0).parallelize(GRID_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        computed = [t for t in fd.fusion.tensors if not t.is_input and t not in (out, product, b)]
        for tensor in computed:  # m tile, 64, n, k
            tensor.split(3, tile)
            tensor.reorder({3: 1, 2: 2})  # m tile, k tile, n, 64, k
            if swapped:
                tensor.split(-1, 2)
                tensor.reorder({-1: -2})
                tensor.merge(-2)
            tensor.split_operand(dtype=dtype)
            tensor.axis(3).parallelize(BLOCK_X)
        product.split(3, tile)
        product.split(4, tile // 4)
        product.reorder({3: 1, 4: 2})  # m tile, k tile, k step, 64, n, k
        product.tensorize()
        b.split(3, tile)
        b.reorder({3: 1})  # m tile, k tile, 64, n, k
        for axis in (-2, -1):
            b.axis(axis).parallelize(TMA)
        if stages:
            b.circular_buffer(stages, role=role or None)
        out.split_fragments()
        out.axis(1).parallelize(BLOCK_X)
        fd.sched.inline_at(out, 1, selected_tensors=[product])
        fd.sched.inline_at(product, 2 if stages else 1, selected_tensors=[b])
        fd.sched.inline_at(product, 2, selected_tensors=[a])
        fd.sched.inline_most([t for t in (wide, scaled) if t is not a])
    return fd


def scaled_operands(
    dtype: DataType = DataType.BFloat16, m: int = 100, depth: int = 128, columns: int = 64
) -> tuple[Array, Array, Array]:
    """x, scale and weight: whole numbers, so that nothing is rounded."""
    random = np.random.default_rng([m, depth, columns])
    x = random.integers(-9, 10, (m, depth)).astype(np.int8)
    scale = random.integers(-4, 5, (m, 1)).astype(np.float32)
    weight = random.integers(-9, 10, (columns, depth)).astype(KINDS[dtype])
    return x, scale, weight


def scaled_result(x: Array, scale: Array, weight: Array) -> Array:
    return np.asarray((x * scale.astype(np.float64)) @ weight.astype(np.float64).T)


KINDS = {
    DataType.BFloat16: ml_dtypes.bfloat16,
    DataType.Float: np.float32,
    DataType.Int8: np.int8,
}


def relu_attention(
    *,
    width: int = 64,
    keys: int = 64,
    stages: int = 2,
    groups: int = 1,
    role: str = "",
    weigh: str = "relu",
) -> FusionDefinition:
    """`relu(q @ k.T) @ v`, of which the first product's sums become operand a of the second one in
    the registers where they are; v lies along its columns.

    Args:
        width: columns of q, k and v.
        keys: rows of k and v of a tile.
        stages: of these tiles.
        groups: warp groups of a block, 64 rows of q each.
        role: that loads them; all warps where there is none.
        weigh: the function that takes the place of relu.
    """
    with FusionDefinition() as fd:
        q, k, v = (fd.define_tensor([-1, width], True, DataType.BFloat16) for _ in range(3))
        scores: Any = fd.ops.linear(q, k, dtype=DataType.Float)
        positive: Any = getattr(fd.ops, weigh)(scores)
        weights: Any = fd.ops.cast(positive, DataType.BFloat16)
        out: Any = fd.ops.matmul(weights, v, dtype=DataType.Float)
        fd.add_output(out)
        sums = out.cache_before()
        held, keyed, valued = (shared(t) for t in (q, k, v))
        out.split(0, ROWS)
        out.split(0, groups)  # block, group, 64, columns
        out.axis(0).parallelize(GRID_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        sums.split(4, keys)
        sums.split(5, 16)  # block, group, 64, columns, tile, step, keys
        sums.reorder({4: 2, 5: 3})
        sums.tensorize()
        for tensor in (positive, weights):  # block, group, 64, columns, keys
            tensor.split(4, keys)
            tensor.reorder({4: 2, 3: 3, 2: 4})  # block, group, tile, columns, 64, keys
            tensor.split_fragments()
            tensor.axis(4).parallelize(BLOCK_X)
        scores.split(5, 16)
        scores.split(4, keys)  # block, group, 64, columns, tile, keys, step, width
        scores.reorder(
            {4: 2, 3: 3, 6: 4, 2: 5}
        )  # block, group, tile, columns, step, 64, keys, width
        scores.tensorize()
        out.split_fragments()
        out.axis(2).parallelize(BLOCK_X)
        held.reorder({3: 2})  # block, group, columns, 64, width
        keyed.split(4, keys)  # block, group, 64, columns, tile, keys, width
        keyed.reorder({4: 2})
        valued.split(4, keys)  # block, group, 64, columns, tile, keys
        valued.reorder({4: 2, 5: 4})  # block, group, tile, 64, keys, columns
        for tensor in (held, keyed, valued):
            for axis in (-2, -1):
                tensor.axis(axis).parallelize(TMA)
        for tensor in (keyed, valued):
            if role:
                tensor.reorder({2: 1})
                tensor.axis(2).parallelize(TMA)
            tensor.circular_buffer(
                stages, role=role or None, stage_slice_position=2 if role else None
            )
        if role:
            held.axis(1).parallelize(TMA)
            held.axis(2).parallelize(TMA)
            held.set_role(role)
        if groups > 1:
            for tensor in (out, sums, positive, weights, scores):
                tensor.axis(1).parallelize(ParallelType.block_y)
        fd.sched.inline_at(out, 2, selected_tensors=[sums])
        fd.sched.inline_at(sums, 3, selected_tensors=[weights, scores])
        if not role:
            fd.sched.inline_at(out, 1, selected_tensors=[held])
            fd.sched.inline_at(sums, 3, selected_tensors=[keyed, valued])
        fd.sched.inline_most([positive])
    return fd


def narrow_attention(*, width: int = 64, keys: int = 128, stages: int = 2) -> FusionDefinition:
    """`relu(q @ k.T) @ v.T` whose second product is of 8 bits: the weights, which lie as sums do,
    change their layout in registers; v is [width, keys].
    """
    with FusionDefinition() as fd:
        q, k = (fd.define_tensor([-1, width], True, DataType.BFloat16) for _ in range(2))
        v = fd.define_tensor([width, -1], True, DataType.Float8_e4m3fn)
        scores: Any = fd.ops.linear(q, k, dtype=DataType.Float)
        positive: Any = fd.ops.relu(scores)
        weights: Any = fd.ops.cast(positive, DataType.Float8_e4m3fn)
        out: Any = fd.ops.linear(weights, v, dtype=DataType.Float, precision="fast")
        fd.add_output(out)
        sums = out.cache_before()
        operand: Any = weights.cache_after()
        held, keyed, valued = (shared(t) for t in (q, k, v))
        out.split(0, ROWS)
        out.axis(0).parallelize(GRID_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        sums.split(3, keys)
        sums.split(4, 32)  # block, 64, columns, tile, step, keys
        sums.reorder({3: 1, 4: 2})
        sums.tensorize()
        for tensor in (positive, weights, operand):  # block, 64, columns, keys
            tensor.split(3, keys)
            tensor.reorder({3: 1, 2: 2, 1: 3})  # block, tile, columns, 64, keys
            if tensor is operand:
                tensor.split_operand()
            else:
                tensor.split_fragments()
            tensor.axis(3).parallelize(BLOCK_X)
        scores.split(4, 16)
        scores.split(3, keys)  # block, 64, columns, tile, keys, step, width
        scores.reorder({3: 1, 2: 2, 5: 3, 1: 4})
        scores.tensorize()
        out.split_fragments()
        out.axis(1).parallelize(BLOCK_X)
        held.reorder({2: 1})
        for tensor in (keyed, valued):  # block, 64, columns, keys, and of keys width
            tensor.split(3, keys)
            tensor.reorder({3: 1})  # block, tile, 64, columns, keys
        for tensor in (held, keyed, valued):
            for axis in (-2, -1):
                tensor.axis(axis).parallelize(TMA)
        for tensor in (keyed, valued):
            tensor.circular_buffer(stages)
        fd.sched.inline_at(out, 1, selected_tensors=[sums, held])
        inner = [operand, weights, scores, keyed, valued]
        fd.sched.inline_at(sums, 2, selected_tensors=inner)
        fd.sched.inline_most([positive])
    return fd


def attention_operands(m: int, n: int, width: int = 64) -> tuple[Array, Array, Array]:
    random = np.random.default_rng([m, n, width])
    return tuple(random.uniform(-1, 1, (r, width)).astype(ml_dtypes.bfloat16) for r in (m, n, n))


def attention_excess(result: Array, q: Array, k: Array, v: Array) -> float:
    """How far a result is beyond what rounding the weights once, and sums in float, allow."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    weights = np.maximum(q @ k.T, 0)
    allowed = 2.0**-8 * weights @ np.abs(v) + 2.0**-20 * (np.abs(q) @ np.abs(k).T) @ np.abs(v)
    return float(np.max(np.abs(result - weights @ v) - allowed, initial=-1.0))


def softmax_attention(
    *, width: int = 64, keys: int = 128, swapped: bool = False
) -> FusionDefinition:
    """`softmax(q @ k.T) @ v` of so many keys, which a block has at once: four threads share a row
    of the scores, and reduce it among themselves.

    Args:
        swapped: whether these four lie along block_y, and the rows' threads along block_x.
    """
    own, row = (BLOCK_X, ParallelType.block_y)[:: 1 if swapped else -1]
    with FusionDefinition() as fd:
        q = fd.define_tensor([-1, width], True, DataType.BFloat16)
        k, v = (fd.define_tensor([keys, width], True, DataType.BFloat16) for _ in range(2))
        scores: Any = fd.ops.linear(q, k, dtype=DataType.Float)
        largest: Any = fd.ops.max(scores, [1])
        wide: Any = fd.ops.broadcast(largest, [False, True])
        less: Any = scores - wide
        powers: Any = fd.ops.exp(less)
        total: Any = fd.ops.sum(powers, [1])
        weights: Any = fd.ops.cast(powers, DataType.BFloat16)
        sums: Any = fd.ops.matmul(weights, v, dtype=DataType.Float)
        divisor: Any = fd.ops.broadcast(total, [False, True])
        out: Any = sums / divisor
        fd.add_output(out)
        held, keyed, valued = (shared(t) for t in (q, k, v))
        out.split(0, ROWS)
        out.axis(0).parallelize(GRID_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        sums.split(3, 16)
        sums.reorder({3: 1})  # block, step, 64, columns, keys
        sums.tensorize()
        scores.split(4, 16)
        scores.reorder({2: 1, 4: 2})  # block, columns, step, 64, keys, width
        scores.tensorize()
        weights.reorder({2: 1})  # block, columns, 64, keys
        for tensor, first in ((weights, 2), (out, 1)):
            tensor.split_fragments(quads=True)
            tensor.axis(first).parallelize(own)
            tensor.axis(first + 1).parallelize(row)
        rows = [powers, less, wide, largest, total]
        fd.sched.transform_like(weights, rows)
        fd.sched.parallelize_like(weights, selected_tensors=rows)
        for tensor in (largest, total):
            tensor.rfactor([4, 6])  # a thread's own columns, before the four of a row
        fd.sched.transform_like(out, [divisor])
        fd.sched.parallelize_like(out, selected_tensors=[divisor])
        held.reorder({2: 1})
        valued.reorder({3: 2})
        for tensor in (held, keyed, valued):
            for axis in (-2, -1):
                tensor.axis(axis).parallelize(TMA)
        fd.sched.inline_at(out, 1)
        fd.sched.inline_most([less, wide, divisor])
    return fd


def softmax_excess(result: Array, q: Array, k: Array, v: Array) -> float:
    """How far a result is beyond what rounding the weights once, and floats, allow."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    allowed = (2.0**-8 + 2.0**-16) * weights @ np.abs(v)
    return float(np.max(np.abs(result - weights @ v) - allowed, initial=-1.0))
