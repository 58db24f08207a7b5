"""Slices, joins, choices, orders and sums by indices, and PyTorch's: `python -m bench.indexing`.

Each is compiled first, held against what PyTorch makes of float64, and then timed in turn with
PyTorch and with what `torch.compile` makes of it. Predictions are bytes over the memory's rate, and
2.5 microseconds for each kernel behind the first; `--quick` takes small sizes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.measure import gpu_name
from warpsmith import fuse, ops
from warpsmith.testing import do_bench_interleaved, relative_error

BYTES_PER_US = 4.2e6
"""What a copy reaches on an H200 (docs/benchmarks.md)."""

LAUNCH_US = 2.5

LARGEST_ERROR = 1e-2
"""Relative to float64, as a norm, of bfloat16."""


@dataclass(frozen=True, slots=True)
class Case:
    """One program.

    Attributes:
        draw: its tensors, of a number of rows and one of columns.
        moved: bytes that it must move at least, of the same.
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    draw: Callable[[int, int], Sequence[Any]]
    moved: Callable[[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One contender: median microseconds, and those that its bytes and kernels take at least."""

    case: str
    rows: int
    columns: int
    contender: str
    us: float | None = None
    predicted_us: float | None = None
    kernels: int | None = None
    error: float | None = None


def cases() -> tuple[Case, ...]:
    import torch

    functional: Any = torch.nn.functional
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def of(*shape: int) -> Any:
        return torch.randn(*shape, device=device).bfloat16()

    def chosen(count: int, below: int) -> Any:
        return torch.randint(0, below, (count,), device=device)

    def rotary(x: Any, cos: Any, sin: Any, cat: Any) -> Any:
        half = x.shape[-1] // 2 if cat is torch.cat else ops.size(x, -1) // 2
        return x * cos + cat([-x[..., half:], x[..., :half]], -1) * sin

    def added(x: Any, i: Any, s: Any) -> Any:
        return x.index_add(0, i, s)

    return (
        Case(
            "embedding",
            lambda i, w: ops.embedding(i, w),
            lambda i, w: functional.embedding(i, w),
            lambda m, n: (chosen(m, 4 * m), of(4 * m, n)),
            lambda m, n: 4 * m * n,
        ),
        Case(
            "gated halves",
            lambda x: ops.silu(x[:, : ops.size(x, 1) // 2]) * x[:, ops.size(x, 1) // 2 :],
            lambda x: functional.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
            lambda m, n: (of(m, 2 * n),),
            lambda m, n: 6 * m * n,
        ),
        Case(
            "cat",
            lambda x, y: ops.cat([x, y], 1),
            lambda x, y: torch.cat([x, y], 1),
            lambda m, n: (of(m, n), of(m, n)),
            lambda m, n: 8 * m * n,
        ),
        Case(
            "rotary",
            lambda x, c, s: rotary(x, c, s, ops.cat),
            lambda x, c, s: rotary(x, c, s, torch.cat),
            lambda m, n: (of(n // 128, m, 128), of(m, 128), of(m, 128)),
            lambda m, n: 4 * m * n,
        ),
        Case(
            "embedding and norm",
            lambda i, w: _norm(ops.embedding(i, w), ops.mean, ops.rsqrt),
            lambda i, w: _norm(functional.embedding(i, w), torch.mean, torch.rsqrt),
            lambda m, n: (chosen(m, 4 * m), of(4 * m, n)),
            lambda m, n: 4 * m * n,
        ),
        Case(
            "index_add",
            lambda x, i, s: ops.index_add(x, i, s, 0),
            added,
            lambda m, n: (of(4 * m, n), chosen(m, 4 * m), of(m, n)),
            lambda m, n: (8 + 4 + 2 + 4) * m * n + 8 * m * n,
        ),
        Case(
            "argsort",
            lambda x: ops.argsort(x),
            lambda x: torch.argsort(x, dim=-1, stable=True),
            lambda m, n: (of(m * n // 64),),
            lambda m, n: 16 * m * n // 64 * 30,
        ),
        Case(
            "topk of experts",
            lambda x: ops.topk(x, 8),
            lambda x: torch.topk(x, 8),
            lambda m, n: (torch.stack([torch.randperm(128) for _ in range(m)]).to(device).float(),),
            lambda m, n: 9 * 4 * m * 128,
        ),
    )


def _norm(x: Any, mean: Any, rsqrt: Any) -> Any:
    return x * rsqrt(mean(x * x, [-1], True) + 1e-6)


def measured(case: Case, rows: int, columns: int) -> list[Timed]:
    """Rows of a case; those of a wrong result have no time."""
    import torch

    inputs = case.draw(rows, columns)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    wanted = _first(case.theirs(*wide))
    f = fuse(case.ours)
    plan = f.lower(*inputs).compile()
    kernels = int(plan.explain().split()[0])
    predicted = case.moved(rows, columns) / BYTES_PER_US + LAUNCH_US * (kernels - 1)
    ready: dict[str, Callable[[], Any]] = {
        "warpsmith": lambda: f(*inputs),
        "torch": lambda: case.theirs(*inputs),
    }
    on_gpu = any(x.is_cuda for x in inputs)
    if on_gpu:
        compiled = torch.compile(case.theirs)
        ready["torch_compile"] = lambda: compiled(*inputs)
    errors = {
        name: relative_error(_first(call()), wanted) if wanted.is_floating_point() else 0.0
        for name, call in ready.items()
    }
    if not wanted.is_floating_point() and not torch.equal(_first(ready["warpsmith"]()), wanted):
        errors["warpsmith"] = 1.0
    right = {name: call for name, call in ready.items() if errors[name] <= LARGEST_ERROR}
    times = do_bench_interleaved(right) if on_gpu else {}
    return [
        Timed(
            case=case.name,
            rows=rows,
            columns=columns,
            contender=name,
            us=times[name] * 1e3 if name in times else None,
            predicted_us=predicted if name == "warpsmith" else None,
            kernels=kernels if name == "warpsmith" else None,
            error=errors[name],
        )
        for name in ready
    ]


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple | list) else value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    options = parser.parse_args(arguments)
    sizes = ((16, 128),) if options.quick else ((8192, 4096), (2048, 8192))
    rows = [row for size in sizes for case in cases() for row in measured(case, *size)]
    for row in rows:
        right = "right" if row.error is not None and row.error <= LARGEST_ERROR else "WRONG"
        us = "-" if row.us is None else f"{row.us:.1f}"
        said = "" if row.predicted_us is None else f"  predicted {row.predicted_us:.1f}"
        said += "" if row.kernels is None else f", {row.kernels} kernels"
        print(f"{row.case} {row.rows}x{row.columns}  {row.contender}  {us} us  {right}{said}")
    if options.json:
        found = {"gpu": gpu_name(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if all((row.error or 0) <= LARGEST_ERROR for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
