"""Give the kernel a parameter for every tensor map that its copies go by."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import TensorMap
from warpsmith.kernel.traversal import walk


def collect_maps(kernel: Kernel) -> Kernel:
    """List the tensor maps of the copies by `tma`, equal ones once.

    Before::

        T1[..] = tile [64 of T0_size0, 32 of T0_size1] of T0 by tma

    After, with `T0_map0: T0, sizes (T0_size1, T0_size0), box (32, 64)` among the parameters.
    """
    found: dict[TensorMap, None] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, TileCopy) and statement.how is LoadStoreOpType.tma:
            found[statement.tensor_map] = None
    maps = tuple(
        replace(each, name=f"{each.tensor}_map{number}") for number, each in enumerate(found)
    )
    return replace(kernel, tensor_maps=maps) if maps else kernel
