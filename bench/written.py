"""Programs that people write, under `torch.compile`: warpsmith beside Inductor, sizes drawn.

`python -m bench.written --seed 7 --minutes 3 --json rows.json`

Each program and each trained module is compiled by both, its results and gradients are held
against torch's in float64, and both are timed in turns: programs by events, with the L2 flushed,
forward and backward by how long kernels run, which the profiler tells. It prints a line each,
and what both come to. Parts of them, as `--part 2/7`, may run beside each other: they compile at
the same time, and take turns on the GPU. `--show` prints the rows of such files as a table.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import geometric_mean, quantiles
from typing import Any

from bench.measure import setting_here
from warpsmith.errors import DeviceError
from warpsmith.testing import do_bench_interleaved, relative_error

STEPS = 4
"""Of a module, that the profiler sees."""

Run = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A program, its sizes, and what both took.

    Attributes:
        us: by name; of forward and backward where it is trained.
        errors: the largest ones, relative to the largest number of a result.
        failure: why there are none.
    """

    name: str
    trained: bool
    shapes: tuple[tuple[int, ...], ...]
    us: Mapping[str, float]
    errors: Mapping[str, float]
    failure: str = ""

    @property
    def ratio(self) -> float:
        """Inductor's time over ours."""
        return self.us["inductor"] / self.us["warpsmith"]

    def __str__(self) -> str:
        sizes = " ".join("x".join(map(str, shape)) for shape in self.shapes)
        what = f"{self.name}{' trained' if self.trained else ''} [{sizes}]"
        if self.failure:
            return f"{what}: {self.failure}"
        times = ", ".join(f"{name} {us:.1f}" for name, us in self.us.items())
        errors = ", ".join(f"{error:.1g}" for error in self.errors.values())
        return f"{self.ratio:5.2f} {what}: {times} us, errors {errors}"


def _compiled(function: Any, by: str) -> Any:
    import torch

    from warpsmith.torch_backend.backend import backend

    how = {"backend": backend} if by == "warpsmith" else {}
    return torch.compile(function, dynamic=False, **how)


