"""Products by group of mixtures of experts, beside PyTorch's and one product of as many rows.

python -m bench.grouped --json rows.json

Experts have drawn numbers of rows. Each result is held against sums in float, expert by expert,
then all contenders are timed in turn: `torch._grouped_mm`, where this PyTorch has it, and one
product of as many rows and one matrix, by us and by PyTorch, which reads fewer weights. What is
wrong, or takes more than `MOST` of our one product's time, is listed, and the command then fails.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import one_line
from bench.products import error_of

MOST = 1 / 0.95
N, K = 4096, 7168


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Rows of each expert, of matrices `[n, k]`; `spare` rows have none."""

    rows: tuple[int, ...]
    n: int = N
    k: int = K
    spare: int = 0

    @property
    def total(self) -> int:
        return sum(self.rows) + self.spare

    @property
    def title(self) -> str:
        least, most = min(self.rows), max(self.rows)
        return f"{len(self.rows)} experts of {least} to {most} rows, {self.total}x{self.n}x{self.k}"


def cases(seed: int) -> list[Case]:
    """16 experts: rows of one to 4096, evenly by number and by logarithm; equal ones, 16 to 4096;
    64 experts of narrow matrices.
    """
    source = random.Random(seed)
    found = [
        Case(rows=tuple(source.randint(1, 4096) for _ in range(16))),
        Case(rows=tuple(source.randint(1, 4096) for _ in range(16))),
        Case(rows=tuple(round(4096 ** source.random()) for _ in range(16))),
        Case(rows=(*(source.choice((0, 0, 256, 1000)) for _ in range(15)), 77)),
    ]
    found += [Case(rows=(each,) * 16) for each in (16, 128, 1024, 4096)]
    return [*found, Case(rows=tuple(source.randint(1, 512) for _ in range(64)), n=2048, k=2048)]


def operands(case: Case, device: str = "cuda") -> tuple[Any, Any, Any]:
    """Fresh rows and matrices of -2 to 2 in bfloat16, and before which row each expert ends."""
    import torch

    def made(*shape: int) -> Any:
        return torch.rand(shape, device=device).mul_(4).sub_(2).to(torch.bfloat16)

    counts = torch.tensor(case.rows, device=device)
    x, weight = made(case.total, case.k), made(len(case.rows), case.n, case.k)
    return x, weight, torch.cumsum(counts, 0).to(torch.int32)


def contenders(case: Case, x: Any, weight: Any, ends: Any) -> dict[str, Callable[[], Any]]:
    """Calls that are compiled already."""
    import torch

    from warpsmith import fuse, ops

    grouped = fuse(lambda x, w, ends: ops.grouped_matmul(x, w, ends))
    one = fuse(lambda x, w: ops.linear(x, w))
    found: dict[str, Callable[[], Any]] = {
        "grouped": lambda: grouped(x, weight, ends),
        "one": lambda: one(x, weight[0]),
        "torch_one": lambda: torch.nn.functional.linear(x, weight[0]),
    }
    peer = getattr(torch, "_grouped_mm", None)
    if peer is not None and x.is_cuda:
        turned = weight.transpose(-1, -2)
        found["torch"] = lambda: peer(x, turned, offs=ends)
    for call in found.values():
        call()
    return found


def worst_error(case: Case, result: Any, x: Any, weight: Any) -> float:
    """The largest error of an expert's rows; rows of none are to be 0. Above 1 is wrong."""
    begin, worst = 0, 0.0
    for matrix, count in zip(weight, case.rows, strict=True):
        end = begin + count
        if count:
            worst = max(worst, error_of(result[begin:end], x[begin:end], matrix.t()))
        begin = end
    return worst if not bool(result[begin:].any()) else float("inf")


def measured(case: Case, rep_ms: float) -> dict[str, Any]:
    """A row: microseconds by contender, the ratio to one product, the error, or what failed."""
    import torch

    from warpsmith.testing import do_bench_interleaved

    row: dict[str, Any] = {"title": case.title, "rows": case.rows, "n": case.n, "k": case.k}
    try:
        given = operands(case)
        calls = contenders(case, *given)
        row["error"] = worst_error(case, calls["grouped"](), *given[:2])
        times = do_bench_interleaved(calls, warmup=rep_ms / 4, rep=rep_ms)
        row["us"] = {name: 1e3 * ms for name, ms in times.items()}
        row["ratio"] = row["us"]["one"] / row["us"]["grouped"]
    except Exception as failure:  # the others are still to be measured
        row["failure"] = one_line(failure)
    torch.cuda.empty_cache()
    return row


def said(row: dict[str, Any]) -> str:
    """A line of the table."""
    if "failure" in row:
        return f"{row['title']}: {row['failure']}"
    times = "  ".join(f"{name} {us:.0f} µs" for name, us in row["us"].items())
    return f"{row['title']}: {times}  one/grouped {row['ratio']:.3f}  error {row['error']:.2f}"


def failed(row: dict[str, Any]) -> bool:
    return "failure" in row or row["error"] > 1 or row["ratio"] * MOST < 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.grouped", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rep-ms", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows = []
    for case in cases(given.seed):
        rows.append(measured(case, given.rep_ms))
        print(said(rows[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [row for row in rows if failed(row)]
    print(f"{len(wrong)} of {len(rows)} failed, are wrong or below 0.95 of one product")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
