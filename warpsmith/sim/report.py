"""What a simulation says: a verdict, findings with their two sides, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Final, Literal

from numpy.typing import NDArray

from warpsmith.values import dataclass

Verdict = Literal["clean", "findings", "incomplete"]

# In the order of `finding_kind` in native/machine/machine.h.
KINDS: Final = (
    "deadlock",
    "race",
    "missing-proxy-fence",
    "missing-init-fence",
    "wgmma-register",
    "wgmma-overwrite",
    "arrival-overflow",
    "arrival-missing",
    "arrival-unordered",
    "phase-skipped",
    "tx-mismatch",
    "barrier-uninitialized",
    "barrier-invalidated",
    "barrier-reinitialized",
    "named-barrier-count",
    "named-barrier-clash",
    "setmaxnreg",
    "out-of-bounds",
    "misaligned",
    "uninitialized",
    "exit-outstanding",
    "divergent",
    "illegal-argument",
    "early-access",
    "trap",
    "unsupported",
    "budget",
)
WRONG_OUTPUT: Final = "wrong-output"
# These say that the run could not be judged, not that the kernel is wrong.
UNJUDGED: Final = frozenset({"unsupported", "budget"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in the kernel, and the thread that was there. None where it is not known.

    `line` is of the PTX, `text` what stands there, and `source` the CUDA or Python line as
    `file:line` where the PTX knows it; `caller` is the line at which that is inlined. `cta` counts
    CTAs cluster by cluster; `block` is the blockIdx of that one.
    """

    line: int | None = None
    text: str = ""
    source: str | None = None
    caller: str | None = None
    cta: int | None = None
    block: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None

    @property
    def place(self) -> str:
        """The lines, in words; empty where they are not known."""
        line = f"line {self.line}" if self.line is not None else ""
        source = f"{self.source} in {self.caller}" if self.caller else self.source
        return ", ".join(filter(None, (line, source)))

    @property
    def who(self) -> str:
        """The thread, in words; empty where it is not known."""
        cta = None if self.cta is None else str(self.cta)
        if self.block is not None and self.block != (self.cta, 0, 0):
            cta = f"{cta} ({', '.join(map(str, self.block))})"
        known = (("CTA", cta), ("warp", self.warp), ("lane", self.lane))
        return ", ".join(f"{name} {value}" for name, value in known if value is not None)

    def __str__(self) -> str:
        text = f": {self.text}" if self.text else ""
        return f"{', '.join(filter(None, (self.place, self.who)))}{text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, with its proof.

    `other` is the other side of a race, a missing fence or a mismatch. `address` is an offset in
    `buffer`, or in shared memory when `buffer` is None. `schedule` names the run that showed it
    first, and `count` how often that run met it.
    """

    kind: str
    message: str
    site: Site
    other: Site | None = None
    buffer: str | None = None
    address: int | None = None
    barrier: int | None = None
    phase: int | None = None
    schedule: str = ""
    count: int = 1

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}", f"    at {self.site}"]
        if self.other is not None:
            lines.append(f"   and {self.other}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of simulating one launch under some schedules.

    `arrays` are the buffers after the first schedule. `stats` counts its instructions, bytes by
    path and waits; `cycles` is of the timing model. `printed` is what the first schedule's printf
    gave, at most 1 MiB.
    """

    kernel: str
    findings: tuple[Finding, ...]
    schedules: tuple[str, ...]
    stats: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)
    printed: str = field(default="", repr=False)

    @property
    def verdict(self) -> Verdict:
        """`clean` only when every schedule ran to its end and nothing was found."""
        kinds = {finding.kind for finding in self.findings}
        if kinds - UNJUDGED:
            return "findings"
        return "incomplete" if kinds else "clean"

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings, 2 could not judge."""
        return {"clean": 0, "findings": 1, "incomplete": 2}[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON values."""
        return {
            "kernel": self.kernel,
            "verdict": self.verdict,
            "findings": [asdict(finding) for finding in self.findings],
            "schedules": list(self.schedules),
            "stats": dict(self.stats),
            "printed": self.printed,
        }

    def __str__(self) -> str:
        count = len(self.schedules)
        head = f"{self.kernel}: {self.verdict} under {count} schedule{'s' if count > 1 else ''}"
        return "\n".join([head, *map(str, self.findings)])
