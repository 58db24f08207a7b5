"""The suite of small kernels in which two ways of touching shared memory meet, and its table."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pages.section import Section
from tests.support.meeting_kernels import Meeting, planned_kernel
from tests.support.meeting_runs import mutants, planned

PAGE = Path(__file__).parents[2] / "docs" / "lessons" / "ordering-minimal.md"
SECTION = Section.of("kernels", "tests.support.meetings")

_WRITERS = ("store", "stmatrix", "TMA load", "cp.async")
_READERS = ("load", "wgmma", "TMA store")

LOOPS = tuple(Meeting(writer=w, reader=r) for w in _WRITERS for r in _READERS)
"""Every writer with every reader, in a loop that uses one stage again and again."""

OWN = tuple(
    Meeting(writer=writer, reader="own load", stages=stages, ahead=ahead)
    for writer in ("store", "cp.async")
    for stages, ahead in ((1, None), (3, 2))
)
"""Each thread reads what it wrote itself."""

RINGS = tuple(
    Meeting(writer=writer, reader=reader, stages=stages, ahead=ahead, adds=adds)
    for writer, reader, stages, ahead, adds in (
        ("store", "TMA store", 2, None, False),
        ("store", "TMA store", 3, None, False),
        ("stmatrix", "TMA store", 2, None, False),
        ("stmatrix", "TMA store", 3, None, False),
        ("store", "load", 2, 1, False),
        ("store", "wgmma", 2, 1, False),
        ("cp.async", "load", 2, 1, False),
        ("cp.async", "load", 3, 2, False),
        ("cp.async", "wgmma", 3, 2, False),
        ("cp.async", "wgmma", 3, 2, True),
        ("TMA load", "load", 2, 0, False),
        ("TMA load", "load", 3, 2, False),
        ("TMA load", "wgmma", 3, 2, False),
        ("TMA load", "wgmma", 3, 2, True),
        ("TMA load", "wgmma", 3, 1, True),
    )
)
"""Loops that turn stages, fill ahead of their use and store behind it."""

ROLES = tuple(
    Meeting(writer=writer, reader=reader, stages=stages, roles=True)
    for writer in _WRITERS
    for reader in _READERS
    for stages in (2, 3)
    if stages == 2 or reader == "TMA store"
)
"""One role fills stages and another one uses them."""

ADDING = tuple(
    Meeting(writer=writer, reader="wgmma", stages=stages, roles=True, adds=True)
    for writer, stages in (("TMA load", 1), ("TMA load", 3), *((w, 2) for w in _WRITERS))
)
"""One role multiplies what another one puts into stages, with a product on its way meanwhile."""

STRAIGHT = tuple(
    Meeting(writer="", reader="", straight=pairs)
    for pairs in (
        (("store", "load"), ("cp.async", "load")),
        (("stmatrix", "wgmma"), ("store", "TMA store")),
        (("store", "TMA store"), ("cp.async", "wgmma"), ("stmatrix", "load")),
        (("cp.async", "TMA store"), ("stmatrix", "TMA store"), ("store", "load")),
        (("TMA load", "load"),),
        (("TMA load", "wgmma"),),
    )
)
"""One after the other, without a loop; so that a stage's next writer is another one."""

QUICK = (LOOPS[1], LOOPS[4], *LOOPS[6:9], LOOPS[10], *OWN, RINGS[1], RINGS[7], RINGS[-1], ROLES[3])
"""Enough of them for each mechanism."""

MEETINGS = (*LOOPS, *OWN, *RINGS, *ROLES, *ADDING, *STRAIGHT)


def table(meetings: Iterable[Meeting] = MEETINGS) -> str:
    """A line a kernel, as Markdown: the mechanisms chosen, and the statements planned."""
    lines = ["| kernel | read after write | write after read | planned |", "|---|---|---|---|"]
    total = 0
    for meeting in meetings:
        kernel = planned_kernel(meeting)
        by = {"read after write": "", "write after read": ""}
        for order in kernel.orders:
            if order.buffer == "S" and order.second != "block: gives up its memory":
                known = by[order.hazard].split("; ") if by[order.hazard] else []
                by[order.hazard] = "; ".join(dict.fromkeys((*known, order.mechanism)))
        found = Counter(type(statement).__name__ for statement in planned(kernel))
        total += sum(1 for _ in mutants(kernel))
        words = ", ".join(f"{n} {name}" if n > 1 else name for name, n in found.items())
        lines.append(f"| {meeting.name} | {' | '.join(by.values())} | {words or 'nothing'} |")
    return "\n".join((*lines, "", f"{len(lines) - 2} kernels, {total} with one statement less."))


def main() -> None:
    """Write the table into its page."""
    PAGE.write_text(SECTION.put(PAGE.read_text(), table()))


if __name__ == "__main__":
    main()
