"""Weights of 8 and 4 bits beside cuBLAS: `linear(x, (weight * scale).bfloat16())`, in one kernel or
two.

python -m bench.prologues                  # the table
python -m bench.prologues --json rows.json --rep-ms 10
python -m bench.prologues --seed 7 --count 80 [--m 1]    # sizes that the seed says

Predicted for an H200, before anything was timed: few rows are bound by the bytes of the weights,
half as many as cuBLAS reads of 16-bit ones (of 28672 x 4096, 117 MB, 31 us and 6 to start), or by
the instructions that convert them (5.7 for an element: 22 us where each scheduler issues one a
clock, 45 where it issues one in two); with many rows a kernel before converts them once. Of 4 bits
they are half as many bytes, and take 7.2 instructions each: 28 us, or 57.

Kernels are compiled in as many processes as there are cores, then each result is held against sums
in double, and all contenders of a row are timed in turn, the L2 flushed before each.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

from bench.measure import in_processes
from bench.products import PEER, Row, Turns, beyond, failures
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.planner import operands

ROWS, FEW = (1, 8, 16, 32, 64, 512, 2048), (1, 2, 4, 8, 16, 24, 32, 48, 64)
WEIGHTS = ((4096, 4096), (28672, 4096), (4096, 14336))
"""m, and n and k, of the table."""

KINDS = {
    "int8": (DataType.Int8, np.int8),
    "float8_e4m3fn": (DataType.Float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    "int4": (DataType.Int8, np.int8),
    "int4 by 128": (DataType.Int8, np.int8),
    "float32": (DataType.Float, np.float32),
}
"""Types of weights, as torch calls them, and what they lie in, two of int4 in one. The last has a
scale of each 128 of k, the others one of each row."""

GROUP = 128

WAYS = ("planned", "stored")
"""As the planner has it, and with the weights always stored in 16 bits before."""


@dataclass(frozen=True, slots=True)
class Case:
    """A product, and its weights' type."""

    m: int
    n: int
    k: int
    kind: str

    @property
    def stored(self) -> tuple[int, int]:
        """The shape of the weights in memory."""
        return self.n, self.k // (1 + self.has_4_bits)

    @property
    def has_4_bits(self) -> bool:
        return self.kind.startswith("int4")

    @property
    def scales(self) -> tuple[int, int]:
        """How many there are, of rows and along k."""
        return self.n, self.k // GROUP if self.kind.endswith("by 128") else 1

    @property
    def title(self) -> str:
        return f"{self.kind:14} {self.n:6} {self.k:6} {self.m:5}"


