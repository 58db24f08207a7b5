"""Matrix products of sizes, layouts, batches and types that chance draws, beside PyTorch's.

python -m bench.products_sweep --seed 1 --count 100 --json rows.json

Each result is held against sums in float, then both contenders are timed in turn. What is refused,
wrong or less than a third as fast is listed at the end, and the command then fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench.measure import one_line

LEAST, MOST = 256, 8192
"""Sizes of m, n and k that are drawn, evenly by their logarithm."""

LARGEST_WORK = 2.0**40
LARGEST_ELEMENTS = 2**28
"""Multiplications and elements of any one tensor, of all batches."""

THIRD = 1 / 3

NAMES = {"bfloat16": "BFloat16", "half": "Half", "float": "Float"}
ITEMS = {"bfloat16": "bfloat16", "half": "float16", "float": "float32"}
"""What `DataType` and PyTorch call the types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A product `a [batch, m, k] @ b [batch, k, n]`.

    Attributes:
        batch: 0 where operands have no such dimension.
        a_fast, b_fast: the fastest dimension of each operand: `m` or `k`, `k` or `n`.
        shared: `b` has no batches of its own.
        dtype, out: types of operands and of the result.
    """

    m: int
    n: int
    k: int
    batch: int = 0
    a_fast: str = "k"
    b_fast: str = "k"
    shared: bool = False
    dtype: str = "bfloat16"
    out: str = "bfloat16"

    @property
    def title(self) -> str:
        batch = f"{self.batch}x" if self.batch else ""
        shared = " shared" if self.shared else ""
        layout = f"{self.a_fast}{self.b_fast}"
        return f"{batch}{self.m}x{self.n}x{self.k} {layout}{shared} {self.dtype} to {self.out}"


def draw(source: random.Random) -> Case:
    """A case; half of the sizes are multiples of 64, and half of the others any number."""

    def size() -> int:
        number: float = LEAST * (MOST / LEAST) ** source.random()
        step = source.choice((64, 64, 8, 1))
        return max(LEAST, round(number / step) * step)

    while True:
        m, n, k = size(), size(), size()
        batch = source.choice((0, 0, 0, 2, 3, 8, 16))
        dtype = source.choice(("bfloat16", "bfloat16", "half"))
        case = Case(
            m=m,
            n=n,
            k=k,
            batch=batch,
            a_fast=source.choice("kkm"),
            b_fast=source.choice("kkn"),
            shared=bool(batch) and source.random() < 0.3,
            dtype=dtype,
            out=source.choice((dtype, dtype, "float")),
        )
        times = max(batch, 1)
        elements = times * max(m * n, m * k, n * k)
        if times * m * n * k <= LARGEST_WORK and elements <= LARGEST_ELEMENTS:
            return case


def operands(case: Case, device: str = "cuda") -> tuple[Any, Any]:
    """Fresh operands of -2 to 2, in the layout of the case."""
    import torch

    dtype = getattr(torch, ITEMS[case.dtype])

    def made(rows: int, columns: int, batch: int, *, turned: bool) -> Any:
        shape = (columns, rows) if turned else (rows, columns)
        full = (batch, *shape) if batch else shape
        tensor = torch.rand(full, device=device).mul_(4).sub_(2).to(dtype)
        return tensor.transpose(-1, -2) if turned else tensor

    a = made(case.m, case.k, case.batch, turned=case.a_fast == "m")
    b = made(case.k, case.n, 0 if case.shared else case.batch, turned=case.b_fast == "k")
    return a, b


def ours(case: Case, a: Any, b: Any) -> tuple[Callable[[], Any], str]:
    """The call, planned once, and the schedulers of its kernels."""
    from warpsmith import DataType, FusionDefinition
    from warpsmith.engine.executable import Executable

    with FusionDefinition() as fd:
        product = fd.ops.matmul(fd.from_pytorch(a), fd.from_pytorch(b))
        fd.add_output(fd.ops.cast(product, getattr(DataType, NAMES[case.out])))
    executable = Executable(fd.fusion)
    plan = executable.plan_for([a, b])
    names = [s.candidate.scheduler for s in plan.segments if s.candidate is not None]
    ready = executable.prepared([a, b])
    return lambda: ready([a, b])[0], "+".join(names)


def theirs(case: Case, a: Any, b: Any) -> Callable[[], Any]:
    """PyTorch's product, which writes floats itself where they are asked for."""
    import torch

    if case.out == case.dtype:
        return lambda: torch.matmul(a, b)
    if case.batch == 0:
        return lambda: torch.mm(a, b, out_dtype=torch.float32)
    wide = b.expand(case.batch, *b.shape) if case.shared else b
    return lambda: torch.bmm(a, wide, out_dtype=torch.float32)


