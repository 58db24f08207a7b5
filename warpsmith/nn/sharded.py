"""Tensors that are spread over several devices: each device computes with its own part.

`torch.distributed.tensor.DTensor` has a mesh of devices, and one placement for each of its
dimensions: a device there has a slice along a dimension of the tensor (`Shard`), all of it
(`Replicate`), or a term of a sum (`Partial`). What a program takes row by row stays where it is;
all else is brought together first. Importing this imports `torch.distributed`, which is why only
`modes.is_spread` says when to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from warpsmith.errors import ArgumentError


def on_parts(
    who: str,
    run: Callable[..., Any],
    given: Sequence[Tensor | None],
    free: Collection[int],
    alike: Collection[int],
) -> Any:
    """What `run` gives of tensors' parts, as tensors that are spread as the first one is.

    Gradients of what each device needs whole are terms of a sum over those that have slices.

    Args:
        run: of plain tensors, a tensor, or some that begin with the dimensions of the first one.
        given: what it takes; the first is no None.
        free: dimensions of the first one along which slices have nothing to do with each other.
        alike: places of those that are sliced as the first one is; the others are whole.

    Raises:
        ArgumentError: a tensor is plain, or of another mesh.
    """
    mesh = next(each.device_mesh for each in given if isinstance(each, DTensor))
    for each in given:
        if each is not None and not (isinstance(each, DTensor) and each.device_mesh == mesh):
            raise ArgumentError(
                f"{who} got a DTensor, and beside it a tensor that is not of its mesh",
                code="WS0366",
                remedy="distribute all of them over one mesh, or pass `x.to_local()` of each",
            )
    first: Any = given[0]
    sliced = [
        p if type(p) is Shard and p.dim % first.ndim in free else Replicate()
        for p in first.placements
    ]
    terms = [Partial() if isinstance(p, Shard) else p for p in sliced]
    whole = [Replicate()] * mesh.ndim

    def part(place: int, each: Any) -> Any:
        if each is None:
            return None
        if place in alike:
            return each.redistribute(placements=sliced).to_local()
        return each.redistribute(placements=whole).to_local(grad_placements=terms)

    def joined(result: Tensor) -> Any:
        cut = {p.dim % first.ndim for p in sliced if isinstance(p, Shard)}
        shape = [first.shape[dim] if dim in cut else n for dim, n in enumerate(result.shape)]
        strides = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            result.contiguous(),
            mesh,
            sliced,
            run_check=False,
            shape=torch.Size(shape),
            stride=strides,
        )

    found = run(*(part(place, each) for place, each in enumerate(given)))
    if isinstance(found, Tensor):
        return joined(found)
    return tuple(None if each is None else joined(each) for each in found)
