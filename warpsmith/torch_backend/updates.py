"""Regions that write into the graph's inputs: what kernels write in place, and which are one.

What an optimizer does to a parameter is a region of its own: it reads the parameter, its gradient
and its moments, and writes them. All of them are made one region, whose parts one kernel computes
side by side, and so is what counts the calls of each batch norm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import torch
from torch.fx import Node

from warpsmith.schedulers.side_by_side.candidate import MOST_TENSORS
from warpsmith.torch_backend.aten import CONVERSIONS, name_of
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.sizes import hint_of
from warpsmith.torch_backend.writes import is_whole_write, root_of, writes

Regions = Sequence[tuple[Node, ...]]


def misplaced(
    regions: Regions, levels: Mapping[Node, int], behind: Mapping[Node, Sequence[Node]]
) -> set[Node]:
    """The writes that are better left to torch.

    Of elements, those of regions that have no results. Of whole inputs, those whose region computes
    more than elements, which would copy them there, or not the value, or something
    of more elements, each of which may read what is written; those of regions that read the
    input through a view; and of those that would wait for another one of their level, which reads
    what was there.
    """
    found: set[Node] = set()
    for region in regions:
        own = set(region)
        alone = not any(user not in own for node in region for user in node.users)
        of_elements = all(map(_is_of_elements, region))
        most = max(_elements(t) for node in region for t in tensors_of(node))
        for node in filter(writes, region):
            if not is_whole_write(node):
                found |= {node} if alone else set()
                continue
            before = (each for each in behind.get(node, ()) if each not in own)
            waits = any(levels[each] == levels[node] for each in before)
            fits = of_elements and _elements(node.meta["val"]) == most
            if waits or not fits or node.args[1] not in own or _is_viewed(node.args[0], own):
                found.add(node)
    return found


def joined(
    regions: Regions, levels: Mapping[Node, int], order: Mapping[Node, int]
) -> tuple[tuple[Node, ...], ...]:
    """The regions, of which those of one level that write whole inputs, or are of lists of tensors,
    are one, as far as one kernel has room for their tensors.
    """
    found: list[tuple[Node, ...]] = []
    groups: dict[tuple[int, torch.device], list[tuple[Node, ...]]] = {}
    for region in regions:
        chosen = [node for node in region if is_whole_write(node)]
        if not chosen and all(map(_is_of_list, region)):
            chosen = [*region]
        if chosen:
            device = chosen[0].meta["val"].device
            groups.setdefault((levels[chosen[0]], device), []).append(region)
        else:
            found.append(region)
    for several in groups.values():
        room, taken = 0, list[Node]()
        for region in several:
            need = _tensors(region)
            if taken and need > room:
                found.append(tuple(sorted(taken, key=order.__getitem__)))
                room, taken = 0, []
            room = (room or MOST_TENSORS) - need
            taken += region
        found.append(tuple(sorted(taken, key=order.__getitem__)))
    return tuple(found)


def _is_viewed(base: Node, region: Iterable[Node]) -> bool:
    """Whether nodes read an input through a view, which is another tensor of the same memory."""
    read = {each for node in region for each in node.all_input_nodes}
    return any(each is not base and root_of(each) is base for each in read)


def _elements(tensor: torch.Tensor) -> int:
    return prod(map(hint_of, tensor.shape))


def _tensors(region: Iterable[Node]) -> int:
    """How many tensors a kernel of a region reads and writes, at most."""
    own = set(region)
    read = {each for node in own for each in node.all_input_nodes if each not in own}
    leave = [node for node in own if writes(node) or not own.issuperset(node.users)]
    return len(read) + len(leave)


def _is_of_list(node: Node) -> bool:
    """Whether a node is what an operation on a list does to one of its tensors."""
    return _is_of_elements(node) and "_foreach_" in str(node.meta.get("original_aten"))


def _is_of_elements(node: Node) -> bool:
    if is_whole_write(node) or name_of(node.target) in (*CONVERSIONS, "prims.fma"):
        return True
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
