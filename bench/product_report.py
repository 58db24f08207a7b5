"""What is said of products of random sizes: their rows as text, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from bench.products import PEERS, Row, failures

LACKING = ", less"
"""What contenders are called more that are lowered without some passes."""
WORST = 10
THIRD = 1 / 3
"""A ratio to cuBLAS below which a choice fails."""


def line(row: Row) -> str:
    """A row as text."""
    if "us" not in row:
        return f"{row['title']}: {row['contender']}: {row['failed']}"
    predicted = f", {row['predicted']:.1f} predicted, {row['short']}" if "short" in row else ""
    return (
        f"{row['title']}: {row['contender']} {row['us']:.1f} us, cuBLAS {row['cublas_us']:.1f}, "
        f"{row['ratio']:.3f}{predicted}"
    )


def summary(cases: Sequence[Sequence[Row]]) -> str:
    """What each contender comes to, the choice's worst sizes, and what it loses."""
    rows = [row for each in cases for row in each]
    lines = []
    for name in ("chosen", *PEERS):
        ratios = sorted(r["ratio"] for r in rows if r["contender"] == name and "ratio" in r)
        if ratios:
            mean = geometric_mean(ratios)
            tenth = ratios[len(ratios) // 10]
            lines.append(
                f"{name}: {len(ratios)} sizes, geometric mean {mean:.3f} of cuBLAS, a tenth below "
                f"{tenth:.3f}, least {ratios[0]:.3f}"
            )
    chosen = [row for row in rows if row["contender"] == "chosen" and "ratio" in row]
    lines += [f"  {line(row)}" for row in sorted(chosen, key=lambda r: float(r["ratio"]))[:WORST]]
    lost, best = [], []
    for each in cases:
        timed = [r for r in each if "us" in r and "short" in r and LACKING not in r["contender"]]
        if len(timed) > 1 and timed[0]["contender"] == "chosen":
            least = min(row["us"] for row in timed)
            lost.append(timed[0]["us"] / least)
            best.append(timed[0]["cublas_us"] / least)
    if lost:
        regret, of_best = map(geometric_mean, (lost, best))
        lines.append(
            f"of those timed the choice takes {regret:.3f} x the best one's time, at worst "
            f"{max(lost):.3f} x; the best reach {of_best:.3f} of cuBLAS"
        )
    took = {(row["title"], row["contender"]): row["us"] for row in rows if "us" in row}
    times = [
        us / took[title, name.removesuffix(LACKING)]
        for (title, name), us in took.items()
        if name.endswith(LACKING) and (title, name.removesuffix(LACKING)) in took
    ]
    if times:
        lines.append(
            f"without these passes {len(times)} kernels take {geometric_mean(times):.3f} x as "
            f"long, from {min(times):.3f} to {max(times):.3f}"
        )
    failed = failures(rows)
    return "\n".join([*lines, f"{len(failed)} failed or wrong", *map(line, failed)])


def is_bad(row: Row) -> bool:
    """Whether a kernel of ours failed or was wrong, or the choice took 3 times cuBLAS's time."""
    if "short" not in row:
        return False
    return "failed" in row or (row["contender"] == "chosen" and row["ratio"] < THIRD)
