"""Which scheduler takes a fusion."""

from __future__ import annotations

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.exprs import Scan, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.reads import read_elsewhere
from warpsmith.ir.tensor import Operation
from warpsmith.schedulers.caching import Cached, add_caches, repeats
from warpsmith.schedulers.candidate import PERSISTENT, SCHEDULERS, Candidate, Refusal, Refusals
from warpsmith.schedulers.matmul.blocks import by_blocks
from warpsmith.schedulers.matmul_by_threads.sides import keep_apart
from warpsmith.schedulers.reduction.recompute import recompute_after
from warpsmith.schedulers.rows import columns as row_columns
from warpsmith.schedulers.rows.resident import Choice, choices
from warpsmith.schedulers.rows.two_passes import in_two_passes
from warpsmith.targets.target import Target


def refusals(fusion: Program, target: Target, without: Refusals = ()) -> Refusals:
    """What each scheduler says of the fusion; those in `without` are not asked, but say that."""
    known, whole = dict(without), fusion.without(())
    scanned = any(isinstance(op, Scan) for op in fusion.operations)
    torn = next(filter(None, map(_reads_computed, fusion.operations)), "")

    def said(name: str, refusal: Refusal) -> str:
        if scanned and name != "scan":
            return "it scans"
        if torn:
            return torn
        return known.get(name) or refusal(whole, target)

    return tuple((name, said(name, refusal)) for name, refusal in SCHEDULERS)


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
    taken = next((name for name, reason in reasons if not reason), None)
    if taken is None:
        listing = "; ".join(f"{name}: {reason}" for name, reason in reasons)
        raise SchedulerRefusal(
            f"no scheduler can take the fusion ({listing})",
            remedy="schedule it by hand with manual_execute, or define it as several fusions",
        )
    prepared, caches = _prepared(fusion, taken)
    residents: tuple[Choice, ...] = ()
    if taken in PERSISTENT:
        columns = row_columns.partial_sums(prepared)
        rows = row_columns.rows_alone(prepared, columns)
        own = row_columns.of_rows(caches, columns)
        residents = choices(rows, own, turns=taken == "inner_outer")
    declined = tuple((name, reason) for name, reason in reasons if reason)
    return Candidate(prepared, caches, map_of(prepared), taken, declined, residents)


def _prepared(fusion: Fusion, scheduler: str) -> tuple[Fusion, tuple[Cached, ...]]:
    """A draft that a scheduler's passes have been over, after which nothing changes it any more,
    and its copies between memory and registers.
    """
    draft = fusion.draft()
    if scheduler in PERSISTENT:
        in_two_passes(draft)
    if scheduler == "matmul":
        by_blocks(draft)
    caches = add_caches(draft)
    if scheduler in ("reduction", "outer_grid", "inner_grid"):
        caches = recompute_after(draft, caches)
    if scheduler == "matmul_by_threads":
        caches = keep_apart(draft, caches)
    if scheduler == "inner_outer":
        columns = row_columns.partial_sums(draft)
        draft.bring_first(row_columns.rows_alone(draft, columns).operations)
    return draft, caches
