"""The name under which Python finds the module."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAMES = ("nvfuser_direct", "nvfuser")
"""The second is the older module, from which programs still take what both have."""

_HOME = "warpsmith.frontends.nvfuser_direct"


class Installed(MetaPathFinder, Loader):
    """An installation, which `undo`, or the end of a `with`, takes back.

    It finds the modules where a program imports them, and warns, as nvFuser does, of a program that
    imports both.
    """

    def __init__(self) -> None:
        home = import_module(_HOME)
        parts = {f".{name}": getattr(home, name) for name in home.__all__}
        homes = {"": home} | {k: v for k, v in parts.items() if isinstance(v, ModuleType)}
        found = [name for name in sys.modules if name.partition(".")[0] in NAMES]
        self._before: dict[str, ModuleType] = {name: sys.modules.pop(name) for name in found}
        self._homes = {f"{name}{part}": homes[part] for name in NAMES for part in homes}
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of these names comes from; None for others."""
        return ModuleSpec(fullname, self) if fullname in self._homes else None

    def exec_module(self, module: ModuleType) -> None:
        """Let the name stand for the module that there is."""
        name = module.__name__
        for other in NAMES:
            if name in NAMES and name != other and other in sys.modules:
                warnings.warn(
                    f"Be careful! You've imported {name} when the {other} module is already "
                    "imported.",
                    UserWarning,
                    stacklevel=2,
                )
        sys.modules[name] = self._homes[name]

    def undo(self) -> None:
        """What `import nvfuser_direct` found before, it finds again."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name, module in self._homes.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
        sys.modules.update(self._before)
        self._before = {}

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()


def install_as_nvfuser() -> Installed:
    """Have `import nvfuser_direct` find warpsmith.

    Example:
        warpsmith.install_as_nvfuser()
        from nvfuser_direct import DataType, FusionDefinition

    Modules that imported nvFuser before keep it.
    """
    return Installed()
