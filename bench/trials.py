"""Programs whose plans prices change, as they are planned and as their structure says, by events.

python -m bench.trials            # compiles, holds both plans' results against each other, times
python -m bench.trials --predict  # what both plans are priced at; needs no GPU

And products that copies bring to tensor cores, against `mma.sync` of operands as they lie: the
share of its rate is assumed (`schedulers/matmul_by_threads/model.py`), and so is that of
instructions in `schedulers/traffic.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

from bench.measure import one_line
from tests.planner.test_gates import gated
from tests.planner.test_pairs import drawn as dropped
from tests.support.binaries import uncompiled
from tests.support.storable import CASES
from warpsmith import fuse, knobs, ops
from warpsmith.engine import fitting
from warpsmith.engine.executable import Executable
from warpsmith.planner.decided import NOTHING
from warpsmith.planner.operands import NO_PACKING
from warpsmith.planner.prices import Prices

WAYS = ("planned", "structure")
"""As the planner has it; and without trials, and with no operand copied."""

Shapes = tuple[tuple[int, ...], ...]

GATED = ((16, 14336, 4096), (64, 64, 16384), (256, 256, 8192), (4096, 14336, 4096))
DROPPED = ((16, 14336, 4096), (64, 64, 16384), (128, 4096, 4096), (2048, 4096, 4096))
"""m, n and k of products that are divided, and of some that are not."""

PROGRAMS: dict[str, tuple[Callable[..., Any], Shapes]] = {
    **{name: (body, tuple(a.shape for a in arrays)) for name, (body, arrays, _) in CASES.items()},
    **{f"product of {n}": (ops.matmul, ((n, n), (n, n))) for n in (511, 1023, 1535, 2047, 4095)},
    **{f"gated {m} x {n} x {k}": (gated, ((m, k), (n, k), (n, k))) for m, n, k in GATED},
    **{f"dropout {m} x {n} x {k}": (dropped, ((m, k), (n, k), (m, n))) for m, n, k in DROPPED},
}


@contextmanager
def way(name: str) -> Iterator[None]:
    """The scope in which a program is planned one of the `WAYS`."""
    with ExitStack() as stack:
        if name != "planned":
            for asked, said in (("faster", NOTHING), ("packing", NO_PACKING)):
                stack.enter_context(mock.patch.object(fitting, asked, return_value=said))
        yield


def predicted(body: Callable[..., Any], shapes: Shapes, name: str) -> tuple[int, float]:
    """Kernels of a way, and the microseconds that they are priced at."""
    arrays = [np.empty(shape, ml_dtypes.bfloat16) for shape in shapes]
    with way(name), uncompiled(), knobs.scope(target="h200"):
        call = Executable(fuse(body).lower(*arrays).fusion).plan_for(arrays)
    return len(call.launches), sum(Prices().us(each, call.problem) for each in call.segments)


def measured(body: Callable[..., Any], shapes: Shapes) -> dict[str, float]:
    """Microseconds of each way; what both compute is to be the same but for rounding."""
    import torch

    from warpsmith.testing import do_bench_interleaved

    given = [torch.randn(shape, device="cuda").bfloat16() for shape in shapes]
    calls: dict[str, Callable[[], Any]] = {}
    results: dict[str, list[Any]] = {}
    for name in WAYS:
        run = fuse(body)
        with way(name):
            made = run(*given)
        results[name] = list(made) if isinstance(made, tuple) else [made]
        calls[name] = partial(run, *given)
    for ours, theirs in zip(*results.values(), strict=True):
        peak = float(theirs.double().abs().max())
        away = float((ours.double() - theirs.double()).abs().max())
        if not away <= 0.02 * peak:
            raise ValueError(f"the two plans differ by {away:.3g}, and the largest is {peak:.3g}")
    return {name: 1000 * ms for name, ms in do_bench_interleaved(calls).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--predict", action="store_true")
    asked = parser.parse_args()
    for title, (body, shapes) in PROGRAMS.items():
        told = {name: predicted(body, shapes, name) for name in WAYS}
        line = "   ".join(f"{n} {count} kernels {us:7.1f} µs" for n, (count, us) in told.items())
        if not asked.predict:
            try:
                found = measured(body, shapes)
                line += "   measured " + ", ".join(f"{n} {us:.1f}" for n, us in found.items())
            except Exception as failure:
                line += f"   failed: {one_line(failure)}"
        print(f"{title:44} {line}", flush=True)


if __name__ == "__main__":
    main()
