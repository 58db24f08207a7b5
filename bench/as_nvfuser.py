"""A plugin of pytest that runs nvFuser's own tests on warpsmith; `their_tests` starts it.

`import nvfuser_direct` finds warpsmith. Where no GPU is, tensors that are asked for on "cuda" are
of the CPU, and torch says of it what a Hopper GPU says; calls of few elements run on the simulator,
others on the NumPy reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import warpsmith
from warpsmith import knobs
from warpsmith.engine.executable import Executable
from warpsmith.runtime.driver import device_count

RESULTS = "--their-results"
"""The option that names the file of outcomes, a line of JSON each."""

SIMULATED = 3000
"""Elements of a call's inputs up to which it runs on the simulator, where no GPU is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(RESULTS)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Install warpsmith, and stand in for a GPU, before any of their files is imported."""
    warpsmith.install_as_nvfuser()
    if device_count() == 0:
        stand_in()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Outcomes(config.getoption(RESULTS)))
    config.addinivalue_line("markers", "mpi: for several GPUs")


@pytest.fixture(autouse=True)
def on_this_machine() -> Iterator[None]:
    """Tensors of the CPU for those of a GPU, for one test, where no GPU is."""
    if device_count():
        yield
        return
    with _OnHost():
        yield


class _Outcomes:
    """Writes what became of each test; one line is of its setup or its end, too, if that failed."""

    def __init__(self, path: str) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._write(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is an outcome, and so is one that skips itself."""
        if not report.passed:
            self._write(report)

    def _write(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        said = report.longrepr
        if isinstance(said, tuple):
            reason = said[2].removeprefix("Skipped: ")
        else:
            crash = getattr(said, "reprcrash", None)
            lines = str(said or "").strip().splitlines() or [""]
            reason = str(crash.message) if crash else lines[-1].removeprefix("E").strip()
        line = {"test": report.nodeid, "outcome": report.outcome, "reason": reason[:400]}
        with open(self._path, "a") as file:
            file.write(f"{json.dumps(line)}\n")


def stand_in() -> None:
    """Have torch answer as if one Hopper GPU were there."""
    properties = SimpleNamespace(
        name="NVIDIA H200", major=9, minor=0, total_memory=139 << 30, multi_processor_count=132
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": (9, 0),
        "get_device_properties": properties,
        "get_device_name": properties.name,
        "synchronize": None,
        "empty_cache": None,
        "manual_seed_all": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _saying(answer))
    run = Executable.run

    def by_size(self: Executable, inputs: Sequence[object]) -> list[Any]:
        elements = sum(value.numel() for value in inputs if isinstance(value, torch.Tensor))
        with knobs.scope(device="sim" if elements <= SIMULATED else "reference"):
            return run(self, inputs)

    Executable.run = by_size  # type: ignore[method-assign]


def _saying(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


class _OnHost(TorchFunctionMode):  # type: ignore[misc]  # torch is not analysed
    """Calls of torch that name a GPU are made for the CPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if function is torch.Tensor.cuda:
            return args[0]
        named = {name: _moved(value) for name, value in (kwargs or {}).items()}
        return function(*map(_moved, args), **named)


def _moved(value: Any) -> Any:
    is_place = isinstance(value, str | torch.device) and str(value).split(":")[0] == "cuda"
    return torch.device("cpu") if is_place else value
