"""Tables of a kernel with roles, for docs/roles.md: who runs what, and what passes through which
ring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pages.examples import SHAPE, planned, scheduled_roles
from pages.section import Section
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.role_facts import RingRow, RoleRow, ring_rows, role_rows
from warpsmith.protocol import RingFacts, Verdict, check

SECTION: Final = Section.of("tables")


def example_tables() -> str:
    """The tables of the page's kernel, for the size of its picture."""
    call = planned(scheduled_roles(), [SHAPE, SHAPE])
    (launch,) = call.launches
    return tables(launch.compiled, call.problem.values)


def tables(compiled: CompiledKernel, values: Mapping[str, int]) -> str:
    """Both tables as Markdown.

    Arrivals, bytes and phases are what the protocol check counts when it runs the first block.

    Args:
        values: of sizes and of the launch's other scalars.

    Raises:
        ProtocolError: the kernel is wrong.
    """
    verdict = check(compiled.kernel, values, target=compiled.target)
    roles = role_rows(compiled.kernel, values, compiled.n_regs)
    rings = ring_rows(compiled.kernel, values)
    return f"{role_table(roles)}\n\n{ring_table(rings, roles, verdict)}"


def role_table(rows: Sequence[RoleRow]) -> str:
    """A line a role."""
    lines = [
        "| role | warps | threads | registers of a thread | named barrier |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        warps = row.warps.split(" ", 1)[1]
        threads = "1, elected" if row.threads == 1 else str(row.threads)
        barriers = ", ".join(map(str, row.barriers)) or "none"
        lines.append(f"| `{row.name}` | {warps} | {threads} | {row.registers} | {barriers} |")
    return "\n".join(lines)


def ring_table(rows: Sequence[RingRow], roles: Sequence[RoleRow], verdict: Verdict) -> str:
    """A line a ring: stages, who fills and uses them, and what ends a phase of either barrier."""
    lines = [
        "| ring | stages | bytes of a stage | from | to | a phase of `full` ends with "
        "| a phase of `empty` ends with | phases |",
        "|---|---|---|---|---|---|---|---|",
    ]
    known = {role.name: role for role in roles}
    for row, facts in zip(rows, verdict.rings, strict=True):
        size = ", ".join(f"{amount} (`{name}`)" for name, amount in row.stage_bytes)
        cells = (
            f"`{row.name}`",
            str(row.stages),
            size,
            f"`{row.producer}`",
            ", ".join(f"`{name}`" for name in row.consumers),
            _filled(facts, known),
            _arrivals(facts.empty, [known[name] for name in facts.consumers]),
            str(facts.fills),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _filled(facts: RingFacts, roles: Mapping[str, RoleRow]) -> str:
    if facts.bytes:
        return f"{_arrivals(facts.full, ())}, and {facts.bytes} bytes"
    return _arrivals(facts.full, [roles[facts.producer]])


def _arrivals(count: int, roles: Sequence[RoleRow]) -> str:
    """How often a phase is arrived at, and by whom; without roles, by an elected thread."""
    if all(role.threads == 1 for role in roles):
        return f"{count} arrival{'s' if count > 1 else ''}, of the elected thread"
    plural = "s" if count > 1 else ""
    return f"{count} arrival{plural}, one a warp{' of each' if len(roles) > 1 else ''}"


def written(page: str) -> str:
    """The page with its tables as they are now."""
    return SECTION.put(page, example_tables())
