"""The next word of sequences whose keys and values are kept, beside Inductor, under CUDA graphs.

python -m bench.generation                  # batches of 1 to 16 words, each behind 2,000 others
python -m bench.generation --batches 4 --profile

Both contenders are `torch.compile(..., mode="reduce-overhead")` of the same Llama of two layers at
real widths, in bfloat16. Their logits and what they keep are held against the same in float, then
they are timed in turn, several calls at a time, so that the host hides behind the GPU.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import geometric_mean, median

import torch
from torch import Tensor

from bench.measure import one_line
from bench.models import kernels_of
from bench.small_models import REAL, Generator, Size
from warpsmith.torch_backend.backend import backend

BATCHES = (1, 2, 4, 8, 16)
KEPT = 2000
ROUNDS = 15
_CALLS = 20
_MODE = "reduce-overhead"

_Call = Callable[[Tensor, Tensor], Tensor]


def far(model: Generator, logits: Tensor, exact: Generator, expected: Tensor) -> float:
    """How far logits, and what is kept, are from the same in float: a share of their norms."""
    pairs = [(logits, expected), *zip(model.buffers(), exact.buffers(), strict=True)]
    doubles = [(a.double(), b.double()) for a, b in pairs if a.numel() > 1]
    return max(float((a - b).norm() / b.norm()) for a, b in doubles)


def contenders(size: Size, words: Tensor, place: Tensor) -> dict[str, _Call]:
    """Ways to compute the next word's logits; those that are wrong raise ValueError."""
    torch._dynamo.reset()
    with torch.device(words.device):
        model = Generator(size, KEPT + 1).requires_grad_(False)
    for each in model.buffers():
        if each.ndim > 1:
            each.normal_()
    model = model.bfloat16()
    exact = copy.deepcopy(model).float()
    expected = exact(words, place)
    found: dict[str, _Call] = {}
    for name, how in (("eager", None), ("inductor", "inductor"), ("ours", backend)):
        own = copy.deepcopy(model)
        start = time.perf_counter()
        call: _Call = own if how is None else torch.compile(own, backend=how, mode=_MODE)
        for _ in range(3):
            distance = far(own, call(words, place), exact, expected)
            if not distance < 0.02:
                raise ValueError(f"{name} is {distance:.3g} off")
        print(f"{name}: {time.perf_counter() - start:.1f} s, distance {distance:.1e}", flush=True)
        found[name] = call
    return found


def timed(calls: dict[str, _Call], words: Tensor, place: Tensor) -> dict[str, list[float]]:
    """Microseconds of a call in each round."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call(words, place)
            start.record()
            for _ in range(_CALLS):
                call(words, place)
            end.record()
            end.synchronize()
            spent[name].append(1000 * start.elapsed_time(end) / _CALLS)
    return spent


def measured(batch: int, *, profiled: bool) -> float:
    """How many times as fast as Inductor's the next word is; rows are printed."""
    torch.manual_seed(0)
    size = replace(REAL, batch=batch, length=1)
    words = torch.randint(0, size.words, (batch, 1), device="cuda")
    place = torch.tensor([KEPT], device="cuda")
    calls = contenders(size, words, place)
    spent = timed(calls, words, place)
    ratios = {
        name: median(a / b for a, b in zip(spent["inductor"], each, strict=True))
        for name, each in spent.items()
    }
    for name, each in spent.items():
        print(
            f"batch {batch:3} {name:9} {median(each):8.1f} µs  x Inductor {ratios[name]:.3f}",
            flush=True,
        )
    for name in ("inductor", "ours") if profiled else ():
        print(f"batch {batch} {name}", *kernels_of(partial(calls[name], words, place)), sep="\n")
    return ratios["ours"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--profile", action="store_true", help="the kernels that take longest")
    given = parser.parse_args(arguments)
    found: list[float] = []
    for batch in given.batches:
        try:
            with torch.no_grad():
                found.append(measured(batch, profiled=given.profile))
        except Exception as failure:
            print(f"batch {batch}: {one_line(failure)}", flush=True)
    if found:
        print(f"geometric mean {geometric_mean(found):.3f}, least {min(found):.3f}")


if __name__ == "__main__":
    main()
