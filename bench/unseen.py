"""Rows and images of sizes that chance draws, beside peers and other shapes that were considered.

`python -m bench.unseen --seed 1 --minutes 3 --suite norm_bwd --all 6 --json rows.json`

The seed says the sizes. Kernels are compiled ahead, by many processes. Each result is held against
float64, then all contenders of a problem are timed in turn, with the plain passes over the same
bytes. It prints a line a family, and the worst ten of each with what was chosen and what was best.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import (
    batch_norm,
    dropout,
    group_norm,
    images,
    instance_norm,
    loss_rows,
    norm_backward,
    norms,
    pointwise,
    residual_backward,
)
from bench.measure import without_gpu
from bench.peers import chosen, contenders
from bench.plot import picture
from bench.problem import Builder, Problem, outputs_of, planned
from bench.row import write_rows
from bench.row_shapes import Planned, considered, forced, plan
from bench.unseen_report import CHOSEN, Timed, report
from warpsmith.errors import ArgumentError, DeviceError

FAMILIES: Mapping[str, tuple[Callable[..., Problem], ...]] = {
    "norm_bwd": (
        norm_backward.layer_norm_bwd,
        norm_backward.rms_norm_bwd,
        residual_backward.residual_bwd,
        residual_backward.dropped_residual_bwd,
    ),
    "norm_fwd": (norms.layer_norm, norms.rms_norm, norms.residual, dropout.dropped_residual),
    "softmax": (norms.softmax, norms.log_softmax, norms.softmax_bwd, batch_norm.outer_softmax),
    loss_rows.SUITE: (loss_rows.cross_entropy, loss_rows.cross_entropy_step),
    "pointwise": (pointwise.silu_mul, pointwise.bias_gelu, pointwise.add3),
    images.SUITE: (
        *(batch_norm.batch_norm, batch_norm.batch_norm_bwd),
        *(instance_norm.instance_norm, instance_norm.instance_norm_bwd),
        *(group_norm.group_norm, group_norm.group_norm_bwd),
    ),
}
"""By suite, the problems: of a number of rows and of columns, or of images."""

ROWS, COLUMNS = (512, 32768), (512, 40000)
"""From which numbers to which others are drawn, evenly by their logarithm."""

STEPS = (8, 8, 8, 8, 1)
"""Columns are multiples of one of these."""

DTYPES = ("bfloat16", "bfloat16", "bfloat16", "float")
MOST_ELEMENTS = 2**28
"""Of a problem's tensors."""

MOST_PROBLEMS = 4000


