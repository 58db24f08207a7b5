"""A simulator of sm_90a PTX that runs any kernel on the CPU and checks it. The public names.

Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.sim.door import run
    from warpsmith.sim.report import Finding, Report, Site
    from warpsmith.sim.simulate import Expectation
    from warpsmith.sim.spec import load_spec

__all__ = ["Expectation", "Finding", "Report", "Site", "load_spec", "run"]

_HOMES = {
    "Expectation": "simulate",
    "Finding": "report",
    "Report": "report",
    "Site": "report",
    "load_spec": "spec",
    "run": "door",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'warpsmith.sim' has no attribute {name!r}")
    return getattr(import_module(f"warpsmith.sim.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__]
