"""What one call costs the host: cached, asynchronous, many in a row on tiny tensors.

`python -m bench.host` prints it; `warpsmith bench host` keeps it beside other measurements.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.host_modules import MODULES, call_of
from bench.measure import Setting, one_line, setting_here, significant
from bench.peers import chosen, installed
from bench.row import Row
from warpsmith.testing import relative_error

ELEMENTS = 1024
"""So few that the GPU is always done before the host: the host alone is measured."""

_Call = Callable[[], Any]

_CALLS = 300
_BATCHES = 41


@dataclass(frozen=True, slots=True)
class Problem:
    """Work that several implementations do on the same tensors.

    Attributes:
        expected: the results in float64.
        most: relative error of a right result.
        builders: by implementation; each makes a call.
    """

    name: str
    shape: tuple[int, ...]
    expected: tuple[Any, ...]
    most: float
    builders: dict[str, Callable[[], _Call]]


def measure_host(setting: Setting) -> list[Row]:
    """Median microseconds of one call of each problem, for each implementation."""
    return [row for problem in problems(setting) for row in _measured(setting, problem)]


def problems(setting: Setting) -> list[Problem]:
    """Sums of two tensors; six tensors and two results; modules, without and with gradients."""
    import torch

    given = [torch.randn(ELEMENTS, device="cuda") for _ in range(6)]
    named = chosen(setting.peers)
    add = {
        "warpsmith": lambda: _fused(_add, given[:2]),
        "warpsmith_python": lambda: _fused(_add, given[:2], python=True),
        "warpsmith_execute": lambda: _definition(_ours(), given[:2], _define_add),
    }
    six = {
        "warpsmith": lambda: _fused(_six, given),
        "warpsmith_python": lambda: _fused(_six, given, python=True),
        "warpsmith_execute": lambda: _definition(_ours(), given, _define_six),
    }
    if "torch" in named:
        add["torch"] = lambda: lambda: torch.add(given[0], given[1])
    if "torch_compile" in named:
        add["torch_compile"] = lambda: _torch_compiled(_add, given[:2])
        six["torch_compile"] = lambda: _torch_compiled(_six, given)
    if "nvfuser" in named and installed("nvfuser"):
        add["nvfuser"] = lambda: _definition(_nvfuser(), given[:2], _define_add)
        six["nvfuser"] = lambda: _definition(_nvfuser(), given, _define_six)
    wide = [each.double() for each in given]
    return [
        Problem("add", (ELEMENTS,), (_add(*wide[:2]),), 1e-6, add),
        Problem("six", (ELEMENTS,), _six(*wide), 1e-6, six),
        *_modules(named),
    ]


def _measured(setting: Setting, problem: Problem) -> list[Row]:
    ready: dict[str, _Call] = {}
    errors: dict[str, float] = {}
    rows: list[Row] = []
    for name, build in problem.builders.items():
        try:
            call = build()
            for _ in range(2):  # the second goes the short way
                result = call()
                pairs = zip(_results(result), problem.expected, strict=True)
                errors[name] = max(relative_error(got, want) for got, want in pairs)
                if not errors[name] <= problem.most:
                    raise ValueError(f"wrong result, relative error {errors[name]:.3g}")
            ready[name] = call
        except Exception as failure:
            rows.append(_row(setting, problem, name, error=one_line(failure)))
    for name, us in _medians(ready).items():
        rows.append(_row(setting, problem, name, us=us, rel_err=errors[name]))
    return rows


def _medians(calls: dict[str, _Call]) -> dict[str, float]:
    """Microseconds of one call, the batches of all taking turns."""
    import torch

    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_BATCHES):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            spent[name].append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return {n: 1e6 * sorted(times)[_BATCHES // 2] / _CALLS for n, times in spent.items()}


def _add(x: Any, y: Any) -> Any:
    return x + y


def _six(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    total = a + b + c
    return total, total * d + e * f


def _fused(function: Callable[..., Any], given: Sequence[Any], *, python: bool = False) -> _Call:
    import warpsmith
    from warpsmith.runtime.launcher import Shortcut

    made = warpsmith.fuse(function)
    if python:
        made(*given)  # what runs it is known from here on, and nothing else is kept
        made.shortcut = Shortcut()
    elif len(given) == 2:
        a, b = given
        return lambda: made(a, b)
    return lambda: made(*given)


def _ours() -> Any:
    import warpsmith

    return warpsmith.FusionDefinition()


def _nvfuser() -> Any:
    return importlib.import_module("nvfuser_direct").FusionDefinition()


def _definition(definition: Any, given: Sequence[Any], define: Callable[..., None]) -> _Call:
    with definition as fd:
        define(fd, *(fd.from_pytorch(each) for each in given))
    inputs = list(given)
    return lambda: definition.execute(inputs)


def _define_add(fd: Any, x: Any, y: Any) -> None:
    fd.add_output(fd.ops.add(x, y))


def _define_six(fd: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> None:
    total = fd.ops.add(fd.ops.add(a, b), c)
    fd.add_output(total)
    fd.add_output(fd.ops.add(fd.ops.mul(total, d), fd.ops.mul(e, f)))


def _torch_compiled(function: Callable[..., Any], given: Sequence[Any]) -> _Call:
    import torch

    torch._dynamo.reset()
    made = torch.compile(function, dynamic=False)
    return lambda: made(*given)


def _modules(named: Sequence[str]) -> list[Problem]:
    """Each module, forward and with gradients; ours, and torch's."""
    import torch

    from warpsmith import nn

    made = []
    for (name, module), backward in itertools.product(MODULES.items(), (False, True)):
        called = functools.partial(call_of, module, backward=backward, device="cuda")
        builders: dict[str, Callable[[], _Call]] = {"warpsmith": functools.partial(called, nn)}
        if "torch" in named:
            builders["torch"] = functools.partial(called, torch.nn)
        expected = _results(called(torch.nn, wide=True)())
        title = f"{name}_trained" if backward else name
        made.append(Problem(title, module.values[0], expected, 1e-5, builders))
    return made


def _results(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, list | tuple) else (found,)


def _row(
    setting: Setting,
    problem: Problem,
    impl: str,
    *,
    us: float | None = None,
    rel_err: float | None = None,
    error: str | None = None,
) -> Row:
    return Row(
        suite="host",
        problem=problem.name,
        shape=problem.shape,
        dtype="float",
        impl=impl,
        us=significant(us, 4),
        rel_err=significant(rel_err, 3),
        gpu=setting.gpu,
        versions=setting.versions,
        date=setting.date,
        error=error,
    )


def main() -> None:
    """Print a line for each problem and implementation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default="auto", help="as for `warpsmith bench`")
    rows = measure_host(setting_here(parser.parse_args().peers, quick=False))
    for row in rows:
        what = f"error: {row.error}" if row.us is None else f"{row.us:8.2f} us"
        print(f"{row.problem:18}{row.impl:20}{what}  (relative error {row.rel_err})")


if __name__ == "__main__":
    main()
