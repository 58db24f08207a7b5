"""A matrix product scheduled by hand for tensor cores, with steps that a test may leave out."""

from collections.abc import Collection
from typing import Any

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

BLOCKS = 2


def by_hand(
    without: Collection[str] = (),
    *,
    columns: int = 64,
    threads: int = 128,
    dtype: DataType = DataType.BFloat16,
    turned: str = "",
    width: int = 64,
    part: int = 0,
    whole: int = 0,
    stages: int = 3,
    copied: str = "",
    how: LoadStoreOpType = LoadStoreOpType.cp_async,
    vector: int = 8,
    role: str = "load",
) -> FusionDefinition:
    """`linear` in tiles of 128 x `columns` x 128 bytes, by two warp groups; they store registers.

    Args:
        without: steps to leave out, of `swizzle`, `tensorize`, `fragments`, `groups`, `turns`.
        threads: of the fragments' 128 that lie along block_x.
        dtype: of the operands; floats are multiplied as TF32.
        turned: which of the operands "a" and "b" are contiguous along m or n.
        width: elements of their rows in shared memory.
        part: elements of k that are cut into tiles on their own; 0 where k is.
        whole: tiles of k in a part; 0 where there are no parts.
        stages: of operands.
        copied: which of "a" and "b" threads bring: 128 of a role, or both groups without one.
        how, vector: `cp_async` or `set`, of so many elements at once.
        role: that fills the stages; empty where those do who multiply.
    """
    with FusionDefinition() as fd:
        a, b = (
            fd.define_tensor([-1, -1], True, dtype, stride_order=[0, 1] if name in turned else None)
            for name in "ab"
        )
        precision = "tf32" if dtype is DataType.Float else "exact"
        depth = 128 // dtype.size
        result_type = DataType.BFloat16 if dtype is DataType.Float else dtype
        out: Any = fd.ops.linear(a, b, dtype=result_type, precision=precision)
        fd.add_output(out)
        result: Any = out.cache_before()
        product: Any = result.definition.inputs[0]
        operands: list[Any] = [t.cache_after(op_type=LoadStoreOpType.tma) for t in (a, b)]
        for name, operand in zip("ab", operands, strict=True):
            operand.set_memory_type(MemoryType.shared)
            if "swizzle" not in without:
                operand.set_swizzle(dtype.size * width if name in turned else 128)
        out.split(1, columns)
        out.split(0, 128)
        out.reorder({1: 2, 2: 1})
        out.merge(0)
        if "turns" not in without:
            out.split(0, BLOCKS)  # turn, block, rows, columns
        first = len(out.loop) - 2  # the loop over rows
        out.axis(first - 1).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        for name, operand, outer in zip("ab", operands, (2, 1), strict=True):
            _cut(operand, first + 2, depth, part, whole)
            operand.reorder({first + 2: first})  # turn, block, k tile, rows, columns, k
            operand.reorder({first + outer: first + 1})
            if name in turned:
                operand.split(first + 2, width)
                # turn, block, k tile, -, pieces, k, rows of a piece
                operand.reorder({first + 3: first + 4})
                tiles = (1, 3, 4)
            else:
                tiles = (1, 2, 3)
            if name in copied:
                _by_threads(operand, first + 2, how, vector, role)
            for axis in () if name in copied else tiles:
                operand.axis(first + axis).parallelize(ParallelType.tma)
            if role:
                operand.circular_buffer(stages, role=role, stage_slice_position=first + 1)
            else:
                operand.circular_buffer(stages)
        _cut(product, first + 2, depth, part, whole)
        product.split(first + 3, depth // 4)
        product.split(first, 64)  # turn, block, group, 64, columns, k tile, k step, k
        product.reorder({first + 3: first + 1, first + 4: first + 2})
        if not role:
            product.reorder({first: first + 1})  # turn, block, k tile, group, k step
        if "groups" in without:
            product.reorder({first: first + 2})
        else:
            product.axis(first + (not role)).parallelize(ParallelType.block_y)
        if "tensorize" not in without:
            product.tensorize()
        for tensor in (result, out):
            tensor.split(first, 64)  # turn, block, group, 64, columns
            if "fragments" in without:
                tensor.split(first + 2, columns // 2)
                tensor.merge(first + 1)  # 64 rows of two halves
            else:
                tensor.split_fragments()
            if threads != 128:
                tensor.split(first + 1, threads)
            tensor.axis(first + 1 + (threads != 128)).parallelize(ParallelType.block_x)
            if "groups" not in without:
                tensor.axis(first).parallelize(ParallelType.block_y)
        fd.sched.inline_most([result])
        fd.sched.inline_at(result, first - (not role), selected_tensors=[product])
        if not role:
            fd.sched.inline_at(product, first + 1, selected_tensors=operands)
    return fd


def _by_threads(operand: Any, at: int, how: LoadStoreOpType, vector: int, role: str) -> None:
    """A stage, of the loops from `at` on, in vectors that threads copy."""
    operand.set_load_store_op(how)
    while len(operand.loop) > at + 1:
        operand.merge(at)
    operand.split(at, vector)
    operand.split(at, 128)
    operand.axis(at + 1).parallelize(ParallelType.block_x)
    if vector > 1:
        operand.axis(at + 2).parallelize(ParallelType.vectorize)
    if not role:
        operand.split(at, 2)
        operand.axis(at + 1).parallelize(ParallelType.block_y)


def _cut(tensor: Any, axis: int, depth: int, part: int, whole: int) -> None:
    """Split a loop, over k, into tiles and what is in one."""
    if part:
        tensor.split(axis, part)
    tensor.split(axis + bool(part), depth)
    if whole:
        tensor.split(axis, whole)
    if part or whole:
        tensor.merge(axis)
