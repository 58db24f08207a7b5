"""Time kernels and compare results: what tests and benchmarks of fused programs need."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from warpsmith.errors import ArgumentError, DeviceError
from warpsmith.runtime import arrays
from warpsmith.values import dataclass

ReturnMode = Literal["min", "max", "mean", "median", "all"]

FLUSH_BYTES = 256 * 2**20
"""Bytes written before each run: several times the L2 of any GPU, so that a run finds it cold."""

_MODES = ("min", "max", "mean", "median", "all")
_PROBES = 5  # runs that estimate how long one takes
_MOST_ROUNDS = 1000
_FEWEST_ROUNDS = 5
_AHEAD = 2  # the GPU's wait before a run is at least so many times what the run costs the host
_MOST_FLUSHES = 16


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`|actual - expected| <= absolute + relative * |expected|` is close."""

    relative: float
    absolute: float


# Unit of the last place at 1, per dtype.
_EPSILONS = {
    "double": 2.0**-52,
    "float": 2.0**-23,
    "half": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
# Half the distance of subnormal numbers, where it is more than what is allowed anyhow.
_COARSE = {"float8_e4m3fn": 2.0**-10, "float8_e5m2": 2.0**-17}


def tolerance(dtype: str, reduction_length: int = 1, scale: float = 1.0) -> Tolerance:
    """What rounding may do to a result.

    The result is rounded once to `dtype`, and was computed in float (double for double): 16 units
    in the last place for the functions in it; for a sum as many more as the root of its length,
    relative to it where terms have one sign, and 8 a term where terms of size `scale` cancel.

    Args:
        dtype: name of the result's dtype; integers and bools are exact.
        reduction_length: how many terms one result sums.
        scale: size of one term.
    """
    if dtype not in _EPSILONS:
        return Tolerance(0.0, 0.0)
    stored = _EPSILONS[dtype]
    computed = _EPSILONS["double" if dtype == "double" else "float"]
    length = max(reduction_length, 1)
    return Tolerance(
        relative=stored + computed * (16 + math.sqrt(length)),
        absolute=8 * computed * length * abs(scale) + _COARSE.get(dtype, 0.0),
    )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    reduction_length: int = 1,
    scale: float = 1.0,
    within: Tolerance | None = None,
    name: str = "result",
) -> None:
    """Compare a result with a reference of higher precision, usually float64.

    NaN equals NaN and an infinity itself. Shapes must agree, dtypes need not. Tensors on a GPU are
    compared there.

    Args:
        actual: array of NumPy or PyTorch; its dtype decides the tolerance.
        expected: array of either kind, or a number.
        reduction_length: see `tolerance`.
        scale: see `tolerance`.
        within: a tolerance of your own.
        name: what the message calls the result.

    Raises AssertionError that says how many elements differ, and where the worst is.
    """
    limits = within or tolerance(arrays.describe(actual).dtype, reduction_length, scale)
    if found := difference(actual, expected, limits):
        raise AssertionError(f"{name}{found}")


