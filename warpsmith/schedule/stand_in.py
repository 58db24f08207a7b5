"""A reference whose loops divide broadcast axes, in terms of a tensor that has their elements."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir import domains
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView


def stand_in(
    groups: DomainMap, reference: TensorView, others: Collection[TensorView]
) -> TensorView:
    """One of the others, computed in the reference's loops, where these divide broadcast axes.

    Such axes have one element, and so have their parts: a tensor that has more along them is
    divided by the same factors. The reference itself where it divides no broadcast axis, or where
    all others lack the elements, too.
    """
    made = {axis for transform in reference.transforms for axis in transform.results}
    if not any(axis.is_broadcast and axis in made for axis in reference.loop):
        return reference
    wanted = list(map(groups.group, reference.logical))
    for tensor in others:
        is_whole = not any(axis.is_broadcast or axis.is_reduction for axis in tensor.logical)
        if is_whole and list(map(groups.group, tensor.logical)) == wanted:
            _replay(reference, tensor)
            return tensor
    return reference


def _replay(reference: TensorView, tensor: TensorView) -> None:
    """Divide and join the tensor's axes as the reference's are."""
    axes: dict[IterDomain, IterDomain] = dict(zip(reference.logical, tensor.logical, strict=True))
    for transform in reference.transforms:
        whole, outer, inner = map(axes.get, (transform.axis, transform.outer, transform.inner))
        if isinstance(transform, Split) and whole is not None:
            new: domains.Transform = domains.split(
                whole, transform.factor, inner_split=transform.inner_split
            )
        elif not isinstance(transform, Split) and outer is not None and inner is not None:
            new = domains.merge(outer, inner, transform.band)
        else:
            continue  # it made the logical axes
        tensor.transforms.append(new)
        axes |= dict(zip(transform.results, new.results, strict=True))
    tensor.loop = [axes[axis] for axis in reference.loop]
