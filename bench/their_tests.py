"""nvFuser's own Python tests on warpsmith, as a table by file: passed, failed, and why.

    python -m bench.their_tests FOLDER [FOLDER ...] [--only NAME ...] [--json FILE]

A folder is `tests/python/direct` or `tests/python/opinfo` of a checkout of nvFuser, which is read
as it is. Each file runs in a process of its own. Tests that skip are not for one Hopper GPU: of
several GPUs, of Blackwell, or with packages that are not there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.as_nvfuser import RESULTS

ROOT = Path(__file__).parents[1]

SECONDS = 1800
"""A file has so long; what it has not begun by then is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of the tests of one file.

    Attributes:
        reasons: of those that failed or were skipped, the first lines, each with how many.
        ended: it ran to its end.
    """

    file: str
    passed: int
    failed: int
    skipped: int
    reasons: dict[str, int]
    ended: bool = True

    @property
    def share(self) -> float | None:
        """Of those that are for one GPU, how many passed; None where there are none."""
        counted = self.passed + self.failed
        return self.passed / counted if counted else None


def run_file(file: Path, seconds: float = SECONDS) -> Outcomes:
    """The outcomes of one of their files.

    Their modules are imported as `python.direct_utils`, from the folder above `python`.
    """
    file = file.resolve()
    python = file.parent.parent
    with TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "bench.as_nvfuser", str(file)]
        command += [f"{RESULTS}={results}", "-c", os.devnull, f"--rootdir={file.parent}"]
        command += ["-o", f"pythonpath={python} {python.parent}", "-p", "no:cacheprovider"]
        said, ended = "", True
        try:
            done = subprocess.run(
                command, cwd=ROOT, timeout=seconds, capture_output=True, text=True, check=False
            )
            said = f"{done.stdout}{done.stderr}".strip()
        except subprocess.TimeoutExpired:
            ended = False
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        if not lines and ended:  # as where their `conftest.py` wants a package that is not there
            last = said.splitlines()[-1] if said else "nothing was run"
            lines = [{"test": file.name, "outcome": "failed", "reason": last}]
    return outcomes_of(file.name, lines, ended=ended)


def outcomes_of(file: str, lines: Sequence[dict[str, str]], *, ended: bool = True) -> Outcomes:
    """Outcomes of a file, from a test, an outcome and a reason each; one that failed has failed."""
    worst: dict[str, dict[str, str]] = {}
    for line in lines:
        known = worst.get(line["test"])
        if known is None or line["outcome"] == "failed":
            worst[line["test"]] = line
    count = Counter(line["outcome"] for line in worst.values())
    reasons = Counter(
        f"{line['outcome']}: {_first_line(line['reason'])}"
        for line in worst.values()
        if line["outcome"] != "passed"
    )
    return Outcomes(
        file=file,
        passed=count["passed"],
        failed=count["failed"],
        skipped=count["skipped"],
        reasons=dict(reasons.most_common()),
        ended=ended,
    )


def table(found: Iterable[Outcomes]) -> str:
    """The outcomes as a table of Markdown, a row a file."""
    rows = ["| file | passed | failed | not for one GPU | share |", "|---|---|---|---|---|"]
    for each in found:
        share = "-" if each.share is None else f"{each.share:.1%}"
        name = each.file if each.ended else f"{each.file} (cut off)"
        rows.append(f"| `{name}` | {each.passed} | {each.failed} | {each.skipped} | {share} |")
    return "\n".join(rows)


def _first_line(reason: str) -> str:
    return (reason.strip().splitlines() or [""])[0][:160]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="files, by parts of their names")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a file has")
    parser.add_argument("--json", type=Path, help="a file for outcomes and reasons")
    asked = parser.parse_args(arguments)
    files = [file for folder in asked.folders for file in sorted(folder.glob("test_*.py"))]
    found = []
    for file in files:
        if asked.only and not any(part in file.name for part in asked.only):
            continue
        found.append(run_file(file, asked.seconds))
        print(f"{file.name}: {found[-1].passed} passed, {found[-1].failed} failed", flush=True)
        for reason, times in found[-1].reasons.items():
            print(f"    {times} {reason}")
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