def difference(
    actual: Any, expected: Any, limits: Tolerance, also: Callable[[], Any] | None = None
) -> str:
    """How a result differs from a reference, in words behind its name; empty where it is close.

    Args:
        also: gives another reference, asked for where the first is not met: elements may be close
            to either.
    """
    info = arrays.describe(actual)
    if info.kind == "torch":
        import torch

        library: Any = torch
        reference = torch.as_tensor(expected, device=actual.device)
    else:
        library = np
        reference = arrays.to_numpy(expected) if hasattr(expected, "shape") else expected
        reference = np.asarray(reference)
    if tuple(actual.shape) != tuple(reference.shape):
        return f" has shape {tuple(actual.shape)}, expected {tuple(reference.shape)}"
    exact = info.dtype not in _EPSILONS
    got = actual if exact else _as_double(actual, library)
    want = reference if exact else _as_double(reference, library)
    with np.errstate(invalid="ignore"):  # infinity minus itself
        bad = (got != want) if exact else ~_close(got, want, limits, library)
        if also is not None and bool(bad.any()):
            other = also() if exact else _as_double(also(), library)
            bad &= (got != other) if exact else ~_close(got, other, limits, library)
    count = int(bad.sum())
    if count == 0:
        return ""
    with np.errstate(invalid="ignore"):
        excess = library.abs(_as_double(got, library) - _as_double(want, library))
        share = excess / (limits.absolute + limits.relative * library.abs(want) + 1e-300)
    # What differs by a NaN or an infinity is worse than any number.
    share = library.where(library.isfinite(share), share, library.full_like(share, math.inf))
    share = library.where(bad, share, library.full_like(share, -1.0))
    worst = np.unravel_index(int(share.argmax()), tuple(actual.shape))
    place = tuple(int(index) for index in worst)
    return (
        f": {count} of {math.prod(actual.shape)} elements differ; worst at {place}: got "
        f"{got[place].item()!r}, expected {want[place].item()!r} "
        f"(within {limits.relative:.3g} relative plus {limits.absolute:.3g})"
    )


def relative_error(actual: Any, expected: Any) -> float:
    """`||actual - expected|| / ||expected||` in float64, for arrays of one kind.

    NaN anywhere gives NaN; a reference of zeros gives the norm of `actual` itself.
    """
    library: Any = np
    if arrays.describe(actual).kind == "torch":
        import torch

        library = torch
    got, want = _as_double(actual, library), _as_double(expected, library)
    norm = math.sqrt(float((want * want).sum()))
    difference = got - want
    return math.sqrt(float((difference * difference).sum())) / (norm or 1.0)


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: ReturnMode = "mean",
) -> float | list[float]:
    """Time `fn` on the GPU, in ms, with the L2 flushed before each run.

    Runs that the GPU came to before the host had launched them whole do not count, where others do.

    Args:
        fn: starts the work on PyTorch's current stream.
        warmup: ms of runs that are not counted.
        rep: ms of runs that are.
        grad_to_none: tensors whose `grad` is dropped before each run.
        quantiles: return these quantiles of the times, one as a number, several as a list.
        return_mode: else `min`, `max`, `mean`, `median`, or `all` times as a list.
    """
    _check_mode(return_mode, quantiles)
    timer = _Timer()
    fn()
    cost = timer.cost(fn)
    for _ in range(max(1, int(warmup / cost.ms))):
        fn()
    rounds = max(1, int(rep / cost.ms))
    runs = [timer.run(fn, cost.flushes, grad_to_none) for _ in range(rounds)]
    return _summary(timer.times(runs), quantiles, return_mode)