def error_of(result: Any, a: Any, b: Any) -> float:
    """`beyond` of a product, against sums in float."""
    return beyond(result, a.float() @ b.float(), a.shape[-1])


def beyond(result: Any, wanted: Any, depth: int) -> float:
    """By how much more a result differs from sums than rounding allows; above 1 is wrong.

    Operands are normal, so sums of `depth` products come to 4 roots of it. Tensor cores add 16
    products at a time and cut off what a float of that size does not hold.
    """
    import torch

    if not bool(torch.isfinite(result).all()):
        return math.inf
    eps = torch.finfo(result.dtype).eps
    allowed = wanted.abs().mul_(eps).add_(2.0**-23 * (depth / 16 + 4) * 4 * depth**0.5)
    return float((result.to(wanted.dtype) - wanted).abs_().div_(allowed).max())


def measured(case: Case, rep_ms: float) -> dict[str, Any]:
    """A row: the case, both times in microseconds, ratio, error and schedulers, or what failed."""
    import torch

    from warpsmith.testing import do_bench_interleaved

    row: dict[str, Any] = dataclasses.asdict(case) | {"title": case.title}
    a, b = operands(case)
    try:
        started = time.perf_counter()
        call, row["schedulers"] = ours(case, a, b)
        first = call()
        torch.cuda.synchronize()
        row["prepared_s"] = round(time.perf_counter() - started, 2)
        first.fill_(math.nan)  # the next result most likely gets this memory
        del first
        row["error"] = error_of(call(), a, b)
    except Exception as failure:
        return row | {"failed": one_line(failure)}
    if not row["error"] <= 1:
        return row | {"failed": f"wrong: {row['error']:.3g} of what rounding allows"}
    peer = theirs(case, a, b)
    row["torch_error"] = error_of(peer(), a, b)
    times = do_bench_interleaved({"ours": call, "theirs": peer}, 5.0, rep_ms)
    us, torch_us = 1e3 * times["ours"], 1e3 * times["theirs"]
    return row | {"us": us, "torch_us": torch_us, "ratio": torch_us / us}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep; 1 where something was refused, wrong or less than a third as fast."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case after that")
    parser.add_argument("--rep-ms", type=float, default=20.0, help="of each contender and case")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    source = random.Random(given.seed)
    print(f"seed {given.seed}; ratio is PyTorch's time over ours", flush=True)
    started = time.monotonic()
    rows: list[dict[str, Any]] = []
    for number in range(given.count):
        if time.monotonic() - started > given.seconds:
            break
        row = measured(draw(source), given.rep_ms)
        rows.append(row)
        print(f"{number:4} {line(row)}", flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(rows, indent=1))
    return summary(rows)


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    if "failed" in row:
        return f"{row['title']}: {row['failed']}"
    return (
        f"{row['title']}: {row['us']:.1f} us, PyTorch {row['torch_us']:.1f}, "
        f"{row['ratio']:.2f} by {row['schedulers']}; errors {row['error']:.2f} and "
        f"{row['torch_error']:.2f} of what is allowed"
    )


def summary(rows: Sequence[dict[str, Any]]) -> int:
    """Print what all rows come to; 1 where one is not as it must be."""
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    failed = [row for row in rows if "failed" in row]
    slow = sorted((r for r in rows if r.get("ratio", 1) < THIRD), key=lambda r: float(r["ratio"]))
    if ratios:
        mean = geometric_mean(ratios)
        print(f"{len(ratios)} timed: geometric mean {mean:.3f}, least {min(ratios):.3f}")
    print(f"{len(failed)} refused or wrong, {len(slow)} under a third")
    for row in (*failed, *slow):
        print(f"     {line(row)}")
    return 1 if failed or slow else 0


if __name__ == "__main__":
    sys.exit(main())
