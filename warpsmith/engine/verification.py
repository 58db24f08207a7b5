"""What the simulator says of a whole call: a report for each of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from warpsmith.values import dataclass

if TYPE_CHECKING:
    from warpsmith.sim.report import Report, Verdict

DEFAULT_SCHEDULES: Final = 8


@dataclass(frozen=True, slots=True)
class Verification:
    """Reports in the order in which the kernels run; there may be none, when nothing is computed.

    Each kernel was run on the results of those before it, under every schedule, and the outputs
    that it completes were held against the meaning of the program.
    """

    reports: tuple[Report, ...]

    @property
    def verdict(self) -> Verdict:
        """`clean` when all are; `findings` when one has any; else `incomplete`."""
        verdicts = {report.verdict for report in self.reports}
        worst: Sequence[Verdict] = ("findings", "incomplete")
        return next((verdict for verdict in worst if verdict in verdicts), "clean")

    def to_json(self) -> dict[str, Any]:
        """The verdict and every report as JSON values."""
        reports = [report.to_json() for report in self.reports]
        return {"verdict": self.verdict, "kernels": reports}

    def __str__(self) -> str:
        return "\n".join(map(str, self.reports)) or "nothing is launched"
