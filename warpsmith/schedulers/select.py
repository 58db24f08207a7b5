"""Which scheduler takes a fusion."""

from __future__ import annotations

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.exprs import Scan, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.reads import read_elsewhere
from warpsmith.ir.tensor import Operation
from warpsmith.ir.turns import turn_of
from warpsmith.schedulers.caching import repeats
from warpsmith.schedulers.candidate import Candidate, Refusals
from warpsmith.schedulers.table import SCHEDULERS
from warpsmith.targets.target import Target


def refusals(fusion: Program, target: Target, without: Refusals = ()) -> Refusals:
    """What each scheduler says of the fusion; those in `without` are not asked, but say that."""
    known, whole = dict(without), fusion.without(())
    scanned = any(isinstance(op, Scan) for op in fusion.operations)
    torn = {op: why for op in fusion.operations if (why := _reads_computed(op))}
    turned = all(map(turn_of, torn))  # which a product's kernel has in registers

    def said(kind: type[Candidate]) -> str:
        if scanned and kind.scheduler != "scan":
            return "it scans"
        if torn and not (turned and kind.scheduler == "matmul"):
            return next(iter(torn.values()))
        return known.get(kind.scheduler) or kind.refusal(whole, target)

    return tuple((kind.scheduler, said(kind)) for kind in SCHEDULERS)


def _reads_computed(operation: Operation) -> str:
    """Why no kernel has an operation that reads elements of another loop: it can only read them
    from memory. Empty where it can.
    """
    if repeats(operation) and not any(t.is_input for t in tensor_inputs(operation)):
        return "it repeats elements of what it computes"
    if not all(t.is_input for t in read_elsewhere(operation)):
        return "it reads what it computes at other places"
    return ""


def select(fusion: Fusion, target: Target, reasons: Refusals | None = None) -> Candidate:
    """Prepare a draft of the fusion for the first scheduler that takes it.

    `reasons` are the fusion's `refusals`, where they are known.
    """
    reasons = refusals(fusion, target) if reasons is None else reasons
    declined = dict(reasons)
    taken = next((kind for kind in SCHEDULERS if not declined[kind.scheduler]), None)
    if taken is None:
        listing = "; ".join(f"{name}: {reason}" for name, reason in reasons)
        raise SchedulerRefusal(
            f"no scheduler can take the fusion ({listing})",
            remedy="schedule it by hand with manual_execute, or define it as several fusions",
        )
    draft = fusion.draft()
    caches = taken.prepared(draft)
    others = tuple((name, reason) for name, reason in reasons if reason)
    return taken(draft, caches, map_of(draft), others)
