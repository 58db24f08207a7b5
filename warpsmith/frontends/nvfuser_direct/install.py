"""The name under which Python finds the module."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, TracebackType

NAMES = ("nvfuser_direct", "nvfuser")
"""The second is the older module, from which programs still take what both have."""

_HOME = "warpsmith.frontends.nvfuser_direct"
_PARTS = (
    "idm",
    "multidevice",
    "nvf_cutlass",
    "nvfuser_direct_version",
    "ops",
    "pytorch_utils",
    "schedule",
)


class Installed:
    """An installation, which `undo`, or the end of a `with`, takes back."""

    def __init__(self) -> None:
        parts = ("", *(f".{part}" for part in _PARTS))
        homes = {part: import_module(f"{_HOME}{part}") for part in parts}
        found = [name for name in sys.modules if name.partition(".")[0] in NAMES]
        self._before: dict[str, ModuleType] = {name: sys.modules.pop(name) for name in found}
        self._installed = {f"{name}{part}": homes[part] for name in NAMES for part in parts}
        sys.modules.update(self._installed)

    def undo(self) -> None:
        """What `import nvfuser_direct` found before, it finds again."""
        for name, module in self._installed.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
        sys.modules.update(self._before)
        self._before = {}

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.undo()


def install_as_nvfuser() -> Installed:
    """Have `import nvfuser_direct` find warpsmith.

    Example:
        warpsmith.install_as_nvfuser()
        from nvfuser_direct import DataType, FusionDefinition

    Modules that imported nvFuser before keep it.
    """
    return Installed()
