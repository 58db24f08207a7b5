"""What one call costs the host: cached, asynchronous, many in a row on a tiny tensor."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from bench.measure import Setting, one_line, significant
from bench.peers import chosen, installed
from bench.row import Row
from warpsmith.testing import relative_error

ELEMENTS = 1024
"""So few that the GPU is always done before the host: the host alone is measured."""

_Builder = Callable[[Any, Any], Callable[[], Any]]

_CALLS = 1000
_BATCHES = 21


def measure_host(setting: Setting) -> list[Row]:
    """Median microseconds of one call for each way of adding two tensors."""
    import torch

    a, b = (torch.randn(ELEMENTS, device="cuda") for _ in range(2))
    expected = a.double() + b.double()
    ready: dict[str, Callable[[], Any]] = {}
    errors: dict[str, float] = {}
    rows: list[Row] = []
    for name, build in _builders(setting).items():
        try:
            call = build(a, b)
            result = call()
            outcome = result[0] if isinstance(result, list | tuple) else result
            errors[name] = relative_error(outcome, expected)
            if not errors[name] <= 1e-6:
                raise ValueError(f"wrong result, relative error {errors[name]:.3g}")
            ready[name] = call
        except Exception as failure:
            rows.append(_row(setting, name, error=one_line(failure)))
    for name, us in _medians(ready).items():
        rows.append(_row(setting, name, us=us, rel_err=errors[name]))
    return rows


def _builders(setting: Setting) -> dict[str, _Builder]:
    able = {"torch": ("torch_add", _eager), "torch_compile": ("torch_compile_add", _torch_compiled)}
    if installed("nvfuser"):
        able["nvfuser"] = ("nvfuser_execute", _nvfuser)
    named = chosen(setting.peers)
    return {
        "warpsmith": _fused,
        "warpsmith_execute": _executed,
        **dict(entry for name, entry in able.items() if name in named),
    }


def _medians(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
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


def _fused(a: Any, b: Any) -> Callable[[], Any]:
    import warpsmith

    add = warpsmith.fuse(lambda x, y: x + y)
    return lambda: add(a, b)


def _executed(a: Any, b: Any) -> Callable[[], Any]:
    import warpsmith

    return _definition_call(warpsmith.FusionDefinition(), a, b)


def _nvfuser(a: Any, b: Any) -> Callable[[], Any]:
    nvfuser_direct = importlib.import_module("nvfuser_direct")
    return _definition_call(nvfuser_direct.FusionDefinition(), a, b)


def _definition_call(definition: Any, a: Any, b: Any) -> Callable[[], Any]:
    with definition as fd:
        fd.add_output(fd.ops.add(fd.from_pytorch(a), fd.from_pytorch(b)))
    inputs = [a, b]
    return lambda: definition.execute(inputs)


def _eager(a: Any, b: Any) -> Callable[[], Any]:
    import torch

    return lambda: torch.add(a, b)


def _torch_compiled(a: Any, b: Any) -> Callable[[], Any]:
    import torch

    torch._dynamo.reset()
    add = torch.compile(lambda x, y: x + y, dynamic=False)
    return lambda: add(a, b)


def _row(
    setting: Setting,
    impl: str,
    *,
    us: float | None = None,
    rel_err: float | None = None,
    error: str | None = None,
) -> Row:
    return Row(
        suite="host",
        problem="add",
        shape=(ELEMENTS,),
        dtype="float",
        impl=impl,
        us=significant(us, 4),
        rel_err=significant(rel_err, 3),
        gpu=setting.gpu,
        versions=setting.versions,
        date=setting.date,
        error=error,
    )
