"""Prints how many mutants of each kernel are found, by operator: found / neutral / all.

Run as `python -m tests.sim.support.kill_matrix [KERNEL ...]`; all kernels take some minutes. A
mutant that is neither found nor listed as neutral, and a listed one that is found, are named.
"""

import sys
from collections import Counter
from multiprocessing import Pool

from tests.sim.support.neutral import MUTATED, Case, cases, judge_case

# Operators as columns; the numbers they change stand together.
COLUMNS = {
    "deleted": ("deleted",),
    "duplicated": ("duplicated",),
    "parity": ("parity",),
    "count": ("count+1", "count-1"),
    "bytes": ("bytes+16", "bytes-16"),
    "threads": ("threads+32", "threads-32"),
    "pending": ("pending+1", "pending-1"),
    "registers": ("registers+8", "registers-8"),
    "order, scope": ("relaxed", "scope"),
    "read, full": ("read", "full"),
    "moved": ("moved before", "moved behind"),
}


def _judge(case: Case) -> str:
    verdict = judge_case(case, everywhere=True).verdict
    return "neutral" if case.neutral and verdict == "clean" else verdict


def main(kernels: list[str]) -> None:
    every = [case for kernel in kernels for case in cases(kernel)]
    with Pool() as pool:
        verdicts = pool.map(_judge, every, chunksize=4)
    counts: Counter[tuple[str, str, str]] = Counter()
    for case, verdict in zip(every, verdicts, strict=True):
        (column,) = [name for name, held in COLUMNS.items() if case.mutant.operator in held]
        for row in (case.kernel, "all"):
            counts[row, column, verdict] += 1
        if verdict not in ("findings", "neutral") or (case.neutral and verdict == "findings"):
            print(f"{case.kernel}: {case.name}: {verdict} ({case.mutant.description})")
    print("| kernel |", " | ".join((*COLUMNS, "together")), "|")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for row in (*kernels, "all"):
        cells = []
        for columns in (*((column,) for column in COLUMNS), tuple(COLUMNS)):
            found, neutral, clean, unjudged = (
                sum(counts[row, column, verdict] for column in columns)
                for verdict in ("findings", "neutral", "clean", "incomplete")
            )
            total = found + neutral + clean + unjudged
            cells.append(f"{found}/{neutral}/{total}" if total else "")
        print(f"| {row} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main(sys.argv[1:] or list(MUTATED))
