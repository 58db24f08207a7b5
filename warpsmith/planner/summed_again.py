"""Sums of one pattern that are summed again are said to be walked together.

A norm's backward sums each image's channels, and these over all images. The kernel behind reads two
tensors that have nothing in common but where they come from, and nothing else would tell it so.
"""

from __future__ import annotations

from warpsmith.ir.exprs import Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.readers import readers_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.pointwise.applicability import self_mapped


def walk_sums_together(fusion: Fusion) -> None:
    """Have kernels that read several such sums know that their dimensions are the same."""
    readers = readers_of(fusion.operations)
    found = [
        operation.outputs[0]
        for operation in fusion.operations
        if isinstance(operation, Reduction)
        and len(operation.outputs) == 1
        and any(isinstance(use, Reduction) for use in readers.get(operation.outputs[0], ()))
    ]
    if len(found) < 2:
        return
    domains = DomainMap(fusion, through_inputs=True)
    if self_mapped(fusion, domains):
        return
    alike: dict[tuple[Group, ...], list[TensorView]] = {}
    for tensor in found:
        alike.setdefault(tuple(map(domains.group, tensor.shape_axes)), []).append(tensor)
    fusion.together += tuple(tuple(group) for group in alike.values() if len(group) > 1)