def drawn(seed: int, count: int, m: Sequence[int]) -> list[Case]:
    """Cases of these rows, n from 1024 to 30,000 and k from 1448 to 16,384, evenly by logarithm."""
    source = random.Random(seed)
    cases = []
    for number in range(count):
        n, k = int(2 ** source.uniform(10, 14.9)), int(2 ** source.uniform(10.5, 14))
        rows = source.choice(m)
        cases.append(Case(rows, n // 64 * 64, k // GROUP * GROUP, [*KINDS][number % len(KINDS)]))
    return cases


def executable(kind: str) -> Executable:
    """The program, of any sizes."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        weight = fd.define_tensor([-1, -1], True, KINDS[kind][0])
        values = fd.ops.unpack_int4(weight) if kind.startswith("int4") else weight
        if kind.endswith("by 128"):
            scale = fd.define_tensor([-1, -1], True, DataType.Float)
            scale = fd.ops.repeat_interleave(scale, GROUP, 1)
        else:
            scale = fd.define_tensor([-1, 1], True, DataType.Float)
        wide: Any = fd.ops.cast(values, DataType.Float)
        fd.add_output(fd.ops.linear(x, fd.ops.cast(wide * scale, DataType.BFloat16)))
    return Executable(fd.fusion)


def way(name: str) -> AbstractContextManager[object]:
    """The scope in which a program is planned one of the `WAYS`."""
    if name == "planned":
        return nullcontext()
    return mock.patch.object(operands, "computed_operands", return_value=frozenset())


def compiled(case: Case, target: str) -> int:
    """How many kernels the case is as it is planned; those of all ways are in the cache then."""
    shapes = ((case.m, case.k), case.stored, case.scales)
    dtypes = (ml_dtypes.bfloat16, KINDS[case.kind][1], np.float32)
    given = [np.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    counts = []
    with knobs.scope(device="sim", target=target):
        for name in WAYS:
            with way(name):
                counts.append(len(executable(case.kind).plan_for(given).launches))
    return counts[0]


def measured(case: Case, kernels: int, rep_ms: float) -> list[Row]:
    """A row for each contender: microseconds and error, or what failed."""
    import torch

    linear = torch.nn.functional.linear
    x = torch.randn(case.m, case.k, device="cuda").bfloat16()
    weight = torch.randn(case.stored, device="cuda").mul_(30).clamp_(-127, 127)
    weight = weight.to(torch.int8 if case.has_4_bits else getattr(torch, case.kind))

    def values() -> Any:
        if not case.has_4_bits:
            return weight
        return torch.stack([(weight << 4) >> 4, weight >> 4], -1).view(case.n, case.k)

    scale = torch.rand(case.scales, device="cuda") / 30
    times = case.k // scale.shape[1] if scale.shape[1] > 1 else 1
    spread = scale.repeat_interleave(times, 1)
    wide = (values().float() * spread).bfloat16()
    wanted = x.double() @ wide.double().T
    sizes = {"m": case.m, "n": case.n, "k": case.k, "kind": case.kind}
    turns = Turns(sizes, partial(beyond, wanted=wanted, depth=case.k))
    turns.add(PEER, lambda: lambda: linear(x, wide), weights="of 16 bits")

    turns.rows.append(sizes | {"contender": "torch"})  # it rounds scales: held against nothing
    turns.calls["torch"] = lambda: linear(x, values().bfloat16() * spread.bfloat16())

    def ours() -> Callable[[], Any]:
        ready = executable(case.kind).prepared([x, weight, scale])
        return lambda: ready([x, weight, scale])[0]

    for name in WAYS:
        with way(name):
            turns.add(name, ours, **({"kernels": kernels} if name == "planned" else {}))
    return turns.timed(rep_ms)


def text(case: Case, row: Row) -> str:
    """A row as text."""
    if "us" not in row:
        return f"{case.title}  {row['contender']:8} {row['failed']}"
    kernels = f"  {row['kernels']} kernels" if "kernels" in row else ""
    return f"{case.title}  {row['contender']:8} {row['us']:8.1f} us {row['ratio']:6.3f}{kernels}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the table; 1 where something failed or was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--m", type=int, nargs="+", help="rows; 1 to 64 of drawn sizes")
    parser.add_argument("--seed", type=int, help="of drawn sizes, in place of the table")
    parser.add_argument("--count", type=int, default=80, help="of these")
    parser.add_argument("--rep-ms", type=float, default=15.0, help="of each contender of a case")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    from warpsmith.runtime.of_device import target_of_device

    started = time.monotonic()
    target = target_of_device(0).name
    if given.seed is None:
        sizes = [(kind, *weights) for kind in KINDS for weights in WEIGHTS]
        cases = [Case(m, n, k, kind) for kind, n, k in sizes for m in given.m or ROWS]
    else:
        cases = drawn(given.seed, given.count, given.m or FEW)
    counts = in_processes(compiled, ((case, target) for case in cases))
    print(f"kernels of {len(cases)} cases in {time.monotonic() - started:.1f} s")
    rows: list[Row] = []
    for case, kernels in zip(cases, counts, strict=True):
        found = measured(case, kernels, given.rep_ms)
        for row in sorted(found, key=lambda row: row.get("us", float("inf"))):
            print(text(case, row), flush=True)
        rows += found
        if given.json is not None:
            given.json.write_text(json.dumps(rows, indent=1))
    for kind in KINDS:
        ratios = [
            row["ratio"]
            for row in rows
            if row["kind"] == kind and row["contender"] == WAYS[0] and "ratio" in row
        ]
        if len(ratios) > 1:
            mean, tenth = statistics.geometric_mean(ratios), statistics.quantiles(ratios, n=10)[0]
            least = f"tenth {tenth:.3f}, least {min(ratios):.3f}"
            print(f"{kind:14} {len(ratios)} cases: {mean:.3f} of {PEER}'s speed, {least}")
    return 1 if failures(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
