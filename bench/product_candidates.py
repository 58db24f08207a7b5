"""Candidates of both strategies of products, as they are and with an epilogue: how long they take.

python -m bench.product_candidates --json rows.json

The kernels are compiled by many processes first. Then each result is held against sums in float,
and the candidates of a size are timed in turn, beside PyTorch: cuBLAS, and a kernel of its own for
an epilogue. What the model's choice loses against the best candidate is told at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import one_line
from bench.products_sweep import error_of

FIXED = (
    (3648, 480, 8632),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
)
"""The seed's own size, and those of the goal's table."""

LARGEST_WORK = 2.0**38
"""Multiplications of a product that is drawn."""

WARMUP_MS = 2.0
EPILOGUES = ("none", "bias_gelu")
GELU_ERROR = 2.0**-6
"""What bias and GELU of rounded values of about 1 may be off by, relative to the largest."""


@dataclass(frozen=True, slots=True)
class Case:
    """`a [m, k] @ b [n, k].T` in bfloat16, and what is behind it."""

    m: int
    n: int
    k: int
    epilogue: str


def drawn(seed: int, count: int) -> list[Case]:
    """The fixed sizes, and as many multiples of 8 as are asked for, with each epilogue."""
    source = random.Random(seed)

    def size(most: int) -> int:
        number: float = 64 * (most / 64) ** source.random()
        return max(8, round(number / 8) * 8)

    sizes = list(FIXED)
    while len(sizes) < len(FIXED) + count:
        m, n, k = size(8192), size(8192), size(16384)
        if m * n * k <= LARGEST_WORK:
            sizes.append((m, n, k))
    return [Case(*each, epilogue) for each in sizes for epilogue in EPILOGUES]


class Program:
    """One case as warpsmith plans it, with any candidate."""

    def __init__(self, case: Case, arrays: Sequence[Any], knobs: Any) -> None:
        from warpsmith.engine.executable import Executable
        from warpsmith.schedulers.matmul import heuristic, words

        fusion = program_of(case)
        with patch("warpsmith.planner.trials.divided", lambda segments, problem: iter(())):
            plan = Executable(fusion).plan_for(arrays, knobs)
        self._fusion, self._knobs, self.problem = fusion, knobs, plan.problem
        (self._planned,) = plan.segments
        candidate = self._planned.candidate
        assert candidate is not None
        assert candidate.scheduler == "matmul", plan
        self._local = self._planned.local(plan.problem)
        ranked = heuristic.ranked(candidate.fusion, self._local)
        self.ranked = [(words.shortly(params), params, us) for params, us in ranked]

    def first(self, count: int) -> list[tuple[str, Any, float]]:
        """So many candidates of each strategy, the fastest predicted first."""
        in_turn = [each for each in self.ranked if each[1].ping_pong]
        others = [each for each in self.ranked if not each[1].ping_pong]
        return sorted([*others[:count], *in_turn[:count]], key=lambda each: each[2])

    def call(self, name: str) -> Any:
        """The plan of one candidate, compiled."""
        from warpsmith.engine.launches import plan_call

        segments = [self._planned.with_favourite(self._local, name)]
        known = self.problem.values, self.problem.alignment, self.problem.target
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plan_call(self._fusion, segments, *known, self._knobs)

    def runner(self, name: str) -> Any:
        from warpsmith.engine.runners import OnDevice

        return OnDevice(self._fusion, self.call(name), 0)


def program_of(case: Case) -> Any:
    """The fusion of a case."""
    from warpsmith import DataType, FusionDefinition

    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        if case.epilogue == "none":
            fd.add_output(fd.ops.linear(a, b))
        else:
            bias = fd.define_tensor([-1], True, DataType.BFloat16)
            h = fd.ops.linear(a, b, bias)
            cubed = fd.ops.mul(fd.ops.mul(h, h), fd.ops.mul(h, 0.044715))
            inner = fd.ops.mul(fd.ops.add(h, cubed), 0.7978845608)
            made = fd.ops.mul(fd.ops.mul(h, 0.5), fd.ops.add(fd.ops.tanh(inner), 1.0))
            fd.add_output(fd.ops.cast(made, DataType.BFloat16))
    return fd.fusion


def asked(target: str) -> Any:
    """Knobs of all that is planned here: kernels are kept as they were emitted, too."""
    from warpsmith import knobs

    changed = {"autotune": True, "keep_emitted": True, "target": target, "verify": "off"}
    return knobs.current().replace(**changed)


def compiled(case: Case, count: int, target: str) -> list[tuple[str, str]]:
    """Compile the candidates of a case into the cache, without a GPU: (name, failure) of each."""
    import ml_dtypes
    import numpy as np

    shapes = [(case.m, case.k), (case.n, case.k), *([(case.n,)] * (case.epilogue != "none"))]
    program = Program(
        case, [np.zeros(shape, ml_dtypes.bfloat16) for shape in shapes], asked(target)
    )
    found = []
    for name, _, _ in program.first(count):
        failure = ""
        try:
            program.call(name)
        except Exception as error:
            failure = one_line(error)
        found.append((name, failure))
    return found


def measured(case: Case, count: int, target: str, rep_ms: float) -> Iterator[dict[str, Any]]:
    """A row for each candidate of a case: predicted, measured, and what PyTorch takes."""
    import torch

    from warpsmith.testing import do_bench_interleaved

    def made(*shape: int) -> Any:
        return torch.rand(shape, device="cuda").mul_(4).sub_(2).to(torch.bfloat16)

    a, b = made(case.m, case.k), made(case.n, case.k)
    inputs = [a, b] if case.epilogue == "none" else [a, b, made(case.n)]

    def peer() -> Any:
        result = torch.nn.functional.linear(*inputs)
        if case.epilogue == "none":
            return result
        return torch.nn.functional.gelu(result, approximate="tanh")

    wide = torch.nn.functional.linear(*(each.float() for each in inputs))
    if case.epilogue != "none":
        wide = torch.nn.functional.gelu(wide, approximate="tanh")

    def error(result: Any) -> float:
        if case.epilogue == "none":
            return error_of(result, a, b.T)
        off = (result.float() - wide).abs_().max() / wide.abs().max()
        return float(off) / GELU_ERROR

    program = Program(case, inputs, asked(target))
    rows: list[dict[str, Any]] = []
    calls: dict[str, Any] = {"torch": peer}
    for name, params, us in program.first(count):
        row = asdict(case) | {"name": name, "predicted": us, "params": asdict(params)}
        rows.append(row)
        try:
            run = program.runner(name)
            run(inputs)[0].fill_(math.nan)  # the next result most likely gets this memory
            row["error"] = error(run(inputs)[0])
            if row["error"] <= 1:
                calls[name] = lambda run=run: run(inputs)
            else:
                row["failed"] = f"wrong: {row['error']:.3g} of what rounding allows"
        except Exception as failure:
            row["failed"] = one_line(failure)
    times = do_bench_interleaved(calls, WARMUP_MS, rep_ms)
    for row in rows:
        if row["name"] in times:
            row |= {"us": 1e3 * times[row["name"]], "torch_us": 1e3 * times["torch"]}
        yield row


def told(rows: Sequence[dict[str, Any]]) -> str:
    """The candidates of a case as text, the fastest measured first."""
    first = rows[0]
    timed = sorted((row for row in rows if "us" in row), key=lambda row: row["us"])
    lines = [f"{first['m']}x{first['n']}x{first['k']} {first['epilogue']}"]
    chosen = " <- the model's"
    for row in timed:
        times = f"{row['us']:9.1f} us, {row['predicted']:9.1f} predicted"
        lines.append(f"  {times}  {row['name']}{chosen * (row is first)}")
    if timed:
        lines.append(f"  {timed[0]['torch_us']:9.1f} us{' ' * 22}torch")
    lines += [f"  failed: {row['name']}: {row['failed']}" for row in rows if "failed" in row]
    return "\n".join(lines)


def summary(cases: Sequence[Sequence[dict[str, Any]]]) -> str:
    """What the model's choice loses, which strategy wins, and the way to PyTorch."""
    lines = []
    for epilogue in EPILOGUES:
        off: dict[bool, list[float]] = {False: [], True: []}
        lost, ratios, wins = [], [], 0
        for rows in cases:
            timed = [row for row in rows if "us" in row]
            if not timed or rows[0]["epilogue"] != epilogue or "us" not in rows[0]:
                continue
            best = min(timed, key=lambda row: row["us"])
            lost.append(math.log(rows[0]["us"] / best["us"]))
            ratios.append(math.log(best["torch_us"] / rows[0]["us"]))
            wins += bool(best["params"]["ping_pong"])
            for row in timed:
                own = off[bool(row["params"]["ping_pong"])]
                own.append(math.log(row["us"] / row["predicted"]))
        if lost:
            logs = (lost, ratios, off[False], off[True])
            each = [math.exp(sum(own) / max(len(own), 1)) for own in logs]
            lines.append(
                f"{epilogue}: {len(lost)} sizes; the choice takes {each[0]:.3f} x the best, and is "
                f"{each[1]:.3f} x as fast as torch; ping-pong is best at {wins}; measured over "
                f"predicted {each[2]:.3f} cooperative, {each[3]:.3f} ping-pong"
            )
    failed = sum("failed" in row for rows in cases for row in rows)
    return "\n".join([*lines, f"{failed} failed"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; 1 where a candidate failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=24, help="sizes that are drawn")
    parser.add_argument("--first", type=int, default=5, help="candidates of each strategy")
    parser.add_argument("--seconds", type=float, default=95.0, help="begin no case after that")
    parser.add_argument("--rep-ms", type=float, default=10.0, help="of each candidate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--compile-only", action="store_true", help="for the first target; no GPU")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    started, cases = time.monotonic(), drawn(given.seed, given.count)
    target = "h200" if given.compile_only else _target()
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        each = [pool.submit(compiled, case, given.first, target) for case in cases]
        lists = [future.result() for future in each]
    failed = [(name, why) for found in lists for name, why in found if why]
    took = time.monotonic() - started
    print(f"{sum(map(len, lists))} kernels in {took:.0f} s, {len(failed)} failed", flush=True)
    for name, why in failed:
        print(f"  {name}: {why}")
    if given.compile_only:
        return 1 if failed else 0
    done: list[list[dict[str, Any]]] = []
    for case in cases:
        if time.monotonic() - started > given.seconds:
            break
        rows = list(measured(case, given.first, target, given.rep_ms))
        done.append(rows)
        print(told(rows), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(done))
    print(summary(done))
    return 1 if any("failed" in row for rows in done for row in rows) else 0


def _target() -> str:
    from warpsmith.runtime.of_device import target_of_device

    return target_of_device(0).name


if __name__ == "__main__":
    sys.exit(main())
