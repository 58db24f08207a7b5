"""What kernels compute beside others, as far as names of operations tell it."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import Node

from warpsmith.torch_backend.aten import PRODUCTS, READS, TABLE, VIEWS, name_of
from warpsmith.torch_backend.regions import first_of

CHEAP = frozenset({"add.Tensor", "div.Tensor", "mul.Tensor", "sub.Tensor", "where.self"})
"""Operations on each element by itself, that take little."""


def views_of(node: Node) -> Iterator[Node]:
    """Views of a node, and views of those."""
    for user in node.users:
        if name_of(first_of(user).target) in (*VIEWS, *READS):
            yield user
            yield from views_of(user)


def is_fused(node: Node) -> bool:
    """Whether kernels compute a node beside others: not a product, and not torch."""
    name = name_of(first_of(node).target)
    return name in TABLE and name not in PRODUCTS
