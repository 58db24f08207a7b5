"""Small copies into inputs of a graph, as those of batch norms' statistics, in few launches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from warpsmith.torch_backend.definition import bytes_of
from warpsmith.torch_backend.source import Step
from warpsmith.torch_backend.writes import is_whole_write, root_of

SMALL = 1 << 20
"""Bytes of a tensor whose copy takes less time than its launch."""


def in_few(steps: Sequence[Step]) -> list[Step]:
    """Steps, in order, in which small tensors of one type are copied together, where the last of
    them is: none of those behind it reads or writes what they are copied into.
    """
    found: list[Step] = []
    several: dict[object, list[Node]] = {}
    later: set[Node] = set()  # what steps behind this one read or write
    for step in reversed(steps):
        node = step.results[0] if step.single else None
        if node is None or step.function is not node.target or not _is_small(node):
            later.update(map(root_of, step.reads()))
            found.append(step)
            continue
        base, value = node.args
        assert isinstance(base, Node)
        assert isinstance(value, Node)
        tensor = base.meta["val"]
        group = several.setdefault((tensor.dtype, tensor.device), [])
        if base in later or root_of(value).op == "placeholder":
            later.update(map(root_of, step.reads()))
            found.append(step)
            continue
        if not group:
            found.append(step)
        group.append(node)
    made = {group[0]: list(reversed(group)) for group in several.values() if len(group) > 1}
    return [_of(step, made) for step in reversed(found)]


def _is_small(node: Node) -> bool:
    return is_whole_write(node) and bytes_of(node.args[0]) <= SMALL


def _of(step: Step, several: dict[Node, list[Node]]) -> Step:
    nodes = several.get(step.results[0]) if step.single else None
    if nodes is None:
        return step
    bases, values = ([node.args[k] for node in nodes] for k in (0, 1))
    copy = torch.ops.aten._foreach_copy_.default
    return Step((nodes[-1],), copy, (bases, values), {})
