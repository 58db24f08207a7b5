"""Run one problem with all its contenders: check each result, then time them in turn."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar
from unittest import mock

from bench.ceilings import PREFIX, ceilings_of, multiplying_us
from bench.peers import contenders, versions
from bench.problem import Builder, Problem, Tensors, outputs_of
from bench.row import Row
from warpsmith.engine.places import call_target
from warpsmith.knobs import current
from warpsmith.testing import do_bench_interleaved, relative_error

T = TypeVar("T")

LARGEST_ERROR = {"bfloat16": 2e-2, "float": 1e-3}
"""Relative errors above which a result is wrong, and its time worthless."""


class ContextLost(Exception):
    """The GPU context of this process died: nothing more can be measured in it.

    `rows` holds what the problem under way had given until then.
    """

    def __init__(self, reason: str, rows: list[Row]) -> None:
        super().__init__(f"the GPU context was lost, and with it the rest of the run: {reason}")
        self.rows = rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for a whole run.

    `warmup_ms` and `rep_ms` are for each implementation of each problem.
    """

    peers: str = "auto"
    warmup_ms: float = 10.0
    rep_ms: float = 60.0
    gpu: str
    versions: tuple[tuple[str, str], ...]
    date: str


def setting_here(peers: str, *, quick: bool) -> Setting:
    """The setting of this machine and day."""
    return Setting(
        peers=peers,
        warmup_ms=3.0 if quick else 10.0,
        rep_ms=15.0 if quick else 60.0,
        gpu=gpu_name(),
        versions=versions(),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


@contextmanager
def without_gpu() -> Iterator[None]:
    """Processes that begin while this lasts compile for this machine's GPU, and do not touch it."""
    told = {"CUDA_VISIBLE_DEVICES": "", "WARPSMITH_TARGET": call_target(current()).name}
    with mock.patch.dict(os.environ, told):  # noqa: TID251
        yield


def in_processes(job: Callable[..., T], cases: Iterable[tuple[Any, ...]], jobs: int = 0) -> list[T]:
    """What a job gives for each case, by many processes: as many as there are processors, unless
    a number is given. So kernels are compiled before any is timed.
    """
    with ProcessPoolExecutor(jobs or os.cpu_count(), get_context("spawn")) as pool:
        given = [pool.submit(job, *case) for case in cases]
        return [each.result() for each in given]


def gpu_name() -> str:
    """Name of the first GPU, or `none`."""
    from warpsmith.runtime.driver import device_count, device_properties

    return device_properties(0).name if device_count() else "none"


def measure(problem: Problem, setting: Setting) -> list[Row]:
    """One row a contender; one that fails or is wrong gets an error in place of its time.

    Raises ContextLost when the GPU cannot be used any more.
    """
    import torch

    inputs = problem.draw()
    reference = outputs_of(problem.eager(*(x.double() for x in inputs)))
    ready: dict[str, Callable[[], Any]] = {}
    errors: dict[str, float] = {}
    rows: list[Row] = []
    for name, builder in contenders(problem, setting.peers).items():
        try:
            ready[name], errors[name] = checked(
                builder, inputs, reference, problem.dtype, problem.redrawn
            )
        except Exception as failure:
            ready.pop(name, None)
            rows.append(_row(problem, setting, name, error=one_line(failure)))
            _require_context(rows)
    del reference
    torch.cuda.empty_cache()
    try:
        times = do_bench_interleaved(
            {**ready, **ceilings_of(problem)}, setting.warmup_ms, setting.rep_ms
        )
    except Exception as failure:
        rows += [_row(problem, setting, name, error=one_line(failure)) for name in ready]
        _require_context(rows)
        return rows
    passes = [1e3 * ms for name, ms in times.items() if name.startswith(PREFIX)]
    ceiling_us = min(passes) if passes else multiplying_us(problem)
    for name in ready:
        us = 1e3 * times[name]
        rows.append(
            _row(problem, setting, name, us=us, ceiling_us=ceiling_us, rel_err=errors[name])
        )
    return rows


def one_line(failure: BaseException) -> str:
    """`Class: first line of the message`, cut to a length that a table bears."""
    text = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {text[0] if text else ''}"[:300]


def significant(value: float | None, digits: int = 5) -> float | None:
    """A number without the digits that no measurement has."""
    return None if value is None else float(f"{value:.{digits}g}")


def checked(
    builder: Builder,
    inputs: Tensors,
    reference: Tensors,
    dtype: str,
    redrawn: Callable[[Tensors, Tensors], Tensors] | None = None,
) -> tuple[Callable[[], Any], float]:
    """The call, and its error against the reference. Raises ValueError for a wrong result."""
    call = builder(inputs)
    call()  # compiles, so that the allocator's blocks poisoned next are those of the outputs
    _poison(outputs_of(call()))
    outputs = outputs_of(call())
    if len(outputs) != len(reference):
        raise ValueError(f"{len(outputs)} outputs in place of {len(reference)}")
    for got, want in zip(outputs, reference, strict=True):
        if tuple(got.shape) != tuple(want.shape):
            raise ValueError(f"shape {tuple(got.shape)} in place of {tuple(want.shape)}")
    if redrawn is not None:
        reference = redrawn(inputs, outputs)
    pairs = zip(outputs, reference, strict=True)
    found = max((relative_error(got, want) for got, want in pairs), key=_badness)
    if not found <= LARGEST_ERROR[dtype]:
        raise ValueError(f"wrong result, relative error {found:.3g}")
    return call, found


def _badness(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _poison(outputs: Tensors) -> None:
    """Fill outputs with NaN and free them: the next call most likely gets the same memory.

    What a kernel then leaves unwritten is seen.
    """
    for output in outputs:
        output.fill_(math.nan)


def _require_context(rows: list[Row]) -> None:
    import torch

    try:
        torch.cuda.synchronize()
    except Exception as failure:
        raise ContextLost(one_line(failure), rows) from failure


def _row(
    problem: Problem,
    setting: Setting,
    impl: str,
    *,
    us: float | None = None,
    ceiling_us: float | None = None,
    rel_err: float | None = None,
    error: str | None = None,
) -> Row:
    share = None if us is None or ceiling_us is None else 100 * ceiling_us / us
    return Row(
        suite=problem.suite,
        problem=problem.name,
        shape=problem.shape,
        dtype=problem.dtype,
        impl=impl,
        us=significant(us),
        ceiling_us=significant(ceiling_us),
        pct_ceiling=significant(share, 4),
        rel_err=significant(rel_err, 3),
        gpu=setting.gpu,
        versions=setting.versions,
        date=setting.date,
        error=error,
    )