def do_bench_interleaved(
    functions: Mapping[str, Callable[[], object]], warmup: float = 25, rep: float = 100
) -> dict[str, float]:
    """Median time of each function in ms, the functions taking turns.

    What drifts (clocks, temperature, a neighbour) so meets all of them alike, and ratios hold. The
    L2 is flushed before each run, and each round starts with another function.

    Args:
        functions: what to time, by name.
        warmup: ms of uncounted runs, for each function on average.
        rep: ms of counted runs, for each function on average; at least 5 rounds.
    """
    if not functions:
        return {}
    timer = _Timer()
    for fn in functions.values():
        fn()
    costs = {name: timer.cost(fn) for name, fn in functions.items()}
    mean = sum(cost.ms for cost in costs.values()) / len(costs)
    names = list(functions)
    for _ in range(max(1, int(warmup / mean))):
        for fn in functions.values():
            fn()
    rounds = min(max(_FEWEST_ROUNDS, int(rep / mean)), _MOST_ROUNDS)
    runs: dict[str, list[Any]] = {name: [] for name in names}
    for start in range(rounds):
        shift = start % len(names)
        for name in names[shift:] + names[:shift]:
            runs[name].append(timer.run(functions[name], costs[name].flushes))
    return {name: float(np.median(timer.times(runs[name]))) for name in names}


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of one timed run: ms in all, and how often the L2 is flushed before it."""

    ms: float
    flushes: int


class _Timer:
    """CUDA events around runs that each find the L2 full of something else."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as missing:
            raise DeviceError(
                "timing needs PyTorch", code="WS0610", remedy="install `warpsmith[torch]`"
            ) from missing
        if not torch.cuda.is_available():
            raise DeviceError(
                "timing needs a GPU, and PyTorch sees none",
                code="WS0611",
                remedy="run on a machine with an NVIDIA GPU",
            )
        self._torch = torch
        self._flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

    def _event(self) -> Any:
        return self._torch.cuda.Event(enable_timing=True)

    def cost(self, fn: Callable[[], object]) -> _Cost:
        """What one run takes, with the flushes before it."""
        start, stop = self._event(), self._event()
        self._torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(_PROBES):
            fn()
        host = 1e3 * (time.perf_counter() - began) / _PROBES
        self._torch.cuda.synchronize()
        start.record()
        for _ in range(_PROBES):
            self._flush.zero_()
        stop.record()
        self._torch.cuda.synchronize()
        flush = max(float(start.elapsed_time(stop)) / _PROBES, 1e-3)
        start.record()
        for _ in range(_PROBES):
            fn()
        stop.record()
        self._torch.cuda.synchronize()
        flushes = min(_MOST_FLUSHES, max(1, math.ceil(_AHEAD * host / flush)))
        return _Cost(flushes * flush + float(start.elapsed_time(stop)) / _PROBES, flushes)

    def run(
        self, fn: Callable[[], object], flushes: int, grad_to_none: Sequence[Any] | None = None
    ) -> Any:
        """One run between two events, and whether the GPU may have waited for the host in it."""
        for tensor in grad_to_none or ():
            tensor.grad = None
        start, stop = self._event(), self._event()
        # The flushes also keep the GPU busy while the host gets ahead, so that what is timed is the
        # GPU's work and not the wait for its launch.
        for _ in range(flushes):
            self._flush.zero_()
        start.record()
        fn()
        stop.record()
        return start, stop, start.query()

    def times(self, runs: Sequence[Any]) -> list[float]:
        """ms of each run, once all are done; of those alone in which no host was waited for, if
        there are such.
        """
        self._torch.cuda.synchronize()
        counted = [run for run in runs if not run[2]] or runs
        return [float(start.elapsed_time(stop)) for start, stop, _ in counted]


def _check_mode(return_mode: str, quantiles: Sequence[float] | None) -> None:
    if return_mode not in _MODES:
        raise ArgumentError(
            f"return_mode={return_mode!r} is not known",
            code="WS0330",
            remedy=f"use one of {', '.join(_MODES)}",
        )
    outside = [q for q in quantiles or () if not 0 <= q <= 1]
    if outside:
        raise ArgumentError(
            f"quantile {outside[0]!r} is not within 0 and 1", code="WS0331", remedy="0.5 is a half"
        )


def _summary(
    times: list[float], quantiles: Sequence[float] | None, return_mode: ReturnMode
) -> float | list[float]:
    if quantiles:
        found = [float(value) for value in np.quantile(times, list(quantiles))]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    how: dict[str, Callable[[list[float]], Any]] = {
        "min": np.min,
        "max": np.max,
        "mean": np.mean,
        "median": np.median,
    }
    return float(how[return_mode](times))


def _as_double(array: Any, library: Any) -> Any:
    return array.astype(np.float64) if library is np else array.to(library.float64)


def _close(got: Any, want: Any, limits: Tolerance, library: Any) -> Any:
    near = library.abs(got - want) <= limits.absolute + limits.relative * library.abs(want)
    both_nan = library.isnan(got) & library.isnan(want)
    return (near & library.isfinite(want)) | (got == want) | both_nan
