"""Results that are reshapes, written in the dimensions in which they are computed."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedulers.caching import add_caches
from warpsmith.schedulers.pointwise.applicability import reference
from warpsmith.schedulers.pointwise.heuristic import inner_run
from warpsmith.schedulers.pointwise.repeated import first_of_rows


def without_reshapes(draft: Fusion) -> None:
    """Write what is reshaped in place of its reshape, which lies in memory as it does: where parts
    are stacked and read as one row, so that threads have all parts of what they load once.

        before  T4[rows, 2, columns] = ..;  T5[rows, 2 * columns] = reshape(T4)
        after   T5[rows, 2, columns] = ..
    """
    trial = draft.draft()
    if not _replace(trial):
        return
    caches, domains = add_caches(trial), map_of(trial)
    if reference(trial, domains) is not None:
        run = inner_run(trial, domains, caches)
        if first_of_rows(domains, caches, run) < run.start:
            _replace(draft)


def _replace(fusion: Fusion) -> bool:
    """Whether any result was a reshape alone, or what one is rounded to."""
    apart = {output.value for output in fusion.outputs if output.place is not None}
    found = False
    for output in dict.fromkeys(output.value for output in fusion.outputs):
        made = output.definition
        assert made is not None
        casts = isinstance(made, Pointwise) and made.op == "cast"
        (reshaped,) = tensor_inputs(made) if casts else (output,)
        move, packed = reshaped.definition, output.stride_order is None
        if output in apart or not packed or False in output.contiguity:
            continue
        if not isinstance(move, Move) or move.kind != "reshape":
            continue
        if move.source.is_input or move.source.is_output:
            continue
        if fusion.uses(output) or len(fusion.uses(reshaped)) > casts:
            continue
        whole = fusion.tensor(output.dtype, tuple(axis.clone() for axis in move.source.shape_axes))
        whole.number, output.number = output.number, whole.number
        fusion.replace(made, Pointwise("cast" if casts else "set", (move.source,), whole))
        fusion.outputs = [
            replace(each, value=whole) if each.value is output else each for each in fusion.outputs
        ]
        remove_dead(fusion)
        found = True
    return found
