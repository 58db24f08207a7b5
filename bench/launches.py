"""Products of sizes, layouts, types and schedules that chance draws, each launched several times.

python -m bench.launches --seed 7 --count 250 --launches 4    # a thousand launches

Of each size one of all schedules that the model knows is drawn, likely or not. Many processes
compile and launch at the same time. The first result is held against sums in float, with what no
kernel wrote as NaN, and the others bit for bit against it. Whatever is wrong, fails or takes more
than `--seconds` is listed, and the command then fails.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from bench import grouped, products
from bench.measure import one_line
from bench.products import NAMES, RESULTS, Case, error_of, forced, ways_of, words_of
from bench.random_products import drawn_odd

MOST_WORK = 2.0**35
"""Multiplications of one product: kernels are made longer than they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A product to launch: with the schedule at this share of all, the likely ones first."""

    case: Case | grouped.Case
    share: float

    @property
    def title(self) -> str:
        return self.case.title


def drawn(seed: int, count: int) -> list[Launch]:
    """Of every ten four of 16 bits, one of few rows, four of other types, and one by group."""
    source = random.Random(seed)
    plain = iter(drawn_odd(seed, 4 * count + 64))

    def case(number: int) -> Launch:
        share = source.choice((0.0, source.random() ** 2))
        if number % 10 == 9:
            rows = tuple(round(700 ** source.random()) - 1 for _ in range(source.randint(2, 40)))
            n, k = (8 * round(8 * 32 ** source.random()) for _ in "nk")
            by_group = grouped.Case(rows=rows, n=n, k=k, spare=source.choice((0, 70)))
            return Launch(case=by_group, share=share)
        found = next(c for c in plain if max(c.batch, 1) * c.m * c.n * c.k <= MOST_WORK)
        if number % 10 == 8:
            found = replace(found, m=source.randint(1, 64), batch=0, shared=False)
        if number % 10 < 4 or number % 10 == 8:
            return Launch(case=found, share=share)
        kind = source.choice(("tf32", "e4m3", "e5m2", "int8"))
        out = RESULTS.get(kind, source.choice(("bfloat16", "float")))
        found = replace(found, dtype=kind, out=out)
        if kind != "tf32":  # of 8 bits tensor cores take no other layout
            found = replace(found, a_fast="k", b_fast="k")
        return Launch(case=found, share=share)

    return [case(number) for number in range(count)]


def given(launch: Launch, device: str) -> tuple[Any, ...]:
    """Fresh operands of -2 to 2."""
    if isinstance(launch.case, grouped.Case):
        return grouped.operands(launch.case, device)
    return products.operands(launch.case, device)


def program(launch: Launch) -> Callable[..., Any]:
    """What is fused."""
    from warpsmith import DataType, ops

    case = launch.case
    if isinstance(case, grouped.Case):
        return lambda x, w, ends: ops.grouped_matmul(x, w, ends)
    out, precision = getattr(DataType, NAMES[case.out]), case.precision
    return lambda a, b: ops.matmul(a, b, dtype=out, precision=precision)


def error(launch: Launch, result: Any, operands: Sequence[Any]) -> float:
    """By how much more than rounding allows a result is wrong; above 1 is too much."""
    import torch

    case = launch.case
    if isinstance(case, grouped.Case):
        return grouped.worst_error(case, result, *operands[:2])
    a, b = operands
    if case.precision != "fast":
        return error_of(result, a, b)
    wanted = a.float() @ b.float()
    lost = 2.0**-10 * (6 + case.k / 512) * 4 * case.k**0.5  # sums of fewer bits
    allowed = wanted.abs().mul_(torch.finfo(result.dtype).eps).add_(lost)
    return float((result.float() - wanted).abs_().div_(allowed).nan_to_num_(math.inf).max())


def launched(launch: Launch, launches: int, device: str = "cuda") -> tuple[str, str]:
    """The schedule in words, and what went wrong: nothing where the string is empty."""
    import torch

    from warpsmith import fuse

    torch.backends.cuda.matmul.allow_tf32 = False
    said = "by another scheduler"
    try:
        operands = given(launch, device)
        ways = ways_of(lambda: fuse(program(launch)).lower(*operands).compile())
        call = fuse(program(launch))
        if ways:
            params = ways[int(launch.share * len(ways))][0]
            said = words_of(params)
            with forced(params):
                first = call(*operands)
        else:
            first = call(*operands)
        shape, kind = first.shape, first.dtype
        del first
        for _ in range(3):  # the next result most likely gets this memory
            filled = torch.empty(shape, dtype=kind, device=device)
            filled.fill_(math.nan if kind.is_floating_point else -77)
            del filled
        first = call(*operands)
        if not (worst := error(launch, first, operands)) <= 1:
            return said, f"wrong: {worst:.3g} of what rounding allows"
        again = [call(*operands) for _ in range(launches - 2)]
        if not all(torch.equal(first, each) for each in again):
            return said, "other bits in another launch"
    except Exception as failure:
        return said, one_line(failure)
    return said, ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.launches", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=250, help="sizes that are drawn")
    parser.add_argument("--launches", type=int, default=4, help="of each size")
    parser.add_argument("--seconds", type=float, default=600.0, help="that all may take")
    parser.add_argument("--jobs", type=int, default=0, help="processes; by default all cores")
    asked = parser.parse_args(arguments)
    cases = drawn(asked.seed, asked.count)
    bad = 0
    pool = ProcessPoolExecutor(asked.jobs or os.cpu_count(), get_context("spawn"))
    futures = {pool.submit(launched, case, asked.launches): case for case in cases}
    done, left = wait(futures, timeout=asked.seconds)
    schedules: set[str] = set()
    for future in done:
        bad += _told(futures[future], future, schedules)
    for future in left:
        if future.running():
            print(f"{futures[future].title}: not done in time", flush=True)
    print(
        f"seed {asked.seed}: {asked.launches * len(done)} launches of {len(done)} sizes and "
        f"{len(schedules)} schedules, {bad} bad, {len(left)} not done"
    )
    if left:
        for process in pool._processes.values():
            process.kill()
    pool.shutdown(wait=not left, cancel_futures=True)
    return 1 if bad or left else 0


def _told(launch: Launch, future: Future[tuple[str, str]], schedules: set[str]) -> bool:
    """Whether a size went wrong, which is then printed."""
    said, wrong = future.result()
    schedules.add(said)
    if wrong:
        print(f"{launch.title}, {said}: {wrong}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