@contextmanager
def taking_turns() -> Iterator[None]:
    """The GPU, while other parts wait for it."""
    with (Path(tempfile.gettempdir()) / "warpsmith-bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _flat(result: Any) -> list[Any]:
    return [result] if hasattr(result, "shape") else [t for each in result for t in _flat(each)]


def _wide(tensor: Any) -> Any:
    return tensor.double() if tensor.is_floating_point() else tensor


def _error(found: list[Any], wanted: list[Any]) -> float:
    pairs = zip(found, wanted, strict=True)
    return max((relative_error(a.float(), b) for a, b in pairs if b.is_floating_point()), default=0)


# --- programs ----------------------------------------------------------------------------------


def forward(name: str, seed: int) -> Written:
    """Both on one program."""
    import torch

    from bench.programs import PROGRAMS

    program = PROGRAMS[name]
    torch._dynamo.reset()
    inputs = program.draw(Random(f"{seed} {name}"))
    shapes = tuple(tuple(t.shape) for t in inputs)
    with torch.no_grad():
        try:
            wanted = _flat(program.function(*map(_wide, inputs)))
            made = {by: _compiled(_copy(program.function), by) for by in ("warpsmith", "inductor")}
            errors = {by: _error(_flat(f(*inputs)), wanted) for by, f in made.items()}
            calls: dict[str, Run] = {by: partial(f, *inputs) for by, f in made.items()}
            with taking_turns():
                us = {by: 1e3 * ms for by, ms in do_bench_interleaved(calls, 2, 12).items()}
        except Exception as failure:
            return _failed(name, False, shapes, failure)
    return Written(name=name, trained=False, shapes=shapes, us=us, errors=errors)


def _copy(function: Any) -> Any:
    """A function of its own, so that what one compiler knows of it the other does not."""
    import types

    return types.FunctionType(
        *(function.__code__, function.__globals__, function.__name__, function.__defaults__),
        closure=function.__closure__,
    )


# --- modules -----------------------------------------------------------------------------------


def both_ways(name: str, seed: int) -> Written:
    """Both on forward and backward of one module."""
    import torch

    from bench.trained import MODULES

    trained = MODULES[name]
    torch._dynamo.reset()
    torch.manual_seed(seed)
    inputs = trained.inputs.draw(Random(f"{seed} {name}"))
    if trained.channels_last:
        inputs = [x.to(memory_format=torch.channels_last) for x in inputs]
    shapes = tuple(tuple(t.shape) for t in inputs)
    module = trained.make(inputs).cuda()
    module = module if trained.wide else module.to(torch.bfloat16)
    try:
        exact = copy.deepcopy(module).double()
        result = exact(*map(_wide, inputs))
        slope = torch.randn_like(result)
        wanted = _step(exact, exact, [_wide(x) for x in inputs], slope)
        us, errors = {}, {}
        for by in ("warpsmith", "inductor"):
            own = copy.deepcopy(module)
            fast = _compiled(own, by)
            given = slope.to(fast(*inputs).dtype)
            errors[by] = _error(_step(fast, own, inputs, given), wanted)
            with taking_turns():
                us[by] = _kernels_us(partial(_step, fast, own, inputs, given))
    except Exception as failure:
        return _failed(name, True, shapes, failure)
    return Written(name=name, trained=True, shapes=shapes, us=us, errors=errors)


def _step(function: Any, module: Any, inputs: list[Any], slope: Any) -> list[Any]:
    """The result, and gradients of inputs and weights."""
    given = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    module.zero_grad()
    result = function(*given)
    result.backward(slope)
    return [
        result.detach(),
        *(t.grad for t in (*given, *module.parameters()) if t.grad is not None),
    ]


def _kernels_us(step: Run) -> float:
    """For which kernels of a step run, each step behind a flush of the L2."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    flush = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(STEPS):
            flush.random_()
            step()
        torch.cuda.synchronize()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in seen.events()
        if event.device_time and "random" not in event.name.lower()
    )
    return busy(spans) / STEPS


def busy(spans: Iterable[tuple[float, float]]) -> float:
    """How long some of them last: a kernel that starts early, behind another one, waits for it."""
    total = last = 0.0
    for start, end in spans:
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def _failed(
    name: str, trained: bool, shapes: tuple[tuple[int, ...], ...], failure: Exception
) -> Written:
    said = f"{type(failure).__name__}: {str(failure).strip().splitlines()[0]}"[:200]
    return Written(name=name, trained=trained, shapes=shapes, us={}, errors={}, failure=said)


# --- the report --------------------------------------------------------------------------------


def report(rows: list[Written]) -> Iterator[str]:
    for what in (False, True):
        ratios = sorted(r.ratio for r in rows if r.trained == what and not r.failure)
        if ratios:
            tenth = quantiles(ratios, n=10, method="inclusive")[0] if len(ratios) > 1 else ratios[0]
            yield (
                f"{'trained modules' if what else 'programs'}: {len(ratios)}, "
                f"{geometric_mean(ratios):.3f} x Inductor, tenth {tenth:.2f}, "
                f"least {ratios[0]:.2f}, behind by 3 % at {sum(r < 0.97 for r in ratios)}"
            )


def table(rows: list[Written]) -> Iterator[str]:
    """Lines of Markdown, those first where we lose most."""
    yield "| program | sizes | warpsmith, µs | Inductor, µs | ratio |"
    yield "|---|---|---|---|---|"
    for row in sorted((row for row in rows if not row.failure), key=lambda row: row.ratio):
        sizes = ", ".join("x".join(map(str, shape)) for shape in row.shapes)
        name = f"`{row.name}`{', trained' if row.trained else ''}"
        ours, theirs = row.us["warpsmith"], row.us["inductor"]
        yield f"| {name} | {sizes} | {ours:.1f} | {theirs:.1f} | {row.ratio:.2f} |"


def _show(paths: list[Path]) -> int:
    kept = [json.loads(path.read_text()) for path in paths]
    rows = [Written(**row) for each in kept for row in each["rows"]]
    print(f"{kept[0]['gpu']}, seed {kept[0]['seed']}, {kept[0]['date']}")
    print(*report(rows), *table(rows), sep="\n")
    return 0


def main() -> int:
    from bench.programs import PROGRAMS
    from bench.trained import MODULES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="says the sizes")
    parser.add_argument("--minutes", type=float, default=5.0, help="of compiling and timing")
    parser.add_argument("--json", type=Path, help="keep the rows in this file")
    parser.add_argument("--part", default="0/1", help="every n-th of them, from one on: `2/7`")
    parser.add_argument("--show", type=Path, nargs="+", help="print the rows of these files")
    options = parser.parse_args()
    if options.show:
        return _show(options.show)
    setting = setting_here("none", quick=True)
    if setting.gpu == "none":
        raise DeviceError("programs are timed on a GPU, and there is none", code="WS0345")
    first, each = map(int, options.part.split("/"))
    cases = [(forward, name) for name in PROGRAMS] + [(both_ways, name) for name in MODULES]
    rows: list[Written] = []
    end = time.monotonic() + 60 * options.minutes
    for timed, name in cases[first::each]:
        if time.monotonic() > end:
            break
        rows.append(timed(name, options.seed))
        print(rows[-1], flush=True)
        if options.json:
            told = {"gpu": setting.gpu, "date": setting.date, "versions": setting.versions}
            whole = {**told, "seed": options.seed, "rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(whole))
    print(f"{setting.gpu}, seed {options.seed}", *report(rows), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
