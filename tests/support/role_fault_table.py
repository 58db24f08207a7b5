"""All faults of roles, what looks like one, and the tables of them in docs/lessons/roles.md.

`python -m tests.support.role_fault_table docs/lessons/roles.md` writes the tables into the page.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pages.section import Section
from tests.protocol.edits import counting
from tests.support.role_fault_edits import announced_last, by_each_thread, shared_full
from tests.support.role_fault_kernels import ADDING, but, each, every
from tests.support.role_fault_known import KNOWN
from tests.support.role_fault_more import MORE
from tests.support.role_fault_texts import Text
from tests.support.role_faults import Fault, Harmless
from warpsmith.kernel.nodes import Synchronize
from warpsmith.kernel.rings import ArriveByWarp, Await, FenceProxy

FAULTS: Mapping[str, Fault] = {**MORE, **KNOWN}

HARMLESS: Mapping[str, Harmless] = {
    "two loads count at one barrier of two arrivals": Harmless(
        ADDING,
        but(ADDING, shared_full, lambda kernel: counting(kernel, "ring0_full", 2)),
        "neither can arrive twice in a phase: each waits for readers, who wait for both",
    ),
    "a copy is announced after it is asked for": Harmless(
        ADDING,
        but(ADDING, every(announced_last, "load_x")),
        "bytes may come first; the phase lacks the arrival that comes with the announcement",
    ),
    "each thread arrives, and each is counted": Harmless(
        ADDING,
        but(
            ADDING,
            each(ArriveByWarp, by_each_thread, barrier="ring0_empty"),
            lambda kernel: counting(kernel, "ring0_empty", 256),
        ),
        "as many arrivals as the barrier counts",
    ),
    "a wait, twice": Harmless(
        ADDING,
        but(ADDING, each(Await, lambda wait: (wait, wait))),
        "the phase stays over until whoever waits goes on",
    ),
    "a fence, twice": Harmless(
        ADDING, but(ADDING, each(FenceProxy, lambda f: (f, f))), "the second orders nothing more"
    ),
    "no fence after the initialization": Harmless(
        ADDING,
        ADDING,
        "the block's barrier orders it within one block",
        text=Text(
            ADDING, (("ws_barriers_ready();", ""),), "the fence stands in the prologue's text"
        ),
    ),
    "all threads meet once more behind the roles": Harmless(
        ADDING,
        but(ADDING, lambda k: replace(k, body=(*k.body, Synchronize()))),
        "every thread comes there; refused since roles never meet again, and nothing is lowered so",
        code="WS0916",
        text=Text(
            ADDING,
            (("    // add\n", "    // add\n"), ("\n  }\n}\n", "\n  }\n  __syncthreads();\n}\n")),
            "code generation refuses the kernel, too",
        ),
    ),
}


def fault_table() -> str:
    """A row a fault: what is wrong, what the check says, and what the simulator finds."""
    rows = ["| fault | the check | names | the simulator |", "|---|---|---|---|"]
    for name, fault in FAULTS.items():
        named = [
            *([f"`{fault.ring}`"] if fault.ring else []),
            *(f"`{role}`" for role in fault.roles),
            *([f"phase {fault.phase}"] if fault.phase is not None else []),
        ]
        rows.append(f"| {name} | {fault.code} | {', '.join(named)} | {_found(fault)} |")
    return "\n".join(rows)


def _found(fault: Fault) -> str:
    if fault.refused:
        tool = "ptxas" if fault.refused == "WS0500" else "before the run"
        return f"refused: {tool} ({fault.refused})"
    return fault.unsaid or ", ".join(fault.finds)


def harmless_table() -> str:
    """A row for each: what is done, whether the check refuses it, and why it does no harm."""
    rows = ["| what | the check | why it does no harm |", "|---|---|---|"]
    for name, each_one in HARMLESS.items():
        rows.append(f"| {name} | {each_one.code or 'passes'} | {each_one.why} |")
    return "\n".join(rows)


def replaced(page: str) -> str:
    """The page with the tables between its marks."""
    for name, table in (("faults", fault_table()), ("harmless", harmless_table())):
        page = Section(f"<!-- {name} -->", f"<!-- end of {name} -->").put(page, table)
    return page


def main(arguments: Sequence[str]) -> None:
    """Write the tables into a page."""
    path = Path(arguments[0])
    path.write_text(replaced(path.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
