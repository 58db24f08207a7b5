"""Parts of tensors that no vectors walk: every second element, or rows that begin anywhere.

Kernels may as well read them at places in the whole tensor. Its strides are numbers there, and what
several parts have at one place is one address.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import islice
from math import gcd

import torch
from torch.fx import Node

from warpsmith.torch_backend.aten import CONVERSIONS, READS, VIEWS, name_of
from warpsmith.torch_backend.sizes import is_number

LEAST_BYTES = 8
"""Of vectors for which a view is read as it is."""

MOST_PARTS = 16
"""Of one tensor; as one of many a view is read as it is."""


def is_between_vectors(node: Node) -> bool:
    """Whether a part of a tensor, or a split, is read so: where that, or another part of the same
    tensor, lies so, and what reads them computes on each element by itself.
    """
    whole = node
    while (source := _source(whole)) is not None:
        whole = source
    parts = [*islice(_parts(whole), MOST_PARTS + 1)]
    if len(parts) > MOST_PARTS or not any(map(_is_elementwise, _results(node))):
        return False
    return any(_lies_between(part, whole) and _is_elementwise(part) for part in parts)


def _source(part: Node) -> Node | None:
    """What it is a part of; None where it is none."""
    made = part.args[0] if part.target is operator.getitem else part
    if not (isinstance(made, Node) and name_of(made.target) in READS):
        return None
    return made.all_input_nodes[0]


def _parts(whole: Node) -> Iterator[Node]:
    """Parts of a tensor, and parts of these."""
    for user in whole.users:
        if name_of(user.target) in READS and user.args[0] is whole:
            for part in _results(user):
                yield part
                yield from _parts(part)


def _results(node: Node) -> list[Node]:
    return [*node.users] if isinstance(node.meta["val"], list | tuple) else [node]


def _lies_between(node: Node, source: Node) -> bool:
    """Whether a part of a tensor that lies in one piece begins or ends within short vectors."""
    part, whole = node.meta["val"], source.meta["val"]
    numbers = (*part.shape, *part.stride(), *whole.shape, *whole.stride())
    if not all(map(is_number, numbers)) or not whole.is_contiguous():
        return False
    run, outside = 1, list[int]()
    for size, step in zip(reversed(part.shape), reversed(part.stride()), strict=True):
        if size > 1 and step == run and not outside:
            run *= size
        elif size > 1:
            outside.append(step)
    begin = part.storage_offset() - whole.storage_offset()
    return bool(gcd(run, begin, *outside) * part.element_size() % LEAST_BYTES)


def _is_elementwise(node: Node) -> bool:
    """Whether all that reads a node computes on each element by itself."""
    return all(
        torch.Tag.pointwise in getattr(reader.target, "tags", ())
        or name_of(reader.target) in CONVERSIONS
        for reader in _readers(node)
    )


def _readers(node: Node) -> Iterator[Node]:
    """What reads a node, a part of it, or a view of it in which its dimensions are."""
    for user in node.users:
        name = name_of(user.target)
        if user.target is operator.getitem or name in READS or (name in VIEWS and name != "view"):
            yield from _readers(user)
        else:
            yield user
