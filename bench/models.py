"""Whole models under `torch.compile`, warpsmith beside Inductor.

python -m bench.models --cpu  # forward and backward against eager, the share that is taken
python -m bench.models        # on the GPU: real widths, forward and training step
python -m bench.models --names own_llama --mode reduce-overhead --report

On the GPU all contenders of a model are compiled first, their losses and gradients held against
those of eager in float. Then they are timed in bursts, in an order that chance draws: the clock
follows power 0.1 s late, so what ran just before a call says how fast it is, and of a burst the
second half counts. The median of their ratios to Inductor is printed with their peaks of memory.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch

from bench.measure import one_line
from bench.small_models import NAMES, REAL, TINY, Size, loss_of, made
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.report import report

ROUNDS = 6

BURST = 0.5
"""Seconds that one contender runs before the next."""


def gradients(
    call: Callable[..., Any], model: torch.nn.Module, inputs: Any
) -> tuple[torch.Tensor, ...]:
    """The loss, and the gradients of all parameters that have one."""
    model.zero_grad()
    loss = loss_of(call(**inputs))
    loss.backward()
    found = (p.grad for p in model.parameters() if p.grad is not None)
    return loss.detach(), *(grad.clone() for grad in found)


def furthest(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest of their `distances`."""
    return max(distances(found, expected))


def distances(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> list[float]:
    """How far each gradient is from the expected one, as a share of the largest of all.

    A gradient that is zero in theory, as that of a bias of keys, is noise: its own size says
    nothing.
    """
    if len(found) != len(expected):
        return [float("inf")]
    scale = max(float(each.double().norm()) for each in expected)
    pairs = zip(found, expected, strict=True)
    return [float((a.double() - b.double()).norm()) / scale for a, b in pairs]


def on_cpu(name: str, size: Size = TINY) -> tuple[float, float, float]:
    """Largest distance from eager, share of operations that is taken, and seconds to compile."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = made(name, size)
    expected = gradients(model, model, inputs)
    start = time.perf_counter()
    found = gradients(torch.compile(model, backend=backend), model, inputs)
    seconds = time.perf_counter() - start
    graphs = report(model).graphs
    taken, left = (sum(getattr(g, what) for g in graphs) for what in ("taken", "left"))
    return furthest(found, expected), taken / (taken + left), seconds


@dataclass(frozen=True, slots=True)
class Contenders:
    """A model in bfloat16 on the GPU, compiled by all who take part.

    Attributes:
        models, calls: by who takes part; one call is of one model.
        wrong: how far the gradients of each are from those in float.
    """

    name: str
    inputs: Mapping[str, torch.Tensor]
    models: dict[str, torch.nn.Module]
    calls: dict[str, Callable[..., Any]]
    wrong: dict[str, float]

    def forward(self, who: str) -> None:
        with torch.no_grad():
            self.calls[who](**self.inputs)

    def step(self, who: str) -> None:
        self.models[who].zero_grad()
        loss_of(self.calls[who](**self.inputs)).backward()


def contenders(name: str, size: Size, mode: str | None) -> Contenders:
    """A model that all have compiled, for calls with gradients and without."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.device("cuda"):
        model, given = made(name, size)
    exact = gradients(*(copy.deepcopy(model),) * 2, given)
    models = {who: copy.deepcopy(model).bfloat16() for who in ("eager", "inductor", "ours")}
    inputs = {
        key: value.bfloat16() if value.is_floating_point() else value
        for key, value in given.items()
    }
    how = {"inductor": "inductor", "ours": backend}
    calls: dict[str, Callable[..., Any]] = {"eager": models["eager"]}
    for who, chosen in how.items():
        calls[who] = torch.compile(models[who], backend=chosen, mode=mode)
    found = Contenders(name, inputs, models, calls, {})
    for who in calls:
        start = time.perf_counter()
        found.wrong[who] = furthest(gradients(calls[who], models[who], inputs), exact)
        between = time.perf_counter()
        found.forward(who)
        torch.cuda.synchronize()
        print(
            f"{name} {who}: {between - start:.1f} s, forward {time.perf_counter() - between:.1f} s,"
            f" distance {found.wrong[who]:.2e}",
            flush=True,
        )
    return found


def timed(given: Contenders, *, shown: bool, profiled: bool) -> None:
    """Prints a row for the forward pass and one for the training step."""
    for what, run in (("forward", given.forward), ("step", given.step)):
        times: dict[str, list[float]] = {who: [] for who in given.calls}
        peaks: dict[str, float] = {}
        for who in given.calls:
            for _ in range(3):
                run(who)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            run(who)
            peaks[who] = (torch.cuda.max_memory_allocated() - before) / 2**20
        for _ in range(ROUNDS):
            for who in random.sample(list(given.calls), len(given.calls)):
                times[who].append(in_a_burst(partial(run, who)))
        for who, wrong in given.wrong.items():
            ratios = [a / b for a, b in zip(times["inductor"], times[who], strict=True)]
            print(
                f"{given.name:12} {what:8} {who:9} {median(times[who]):10.0f} µs  x Inductor "
                f"{median(ratios):.3f}  peak {peaks[who]:8.0f} MiB"
                + ("" if wrong <= 2 * given.wrong["eager"] + 1e-3 else "  WRONG"),
                flush=True,
            )
        for who in ("inductor", "ours") if profiled else ():
            print(f"{given.name} {what} {who}", *kernels_of(partial(run, who)), sep="\n")
    if shown:
        print(report(given.models["ours"], measure=True))


def in_a_burst(run: Callable[[], None]) -> float:
    """Microseconds of a call in the second half of a burst."""
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    half = math.ceil(BURST / 2 / (time.perf_counter() - start))
    start_event, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for number in range(2 * half):
        if number == half:
            start_event.record()
        run()
    end.record()
    end.synchronize()
    return 1000 * float(start_event.elapsed_time(end)) / half


def kernels_of(run: Callable[[], None], most: int = 25) -> list[str]:
    """A line for each kernel that a call launches, those that take longest first: microseconds of
    the GPU in all, how often it runs, and its name.
    """
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    rows = sorted(found.key_averages(), key=lambda row: -row.device_time_total)
    total = sum(row.device_time_total for row in rows)
    lines = [f"  {total:9.0f} µs of all kernels"]
    return lines + [f"  {r.device_time_total:9.0f} {r.count:4} {r.key[:90]}" for r in rows[:most]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="tiny models, against eager")
    parser.add_argument("--names", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--mode", help="of torch.compile")
    parser.add_argument("--length", type=int, default=REAL.length, help="words of each sequence")
    parser.add_argument("--report", action="store_true", help="each region, with its time")
    parser.add_argument("--profile", action="store_true", help="the kernels that take longest")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    if asked.cpu:
        print(f"{'model':12} {'distance':>9} {'taken':>6} {'compiled in':>12}")
    size = replace(REAL, length=asked.length)
    for name in asked.names:
        try:
            if asked.cpu:
                distance, share, seconds = on_cpu(name)
                print(f"{name:12} {distance:9.1e} {share:6.1%} {seconds:10.1f} s", flush=True)
            else:
                ready = contenders(name, size, asked.mode)
                timed(ready, shown=asked.report, profiled=asked.profile)
        except Exception as failure:
            print(f"{name:12} {one_line(failure)}", flush=True)


if __name__ == "__main__":
    main()
