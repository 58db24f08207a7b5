"""Regions have levels, and what torch runs comes between two of them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from enum import Enum

import torch
from torch.fx import Node

from warpsmith.torch_backend.aten import PRODUCTS, name_of
from warpsmith.torch_backend.writes import is_whole_write, writes


class Kind(Enum):
    """Who computes a node."""

    given = "given"  # an input or a constant of the graph
    taken = "taken"  # a region
    free = "free"  # each region that reads it, and torch where others do: a view, or a constant
    left = "left"  # torch


def levels_of(
    nodes: Sequence[Node], kinds: Mapping[Node, Kind], behind: Mapping[Node, Sequence[Node]]
) -> dict[Node, int]:
    """Of each taken node the level of its region; of others that after which they are there."""
    levels: dict[Node, int] = {}
    usable: dict[Node, int] = {}  # from which level on a region can read the node
    drawn = -1  # what draws random numbers, or has other effects, keeps its order
    for node in nodes:
        sources = (*node.all_input_nodes, *behind.get(node, ()))
        kind = kinds[node]
        if kind is Kind.taken:  # in a region what reads an input stands in no order with a write
            before = (each for each in behind.get(node, ()) if kinds[each] is kind)
            others = [levels[each] + _apart(each, node) for each in before]
            levels[node] = max((*others, *(usable[each] for each in sources)), default=0)
            usable[node] = levels[node]
            continue
        levels[node] = max((levels[each] for each in sources), default=-1)
        if kind is Kind.free:
            usable[node] = max((usable[each] for each in sources), default=0)
            continue
        if kind is Kind.left and has_effects(node):
            drawn = levels[node] = max(drawn, levels[node])
        usable[node] = 0 if kind is Kind.given else levels[node] + 1
    _delay(nodes, kinds, levels, behind)
    return levels


def _apart(before: Node, node: Node) -> int:
    """By how many levels two nodes are apart, of which one comes behind the other: a region reads
    all of what it writes over as a whole before it does.
    """
    return 0 if is_whole_write(node) and not writes(before) else 1


def _delay(
    nodes: Sequence[Node],
    kinds: Mapping[Node, Kind],
    levels: dict[Node, int],
    behind: Mapping[Node, Sequence[Node]],
) -> None:
    """Let what only inputs of the graph are read for be computed where it is first read, but for
    products, and what comes behind a write, or would come behind one that it comes before.

    A cast of a weight is then part of the region that reads it, and not a region of its own.
    """
    last: dict[Node, int] = {}
    for node, each in ((node, each) for node, several in behind.items() for each in several):
        level = levels[node] - (kinds[node] is Kind.taken and _apart(each, node))
        last[each] = min(level, last.get(each, level))
    ordered = {node for node, several in behind.items() if several}
    while late := _delayed(nodes, kinds, levels, ordered, last):
        ordered |= late
    # Parts of one operation stay with it, whichever of them is read first.
    for node in nodes:
        if node.target is operator.getitem and kinds[node] is Kind.taken:
            whole = node.args[0]
            assert isinstance(whole, Node)
            levels[node] = levels[whole] = min(levels[node], levels[whole])


def _delayed(
    nodes: Sequence[Node],
    kinds: Mapping[Node, Kind],
    levels: dict[Node, int],
    ordered: set[Node],
    last: Mapping[Node, int],
) -> set[Node]:
    """Delay all but what is ordered, and what follows from that. Where some would be later than
    their last level, delay nothing, and return these.
    """
    early: dict[Node, bool] = {}
    for node in nodes:
        before = node not in ordered and name_of(node.target) not in PRODUCTS
        before = before and all(early[each] for each in node.all_input_nodes)
        early[node] = kinds[node] is Kind.given or (kinds[node] is not Kind.left and before)
    bound: dict[Node, int] = {}
    found = dict(levels)
    late: set[Node] = set()
    for node in reversed(nodes):
        ends = (bound.get(user, 0) if user.op != "output" else 0 for user in node.users)
        latest = min(ends, default=0)
        if kinds[node] is Kind.left or not early[node]:
            bound[node] = levels[node]
            continue
        if kinds[node] is Kind.taken:
            found[node] = max(levels[node], latest)
            bound[node] = found[node]
            late |= {node} if found[node] > last.get(node, found[node]) else set()
        else:
            bound[node] = latest
    if not late:
        levels.update(found)
    return late


def has_effects(node: Node) -> bool:
    """Whether the order of a node among others counts: it draws random numbers, or
    may do anything."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in target.tags
