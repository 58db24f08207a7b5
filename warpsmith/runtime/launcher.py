"""Prepared calls in C: the compiled launcher, and what it needs of torch and of the driver.

The package's own build makes it (`_launcher`, one for all versions of Python); where it is missing,
a C compiler makes it on first use. Where neither is there, or torch has no exchange API of DLPack
(before 2.10), calls go through Python and return the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
import sysconfig
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, Final

from warpsmith import knobs, native
from warpsmith.runtime.tensor_words import places_of_words

_NAME: Final = "warpsmith.runtime._launcher"
_SOURCES: Final = Path(__file__).parent / "native"
_FLAGS: Final = ("-std=c11", "-O2", "-fPIC")
_LINES_FROM: Final = 8
"""Calls of a function that are remembered to draw lines from."""

_FUNCTIONS: Final = (
    "cuLaunchKernelEx",
    "cuStreamIsCapturing",
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuTensorMapEncodeTiled",
)


@cache
def module() -> Any:
    """The extension module; None where there is none and none can be made.

    In a checkout the one of the package's build may be older than its sources, and is not used.
    """
    if not native.is_checkout():
        with contextlib.suppress(ImportError):
            return importlib.import_module(_NAME)
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists() or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    flags = (*_FLAGS, f"-I{headers}")
    sources = sorted(_SOURCES.glob("*.c"))
    digest = native.digest_of(sorted(_SOURCES.glob("*.[ch]")), *flags)
    path = knobs.current().cache_dir / f"launcher-{digest}-sealed.abi3.so"
    what = "the launcher"
    try:
        return native.loaded(
            path,
            what,
            lambda folder: native.compile_library(sources, folder / path.name, what, flags),
            _imported,
        )
    except (native.NotCompiled, ImportError):
        return None


@cache
def host() -> Any:
    """What torch and the driver of this process offer to the launcher; None without it."""
    torch = sys.modules.get("torch")
    exchange = getattr(getattr(torch, "Tensor", None), "__dlpack_c_exchange_api__", None)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        functions = tuple(addresses(driver, _FUNCTIONS))
    except (OSError, AttributeError):
        return None
    launcher = module() if torch is not None and exchange is not None else None
    if launcher is None:
        return None
    assert torch is not None
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    here = getattr(guards, "_empty_strided_cuda", None)  # half the time of torch.empty_strided
    return made_host(launcher, torch, exchange, here, functions)


class Shortcut:
    """The way of one function's calls past Python, for those that have a recipe.

    Attributes:
        launch: of a sequence of arguments: the results, or NotImplemented where Python has to run
            the call.
    """

    __slots__ = ("_drawn", "_table", "launch")

    def __init__(self) -> None:
        self._table: Any = None
        self._drawn: list[tuple[Any, Any]] = []
        self.launch: Callable[[Sequence[Any]], Any] = _not_implemented

    def keep(
        self,
        given: tuple[Any, ...],
        run: object,
        places: Sequence[int],
        form: int,
        shapes: tuple[tuple[int, ...], ...] | None = None,
        note: tuple[Any, ...] = (),
    ) -> bool:
        """Take calls of such arguments from here on, where what runs them has a recipe.

        Args:
            places: which argument each input is.
            form: of the results: a tuple (0), the only one (1), a list (2).
            shapes: of the results, without gaps; None for their own.
            note: with such shapes, what `recording` reads.
        """
        recipe = getattr(run, "recipe", None)
        if recipe is None:
            return False
        if self._table is None:
            self._table = module().Table(host())
        shaped = () if shapes is None else (shapes, note)
        kept = self._table.keep(given, recipe, tuple(places), form, *shaped)
        self.launch = self._table.launch
        if shapes is None:
            self._draw(given, run)
        return bool(kept)

    def _draw(self, given: tuple[Any, ...], run: Any) -> None:
        """Take calls between these arguments and earlier ones, too, where they are on a line."""
        if run.sketch is None:
            return
        for known, sketch in self._drawn:
            recipe = known()
            line = None if recipe is None else run.line_from(sketch, recipe)
            if line is not None and self._table.keep_line(recipe, given, line):
                break
        self._drawn = [(weakref.ref(run.recipe), run.sketch), *self._drawn][:_LINES_FROM]


@cache
def called(base: type) -> Any:
    """A subclass whose calls ask `shortcut` in C, before they come to the method `run`: a call of
    a class written in Python takes longer. Objects of `base` may become ones of it.
    """
    return module().called(base)


def _not_implemented(given: Sequence[Any]) -> Any:
    """The launcher of a function that none was made for yet."""
    return NotImplemented


def made_host(
    launcher: Any, torch: Any, exchange: object, here: object, functions: tuple[int, ...]
) -> Any:
    """A `Host` of the launcher.

    Args:
        exchange: the capsule of DLPack's exchange API.
        here: allocates on the current device, from shape, strides and type; or None.
        functions: addresses of what the launcher calls of the driver.
    """
    kinds = (torch.Tensor, torch.nn.Parameter)
    asked = (torch.is_grad_enabled, knobs.SCOPED)
    called = (*functions, *addresses(ctypes.pythonapi, ("PyContextVar_Get",)))
    words = places_of_words(torch)
    return launcher.Host(exchange, kinds, torch.empty_strided, here, *asked, called, words)


def addresses(library: ctypes.CDLL, names: tuple[str, ...]) -> list[int]:
    """Addresses of a library's functions."""
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]


def _imported(path: Path) -> Any:
    loader = ExtensionFileLoader(_NAME, str(path))
    spec = spec_from_loader(_NAME, loader)
    assert spec is not None
    made = module_from_spec(spec)
    loader.exec_module(made)
    return made
