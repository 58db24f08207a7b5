"""Products by hand that warps compute by `mma.sync`, of operands that `ldmatrix` loads."""

from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

Array = np.ndarray

GRID = (ParallelType.grid_x, ParallelType.grid_y)
BLOCK = (ParallelType.block_z, ParallelType.block_y, ParallelType.block_x)

KINDS = {
    DataType.BFloat16: ml_dtypes.bfloat16,
    DataType.Half: np.float16,
    DataType.Float: np.float32,
    DataType.Int8: np.int8,
    DataType.Double: np.float64,
    DataType.Float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    DataType.Float8_e5m2: ml_dtypes.float8_e5m2,
}
SUMS = {DataType.Int8: DataType.Int32, DataType.Double: DataType.Double}
PRECISION = {DataType.Float: "tf32", DataType.Float8_e4m3fn: "fast", DataType.Float8_e5m2: "fast"}


@dataclass(frozen=True)
class Tile:
    """How a block's warps share its tile.

    Attributes:
        warps: along m and n.
        products: of each warp, along m and n, at a step.
        depth: bytes of k of a tile.
    """

    warps: tuple[int, int] = (1, 2)
    products: tuple[int, int] = (1, 2)
    depth: int = 128


def warp_product(
    dtype: DataType = DataType.BFloat16,
    *,
    tile: Tile = Tile(),
    turned: tuple[bool, bool] = (False, False),
    carrier: LoadStoreOpType = LoadStoreOpType.tma,
    swizzle: int = 128,
    stages: int = 2,
    role: str = "",
    memory: MemoryType = MemoryType.local,
    block: tuple[ParallelType, ...] = BLOCK,
    vector: int = 1,
) -> FusionDefinition:
    """`a @ b.T`, a of [m, k] and b of [n, k], whatever their sizes.

    Args:
        turned: which of them lie along m, or n, in memory, not along k.
        carrier: of tiles to shared memory.
        stages: of these tiles; 0 where there is one.
        role: that loads them.
        memory: where products find operands.
        block: what warps along m and n, and the threads of each, lie along.
        vector: elements that a thread copies at once, where threads copy.
    """
    rows, step = 8 if dtype is DataType.Double else 16, 32 // dtype.size
    depth = tile.depth // dtype.size
    own = (rows * tile.products[0], 8 * tile.products[1])
    with FusionDefinition() as fd:
        a, b = (
            fd.define_tensor([-1, -1], True, dtype, stride_order=[0, 1] if across else None)
            for across in turned
        )
        sums = SUMS.get(dtype, DataType.Float)
        precision: Any = PRECISION.get(dtype, "exact")
        out: Any = fd.ops.linear(a, b, dtype=sums, precision=precision)
        fd.add_output(out)
        product = out.cache_before()
        tiles = [each.cache_after(op_type=carrier) for each in (a, b)]
        held = [each.cache_after() for each in tiles]
        for side in (1, 0):
            out.split(side, own[side])
            out.split(side, tile.warps[side])
        out.reorder({0: 0, 3: 1, 1: 2, 4: 3, 2: 4, 5: 5})
        out.split(4, rows)  # block m, block n, warp m, warp n, product m, rows, columns
        for axis, kind in enumerate((*GRID, *block[:2])):
            out.axis(axis).parallelize(kind)
        fd.sched.transform_like(out)
        for tensor in (product, *held):
            fd.sched.parallelize_like(out, selected_tensors=[tensor])
        for tensor in tiles:
            for axis in (0, 1):
                tensor.axis(axis).parallelize(GRID[axis])
        product.split(7, depth)
        product.split(8, step)
        product.split(6, 8)
        # block m, block n, warp m, warp n, product m, rows, product n, columns, tile, step, k
        product.reorder({8: 2, 2: 3, 3: 4, 9: 5, 4: 6, 6: 7, 5: 8, 7: 9, 10: 10})
        product.tensorize()
        for side, tensor in enumerate(held):
            tensor.split(7, depth)
            tensor.split(8, step)
            tensor.split(6, 8)
            mine = (4, 5) if side == 0 else (6, 7)
            other = (6, 7) if side == 0 else (4, 5)
            order = (0, 1, 8, 2, 3, 9, *other, *mine, 10)
            tensor.reorder({old: new for new, old in enumerate(order)})
            tensor.set_memory_type(memory)
            tensor.split_operand()
            tensor.axis(9).parallelize(block[2])
        for side, tensor in enumerate(tiles):
            tensor.split(7, depth)  # block m, n, warp m, n, product m, rows, columns, tile, k
            tensor.set_memory_type(MemoryType.shared)
            tensor.set_swizzle(swizzle)
            mine = (2, 4, 5) if side == 0 else (3, 6)
            other = (3, 6) if side == 0 else (2, 4, 5)
            last = (8, *mine) if turned[side] else (*mine, 8)
            tensor.reorder({old: new for new, old in enumerate((0, 1, 7, *other, *last))})
            if carrier.is_tma:
                for place in range(-len(last), 0):
                    tensor.axis(place).parallelize(ParallelType.tma)
            else:
                for _ in last[1:]:
                    tensor.merge(-2)
                if vector > 1:
                    tensor.split(-1, vector)
                    tensor.axis(-1).parallelize(ParallelType.vectorize)
                    tensor.reorder({-1: 3})
                tensor.split(-1, 32 * prod(tile.warps))
                tensor.split(-1, 32 * tile.warps[1])
                tensor.split(-1, 32)
                for place, kind in zip((-3, -2, -1), block, strict=True):
                    tensor.axis(place).parallelize(kind)
                if vector > 1:
                    tensor.reorder({3: -1})
            if stages:
                tensor.circular_buffer(stages, role=role or None)
        out.split_fragments()
        out.axis(5).parallelize(block[2])
        fd.sched.inline_at(out, 2, selected_tensors=[product])
        fd.sched.inline_at(product, 3, selected_tensors=tiles)
        fd.sched.inline_at(product, 6, selected_tensors=held)
    return fd


def operands(
    dtype: DataType, m: int, n: int, k: int, turned: tuple[bool, bool] = (False, False)
) -> tuple[Array, Array]:
    random = np.random.default_rng([m, n, k])
    kind: Any = KINDS[dtype]

    def made(rows: int, across: bool) -> Array:
        if dtype is DataType.Int8:
            values = random.integers(-128, 128, (rows, k)).astype(kind)
        else:
            values = random.uniform(-1, 1, (rows, k)).astype(kind)
        return np.asfortranarray(values) if across else values

    return made(m, turned[0]), made(n, turned[1])


def excess(result: Array, a: Array, b: Array) -> float:
    """How far a result is beyond what rounding sums, and TF32 operands, allows."""
    bits = ROUNDED.get(a.dtype.name, 18)
    a, b = a.astype(np.float64), b.astype(np.float64)
    allowed = 2.0**-bits * (np.abs(a) @ np.abs(b).T) if bits else 0.0
    return float(np.max(np.abs(result - a @ b.T) - allowed, initial=-1.0))


ROUNDED = {"int8": 0, "float32": 10, "float64": 50, "float8_e4m3fn": 11, "float8_e5m2": 11}
"""Bits of a product's magnitude that are right, by the type of its operands; 0: all."""