def drawn(seed: int, suites: Sequence[str]) -> Iterator[Problem]:
    """Problems without an end, families in turn; images in one format, then in the other."""
    source = random.Random(seed)
    makes = [(suite, make) for suite in suites for make in FAMILIES[suite]]

    def number(least: int, most: int, step: int) -> int:
        found: float = least * (most / least) ** source.random()
        return max(step, round(found / step) * step)

    for inner in cycle((False, True)):
        for suite, make in makes:
            dtype = source.choice(DTYPES)
            if suite == images.SUITE:
                yield make(images.drawn(source, inner=inner), dtype)
                continue
            step = source.choice(STEPS)
            columns = number(*COLUMNS, step)
            rows = min(number(*ROWS, 1), MOST_ELEMENTS // columns)
            yield replace(make(rows, columns, dtype), suite=suite)


def _ready(seed: int, suites: Sequence[str], number: int, most: int) -> Planned | str:
    """In a process of its own: all shapes of a problem, compiled; or why that failed."""
    stream = drawn(seed, suites)
    problem = next(p for place, p in enumerate(stream) if place == number)
    try:
        found = considered(problem, most)
        for each in found.others:
            with forced(each.params):
                plan(problem)
    except Exception as failure:
        return f"{type(failure).__name__}: {str(failure)[:200]}"
    return found


# --- times -------------------------------------------------------------------------------------


def timed(problem: Problem, shapes: Planned, peers: str, rep_ms: float) -> Timed | None:
    """What all took; None where the choice itself failed."""
    import torch

    from bench.ceilings import PREFIX, ceilings_of
    from bench.measure import checked, one_line
    from warpsmith.testing import do_bench_interleaved

    others, own = shapes.others, shapes.own
    inputs = problem.draw()
    reference = outputs_of(problem.eager(*(x.double() for x in inputs)))
    calls: dict[str, Builder] = {CHOSEN: planned(problem)}
    calls |= {f"#{number}": _forced(problem, each.params) for number, each in enumerate(others)}
    calls |= {k: v for k, v in contenders(problem, peers).items() if k != CHOSEN}
    ready: dict[str, Callable[[], Any]] = {}
    errors: dict[str, str] = {}
    for name, builder in calls.items():
        try:
            ready[name] = checked(builder, inputs, reference, problem.dtype, problem.redrawn)[0]
        except Exception as failure:
            torch.cuda.synchronize()
            errors[name] = one_line(failure)
    del reference
    torch.cuda.empty_cache()
    if CHOSEN not in ready:
        print(f"{problem.title}: {errors[CHOSEN]}", flush=True)
        return None
    found = do_bench_interleaved({**ready, **ceilings_of(problem)}, rep_ms / 4, rep_ms)
    us = {name: round(1e3 * ms, 2) for name, ms in found.items()}
    ceiling = min(us.pop(name) for name in list(us) if name.startswith(PREFIX))
    shapes_us = {name: t for name, t in us.items() if name == CHOSEN or name.startswith("#")}
    best = min(shapes_us, key=lambda name: shapes_us[name])
    named = {f"#{number}": f"#{number} {each.words}" for number, each in enumerate(others)}
    return Timed(
        problem=problem.name,
        shape=problem.shape,
        dtype=problem.dtype,
        us={named.get(name, name): t for name, t in us.items()},
        ceiling_us=ceiling,
        chosen=shapes.words,
        best=named.get(best, best),
        errors=errors,
        work=asdict(own.work) if own and own.work else {},
        shapes={
            named.get(name, name): each.shape
            for name, each in ((CHOSEN, own), *((f"#{n}", each) for n, each in enumerate(others)))
            if each and name in us
        },
        moved=problem.bytes_moved,
    )


def _forced(problem: Problem, params: Any) -> Builder:
    def build(inputs: Any) -> Callable[[], Any]:
        with forced(params):
            return planned(problem)(inputs)

    return build


def run(
    suites: Sequence[str],
    seed: int,
    most: int,
    *,
    minutes: float = 3.0,
    peers: str = "none",
    rep_ms: float = 6.0,
    jobs: int = 0,
    json_path: Path | None = None,
    keep: Path | None = None,
    plot: Path | None = None,
) -> list[str]:
    """Compile and time problems for so many minutes; the lines of a report.

    Args:
        suites: of `FAMILIES`; all by default.
        most: shapes of each problem that are timed beside the chosen one.
        peers: who takes part, as `bench.peers.chosen` takes it.
        rep_ms: of runs of each contender.
        jobs: processes that compile; as many as there are processors by default.
        json_path: a file for the rows, with all that was timed.
        keep: a JSON file for what `bench.readme` shows of them; a picture of it goes beside it.
        plot: an SVG for that picture.

    Raises ArgumentError for unknown names, DeviceError where there is no GPU.
    """
    from bench.measure import setting_here

    suites = tuple(suites) or tuple(FAMILIES)
    for suite in suites:
        if suite not in FAMILIES:
            raise ArgumentError(
                f"there is no family {suite!r}", code="WS0344", remedy=f"use {', '.join(FAMILIES)}"
            )
    chosen(peers)
    started = time.monotonic()
    rows: list[Timed] = []
    setting = setting_here(peers, quick=True)
    if setting.gpu == "none":
        raise DeviceError(
            "sizes that a seed says are timed on a GPU, and there is none",
            code="WS0345",
            remedy="run it on a machine with an NVIDIA GPU",
        )
    with without_gpu():
        pool = ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=get_context("spawn"))
        work = [pool.submit(_ready, seed, suites, n, most) for n in range(MOST_PROBLEMS)]
    for job, problem in zip(work, drawn(seed, suites), strict=False):
        if time.monotonic() > started + 60 * minutes:
            break
        shapes = job.result()
        if isinstance(shapes, str):
            print(f"{problem.title}: {shapes}", flush=True)
            continue
        row = timed(problem, shapes, peers, rep_ms)
        rows += [] if row is None else [row]
        if json_path:
            json_path.write_text(json.dumps([asdict(row) for row in rows]))
        kept = [one for each in rows for one in each.kept(seed, setting)]
        if keep:
            write_rows(keep, kept)
        for place in (plot, keep and keep.with_suffix(".svg")):
            if place:
                place.write_text(picture(kept))
    pool.shutdown(wait=False, cancel_futures=True)
    spent = time.monotonic() - started
    return [f"{setting.gpu}, seed {seed}, {len(rows)} problems in {spent:.0f} s", *report(rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="says the sizes")
    parser.add_argument("--minutes", type=float, default=3.0, help="of compiling and timing")
    parser.add_argument("--suite", default=",".join(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--all", type=int, default=0, metavar="N", help="time N more shapes each")
    parser.add_argument("--peers", default="none", help="as of `warpsmith bench`")
    parser.add_argument("--rep", type=float, default=6.0, help="ms of runs a contender")
    parser.add_argument("--json", type=Path, help="keep the rows in this file")
    parser.add_argument("--keep", type=Path, help="keep what `bench.readme` shows in this file")
    parser.add_argument("--plot", type=Path, help="keep a picture of it in this SVG")
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile")
    asked = parser.parse_args()
    lines = run(
        asked.suite.split(","),
        asked.seed,
        asked.all,
        minutes=asked.minutes,
        peers=asked.peers,
        rep_ms=asked.rep,
        jobs=asked.jobs,
        json_path=asked.json,
        keep=asked.keep,
        plot=asked.plot,
    )
    print("\n".join(lines), flush=True)
    return 0 if len(lines) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
