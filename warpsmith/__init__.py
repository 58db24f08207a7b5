"""A compiler that fuses tensor programs into NVIDIA GPU kernels.

The public names; each is imported when it is first used, so that `import warpsmith` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith import knobs, ops, testing
    from warpsmith import nn as nn
    from warpsmith.errors import (
        ArgumentError,
        CompileError,
        DefinitionError,
        DeviceError,
        InternalError,
        KnobError,
        ScheduleError,
        SchedulerRefusal,
        SimulationError,
        WarpsmithError,
    )
    from warpsmith.frontends.definition import FusionDefinition
    from warpsmith.frontends.fuse import fuse
    from warpsmith.frontends.nvfuser_direct.install import install_as_nvfuser
    from warpsmith.frontends.verify import verify
    from warpsmith.ir.copies import CacheOp, LoadStoreOpType
    from warpsmith.ir.domains import MemoryType, ParallelType
    from warpsmith.ir.dtypes import DataType
    from warpsmith.ops.rules import CarryRule
    from warpsmith.runtime.kept import cache_info
    from warpsmith.schedule.tile_order import TileOrder
    from warpsmith.torch_backend.report import report as report

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "CacheOp",
    "CarryRule",
    "CompileError",
    "DataType",
    "DefinitionError",
    "DeviceError",
    "FusionDefinition",
    "InternalError",
    "KnobError",
    "LoadStoreOpType",
    "MemoryType",
    "ParallelType",
    "ScheduleError",
    "SchedulerRefusal",
    "SimulationError",
    "TileOrder",
    "WarpsmithError",
    "cache_info",
    "fuse",
    "install_as_nvfuser",
    "knobs",
    "ops",
    "testing",
    "verify",
]

_MODULES = ("knobs", "nn", "ops", "testing")
"""`nn` needs torch, so that a star import leaves it out, and `report`."""
_HOMES = {
    "CacheOp": "warpsmith.ir.copies",
    "CarryRule": "warpsmith.ops.rules",
    "DataType": "warpsmith.ir.dtypes",
    "FusionDefinition": "warpsmith.frontends.definition",
    "LoadStoreOpType": "warpsmith.ir.copies",
    "MemoryType": "warpsmith.ir.domains",
    "ParallelType": "warpsmith.ir.domains",
    "TileOrder": "warpsmith.schedule.tile_order",
    "cache_info": "warpsmith.runtime.kept",
    "fuse": "warpsmith.frontends.fuse",
    "install_as_nvfuser": "warpsmith.frontends.nvfuser_direct.install",
    "report": "warpsmith.torch_backend.report",
    "verify": "warpsmith.frontends.verify",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"warpsmith.{name}")
    if name not in __all__ and name not in _HOMES:
        raise AttributeError(f"module 'warpsmith' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "warpsmith.errors")), name)


def __dir__() -> list[str]:
    return [*__all__]
