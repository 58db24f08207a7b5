"""When blocks may keep images whose channels are summed, and then groups of them."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.program import Program
from warpsmith.schedulers.parts.levels import Levels, in_memory, levels_of
from warpsmith.schedulers.parts.levels import refusal as parts_refusal
from warpsmith.schedulers.pointwise.applicability import cached_map
from warpsmith.schedulers.reduction.applicability import after_reduction, pattern, reductions


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can. Its blocks meet once."""
    if reason := parts_refusal(fusion):
        return reason
    domains = cached_map(fusion)
    inputs = [[t.shape_axes[d] for d in t.memory_order()] for t in fusion.input_tensors]
    levels, reason = levels_of(fusion, domains, inputs)
    assert levels is not None, reason
    wanted = levels.kept | levels.parts | levels.inside
    orders = [in_memory(domains, axes, wanted) for axes in inputs]
    images = [o for o in orders if set(o) == wanted and _are_images(o, levels)]
    if not images:
        return "no input has groups of columns side by side"
    if any(integers.constant(domains.extent(order[-2])) is None for order in images):
        return "how many groups there are is no number, and threads have results of each"
    weights = (order for order in orders if levels.inside.isdisjoint(order))
    if len(levels.kept) == 1 and not any(levels.parts <= set(order) for order in weights):
        return "no weights tell the columns of a group apart, and there is one image"
    after = after_reduction(fusion)
    for tensor in reductions(fusion):
        assert tensor.definition is not None
        meets = not pattern(domains, tensor)[1].isdisjoint(levels.inside)
        if meets and any(source in after for source in tensor_inputs(tensor.definition)):
            return f"{tensor.name} reduces what was reduced before"
    return ""


def _are_images(order: list[int], levels: Levels) -> bool:
    """Whether dimensions in memory order are images, which may be one, what is within each, groups,
    and channels.
    """
    inside, images = len(levels.inside), len(levels.kept) - 1
    return (
        len(levels.parts) == 1
        and levels.kept.issuperset((*order[:images], order[-2]))
        and set(order[images : images + inside]) == levels.inside
        and order[-1] in levels.parts
    )
