"""Products of sizes and layouts that chance draws, beside cuBLAS and whoever else is installed.

python -m bench.random_products --seed 7 --count 100          # what the model chooses
python -m bench.random_products --seed 7 --count 30 --all 12  # and its next candidates: regret
python -m bench.random_products --seed 7 --odd                # any sizes, batches, results in float
python -m bench.random_products --seed 7 --dtype float        # which threads multiply, exactly
python -m bench.random_products --seed 7 --dtype int8         # or tf32
python -m bench.random_products --count 0 --fixed             # sizes that everybody measures

Kernels are compiled in as many processes as there are cores, then each result is held against sums
in float, and all contenders of a size are timed in turn, the L2 flushed before each. A ratio is
cuBLAS's time over another one's.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bench.drawn import drawn_rows
from bench.measure import Setting, in_processes, setting_here
from bench.peers import installed
from bench.product_report import LACKING, is_bad, line, summary
from bench.products import (
    BUILDERS,
    NAMES,
    PEER,
    PEERS,
    RESULTS,
    Case,
    Row,
    Turns,
    Way,
    error_of,
    forced,
    kinds,
    lacking,
    operands,
    said,
    theirs,
    trying,
    ways_of,
    words_of,
)
from bench.row import Row as KeptRow
from bench.row import write_rows
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.ops.scalars import numpy_dtype

LEAST, MOST, DEEPEST = 64, 8192, 16384
"""Sizes of m and n, and the largest k, that are drawn, evenly by their logarithm."""

SHORT = ("bfloat16", "half")
DTYPES = (*SHORT, "float", "tf32", "int8")

LAYOUTS = ("kk", "kn", "mk", "mn")
CUBES = ("2048x2048x2048", "4096x4096x4096", "8192x8192x8192")
FIXED = (
    *(f"{cube}:{layout}" for cube in CUBES for layout in LAYOUTS),
    *("4096x14336x4096", "8192x28672x8192", "16384x1024x4096"),
    *("64x1024x1024x128:kn", "64x1024x128x1024:kn", "256x512x64x512:kn", "8x4096x4096x4096:kn"),
)
"""Sizes of products that are not drawn: cubes in all layouts, those of layers, and batches."""

ODD_LEAST = 256
LARGEST_WORK, LARGEST_ELEMENTS = 2.0**40, 2**28
"""Of odd cases: the least size; multiplications and elements of a tensor, of all batches."""


def drawn(seed: int, count: int, dtypes: Sequence[str] = SHORT) -> list[Case]:
    """Cases of sizes that are multiples of 8, in every layout, of these types.

    Bytes, and floats as TF32, lie along k, as tensor cores take them.
    """
    source = random.Random(seed)

    def size(most: int) -> int:
        number: float = LEAST * (most / LEAST) ** source.random()
        return max(LEAST, round(number / 8) * 8)

    def case() -> Case:
        dtype = source.choice(dtypes)
        any_way = dtype not in RESULTS
        return Case(
            m=size(MOST),
            n=size(MOST),
            k=size(DEEPEST),
            a_fast=source.choice("km" if any_way else "k"),
            b_fast=source.choice("kn" if any_way else "k"),
            dtype=dtype,
            out=RESULTS.get(dtype, dtype),
        )

    return [case() for _ in range(count)]


def drawn_odd(seed: int, count: int) -> list[Case]:
    """Half of the sizes are multiples of 64, and half of the others any number; some cases have
    batches, and some results are floats.
    """
    source = random.Random(seed)

    def size() -> int:
        number: float = ODD_LEAST * (MOST / ODD_LEAST) ** source.random()
        step = source.choice((64, 64, 8, 1))
        return max(ODD_LEAST, round(number / step) * step)

    def case() -> Case:
        m, n, k = size(), size(), size()
        batch = source.choice((0, 0, 0, 2, 3, 8, 16))
        dtype = source.choice(("bfloat16", "bfloat16", "half"))
        return Case(
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

    def fits(case: Case) -> bool:
        times = max(case.batch, 1)
        elements = times * max(case.m * case.n, case.m * case.k, case.n * case.k)
        work = times * case.m * case.n * case.k
        return work <= LARGEST_WORK and elements <= LARGEST_ELEMENTS

    cases = filter(fits, iter(case, None))
    return [next(cases) for _ in range(count)]


def executable(case: Case) -> Executable:
    """The product of a case, of any sizes."""
    with FusionDefinition() as fd:
        given = [
            fd.define_tensor(
                [-1] * (3 if batch else 2),
                True,
                getattr(DataType, NAMES[case.dtype]),
                stride_order=([2] if batch else []) + ([0, 1] if turned else [1, 0]),
            )
            for batch, _, _, turned in case.sides
        ]
        product = fd.ops.matmul(*given, precision=case.precision)
        fd.add_output(fd.ops.cast(product, getattr(DataType, NAMES[case.out])))
    return Executable(fd.fusion)


def _untouched(case: Case) -> list[np.ndarray[Any, Any]]:
    """Operands in the layout of a case, of memory that nothing touches."""
    dtype = numpy_dtype(getattr(DataType, NAMES[case.dtype]))

    def made(batch: int, rows: int, columns: int, turned: bool) -> np.ndarray[Any, Any]:
        shape = (columns, rows) if turned else (rows, columns)
        array = np.empty((batch, *shape) if batch else shape, dtype)
        return array.swapaxes(-1, -2) if turned else array

    return [made(*side) for side in case.sides]


def compiled(
    case: Case,
    count: int,
    target: str,
    other_kinds: bool = False,
    without: Sequence[str] = (),
    clusters: Sequence[tuple[int, int]] = (),
) -> tuple[Case, list[Way], float]:
    """The candidates to time, predicted to be fastest first, of which each kernel is in the cache
    then; and the seconds that the first took. Needs no GPU.
    """
    started = time.perf_counter()
    with knobs.scope(device="sim", target=target):
        with trying(clusters):
            found = ways_of(lambda: executable(case).plan_for(_untouched(case)))
        took = time.perf_counter() - started
        found = kinds(found, count - 1) if other_kinds else found[:count]
        for params, _ in found[1:]:
            with forced(params):
                executable(case).plan_for(_untouched(case))
        for params, _ in found if without else ():
            with forced(params), lacking(without):
                executable(case).plan_for(_untouched(case))
    return case, found, took


def measured(
    case: Case,
    ways: Sequence[Way],
    peers: Sequence[str],
    rep_ms: float,
    without: Sequence[str] = (),
) -> list[Row]:
    """A row for each contender: what it is, microseconds and error, or what failed."""
    a, b = operands(case)
    turns = Turns(asdict(case) | {"title": case.title}, partial(error_of, a=a, b=b))
    turns.add(PEER, lambda: theirs(case, a, b))

    def ours() -> Callable[[], Any]:
        ready = executable(case).prepared([a, b])
        return lambda: ready([a, b])[0]

    for number, (params, us) in enumerate(ways):
        with forced(params):
            facts = {"params": str(params), "short": words_of(params), "predicted": us}
            name = "chosen" if number == 0 else f"next {number}"
            turns.add(name, ours, **facts)
            if without:
                with lacking(without):
                    turns.add(f"{name}{LACKING}", ours, **facts)
    if not ways:
        turns.add("chosen", ours, short="by another scheduler", predicted=math.nan)
    for name in peers:
        turns.add(name, partial(BUILDERS[name], a, b))
    return [row for row in turns.timed(rep_ms) if row["contender"] != PEER]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; 1 where one `is_bad`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="sizes that are drawn")
    parser.add_argument("--odd", action="store_true", help="any sizes, batches, results in float")
    parser.add_argument("--dtype", choices=DTYPES, help="of all others than odd sizes")
    parser.add_argument("--all", type=int, default=1, help="candidates to time of each size")
    parser.add_argument("--kinds", action="store_true", help="all of other kinds, the best of each")
    parser.add_argument("--clusters", nargs="*", default=[], help="4x2: blocks of more to try")
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="PASS", help="that each kernel is timed without"
    )
    parser.add_argument(
        "--sizes", nargs="*", default=[], help="MxNxK:LAYOUT more, such as 8x8x8:mn"
    )
    parser.add_argument("--fixed", action="store_true", help="sizes of cubes, layers and batches")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case after that")
    parser.add_argument("--rep-ms", type=float, default=20.0, help="of each contender of a case")
    parser.add_argument("--jobs", type=int, default=0, help="processes; by default all cores")
    parser.add_argument("--compile-only", metavar="TARGET", help="needs no GPU")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="keep what `bench.readme` shows in this file")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    dtypes = SHORT if given.dtype is None else (given.dtype,)
    draw = drawn_odd if given.odd else partial(drawn, dtypes=dtypes)
    sizes = [*given.sizes, *(FIXED if given.fixed else ())]
    cases = [*(said(text, dtypes[0]) for text in sizes), *draw(given.seed, given.count)]
    target = given.compile_only or _target()
    clusters = [tuple(map(int, each.split("x"))) for each in given.clusters]
    asked = (given.all, target, given.kinds, tuple(given.without), clusters)
    made = in_processes(compiled, ((case, *asked) for case in cases), given.jobs)
    kernels, first = sum(len(ways) for _, ways, _ in made), sorted(took for _, _, took in made)
    took = time.monotonic() - started
    print(f"{kernels} kernels in {took:.0f} s; a first one {first[len(first) // 2]:.2f} s")
    if given.compile_only:
        return 0
    peers = [name for name in given.peers if installed(name)]
    print(f"seed {given.seed}; beside cuBLAS: {', '.join(peers) or 'nobody'}", flush=True)
    done: list[list[Row]] = []
    for case, ways, _ in made:
        if time.monotonic() - started > given.seconds:
            break
        done.append(measured(case, ways, peers, given.rep_ms, given.without))
        print("\n".join(map(line, done[-1])), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(done))
    if given.keep is not None:
        setting = setting_here("none", quick=True)
        pairs = zip(made, done, strict=False)
        rows = (kept(case, found, given.seed, setting) for (case, _, _), found in pairs)
        write_rows(given.keep, chain.from_iterable(rows))
    print(summary(done))
    return 1 if any(is_bad(row) for rows in done for row in rows) else 0


def kept(case: Case, found: Sequence[Row], seed: int, setting: Setting) -> list[KeptRow]:
    """Times of the choice, of cuBLAS, and of peers."""
    names = ("chosen", *PEERS)
    us = {each["contender"]: each["us"] for each in found if "us" in each}
    us = {name: us[name] for name in names if name in us}
    if "chosen" not in us:
        return []
    us["cublas"] = found[0]["cublas_us"]
    size = (*((case.batch,) if case.batch else ()), case.m, case.n, case.k)
    kind = f"{case.a_fast}{case.b_fast} {case.dtype}"
    return drawn_rows("product", size, kind, us, "chosen", seed=seed, setting=setting)


def _target() -> str:
    from warpsmith.runtime.of_device import target_of_device

    return target_of_device(0).name


if __name__ == "__main__":
    sys.exit(main())
