"""Regions that run no earlier than they are read, where that takes less memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch.autograd.function import BackwardCFunction
from torch.fx import Node

from warpsmith.torch_backend.definition import bytes_of
from warpsmith.torch_backend.source import Step
from warpsmith.torch_backend.writes import root_of

_LETS_GO = hasattr(BackwardCFunction, "apply_boxed")
"""Whether autograd lets go of what backward gets; before PyTorch 2.13 it holds that to the end."""


def sink(made: Sequence[tuple[int, Step]], results: Iterable[object]) -> list[tuple[int, Step]]:
    """Steps with the places where they come; later ones for regions that read what the graph gets,
    and nothing else, where what they make is more than they would keep alive by waiting.

    The gradient of weights that logits are made by is one, of another graph's gradient: added to
    that of the same weights as words' at the end, it would be there as long as all of backward.
    """
    computing = [(place, step) for place, step in made if not _is_view(step)]
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for place, step in computing:
        for root in set(map(root_of, step.reads())):
            first[root] = min(first.get(root, place), place)
            last[root] = max(last.get(root, place), place)
    leaving = {root_of(node) for node in results if isinstance(node, Node)}

    def waits(place: int, step: Step) -> int:
        roots, own = (set(map(root_of, nodes)) for nodes in (step.reads(), step.results))
        if step.single or not own or any(root.op == "call_function" for root in roots):
            return place
        if leaving & own or not first.keys() >= own:
            return place
        behind = min(first[node] for node in own)
        kept = [root for root in roots if last[root] < behind and not _is_held(root)]
        saved = sum(map(bytes_of, step.results)) - sum(map(bytes_of, kept))
        return behind if saved > 0 else place

    return [(waits(place, step), step) for place, step in made]


def _is_view(step: Step) -> bool:
    return step.single and root_of(step.results[0]) is not step.results[0]


def _is_held(node: Node) -> bool:
    """Whether the caller of the graph holds what it gives for a node, by AOTAutograd's names:
    parameters and inputs of the model, but not what was saved.
    """
    if node.op != "placeholder" or node.name.startswith(("primals_", "arg")):
        return True
    return node.name.startswith("tangents_") and not _LETS_GO
