"""When the scan scheduler applies."""

from __future__ import annotations

from warpsmith.ir.exprs import Matmul, Reduction, Scan, tensor_inputs
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program
from warpsmith.schedulers.pointwise.applicability import cached_map, covers, self_mapped


def scans(fusion: Program) -> tuple[Scan, ...]:
    """In the order of the program."""
    return tuple(op for op in fusion.operations if isinstance(op, Scan))


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    found = scans(fusion)
    if not found:
        return "it does not scan"
    if any(isinstance(op, Matmul | Reduction) for op in fusion.operations):
        return "it reduces, too"
    domains = cached_map(fusion)
    first = found[0]
    for other in found[1:]:
        if _walk(domains, other) != _walk(domains, first):
            return f"{first.output.name} and {other.output.name} scan different dimensions"
    after = fusion.after(lambda operation: isinstance(operation, Scan))
    for scan in found:
        if any(source in after for source in tensor_inputs(scan)):
            return f"{scan.output.name} scans what was scanned before"
    if not covers(fusion, domains, first.output):
        return f"a tensor has a dimension that {first.output.name} lacks"
    return self_mapped(fusion, domains)


def _walk(domains: DomainMap, scan: Scan) -> tuple[Group, frozenset[Group], bool]:
    """The group that is scanned, all groups, and whether from the end."""
    axes = [axis for axis in scan.output.root if not axis.is_broadcast]
    groups = frozenset(map(domains.group, axes))
    return domains.group(scan.output.root[scan.dim]), groups, scan.reverse
