"""Kernels in their last form, with text and proof, kept on disk between processes.

An entry's name is the digest of all that a kernel follows from: warpsmith's own files, the part of
the program that it computes, its schedule, target and request. What cannot be read is a miss.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import warpsmith
from warpsmith.errors import InternalError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.knobs import Knobs
from warpsmith.native import is_checkout
from warpsmith.planner.alike import Label, Shape
from warpsmith.planner.segment import Segment
from warpsmith.runtime.cache import Entries
from warpsmith.runtime.nvrtc import nvrtc_version
from warpsmith.targets.known import KNOWN
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Sizes = tuple[tuple[str, int], ...]
"""Values of a launch's scalars by name, in order."""


def sizes_of(values: Mapping[str, int]) -> Sizes:
    return tuple(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class Emitted:
    """A kernel that is ready for NVRTC.

    Attributes:
        kernel: its last form, the registers of roles settled.
        cuda: its text.
        budgets: what was decided on the registers of roles, and why; empty without roles.
        proved: the sizes at which it was shown that it neither hangs nor races; None where nobody
            asked.
        shortened: as `prove` gives, for these sizes.
    """

    kernel: Kernel
    cuda: str
    budgets: str
    proved: Sizes | None
    shortened: int


_Kept = TypeVar("_Kept")


class EmittedCache:
    """The emitted kernels under one directory; `limit_bytes` as `Entries` takes it."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._entries = Entries(directory, "kernel", b"warpsmith kernel 3\n", limit_bytes)

    def load(self, name: str) -> Emitted | None:
        """What was stored, or None where nothing is that can be read."""
        return load(self._entries, name, Emitted)

    def store(self, name: str, emitted: Emitted) -> None:
        """Keep a kernel, as far as the directory can be written."""
        store(self._entries, name, emitted)


def load(entries: Entries, name: str, kind: type[_Kept]) -> _Kept | None:
    """A frozen value of this kind that was stored, or None where nothing is that can be read."""
    body = entries.load(name)
    if body is None:
        return None
    try:
        found = _Reader(io.BytesIO(body)).load()
    except Exception:  # whatever is wrong with it, it can be made again
        return None
    return found if isinstance(found, kind) else None


def store(entries: Entries, name: str, value: object) -> None:
    """Keep a frozen value, as far as the directory can be written."""
    written = io.BytesIO()
    with suppress(RecursionError):  # of expressions deeper than `pickle` goes
        _Writer(written, protocol=5).dump(value)
        entries.store(name, written.getvalue())


class _Writer(pickle.Pickler):
    """Writes frozen values by their fields, which takes half as long as they would themselves."""

    def reducer_override(self, value: object, /) -> Any:
        kind = type(value)
        if not is_dataclass(kind):
            return NotImplemented
        return _made, (kind, *[getattr(value, name) for name in _names(kind)])


def _made(kind: type, *own: object) -> object:
    """A frozen value of these fields."""
    value: object = object.__new__(kind)
    for name, each in zip(_names(kind), own, strict=True):
        object.__setattr__(value, name, each)
    return value


_FORMS = tuple(f"warpsmith.{room}." for room in ("ir", "kernel", "layouts"))
"""Where classes are that kernels consist of."""


class _Reader(pickle.Unpickler):
    """Makes values of warpsmith's own classes, and of no others."""

    def find_class(self, module: str, name: str, /) -> Any:
        if module.startswith(_FORMS):
            import_module(module)  # what makes kernels, which imports it too, may not be there
        if (module, name) == (_made.__module__, _made.__name__):
            return _made
        found = getattr(sys.modules.get(module), name, None)
        if module.startswith("warpsmith.") and isinstance(found, type):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no class of warpsmith")


@lru_cache(maxsize=64)
def _cache(directory: Path, limit_mib: int) -> EmittedCache:
    return EmittedCache(directory, limit_mib << 20)


def emitted_cache(knobs: Knobs) -> EmittedCache | None:
    """Where kernels are kept; None where knobs ask for what happens on the way to one."""
    looks_on = knobs.dump or knobs.override_dir is not None or knobs.wait_limit is not None
    if looks_on or not keeps_own(knobs) or files(_NO_PART) is None:
        return None
    return _cache(knobs.cache_dir, knobs.cache_mib)


def keeps_own(knobs: Knobs) -> bool:
    """Whether knobs let what follows from warpsmith's own files be kept between processes."""
    return not is_checkout() if knobs.keep_emitted == "auto" else knobs.keep_emitted


def name_of(target: Target, *causes: object) -> str:
    """The name of a kernel by all that it follows from; warpsmith itself and NVRTC besides."""
    parts = (
        files(_NO_PART),
        sys.implementation.cache_tag,
        nvrtc_version(),
        _target(target),
        causes,
    )
    return _digest(text_of(parts, {}))


@lru_cache(maxsize=16)
def _target(target: Target) -> str:
    """Models that warpsmith knows are told by its files, their chips by what differs of these."""
    own = target.sm_count, target.clusters
    for model in KNOWN:
        if target == replace(model, sm_count=own[0], clusters=own[1]):
            return text_of((model.name, *own), {})
    return text_of(target, {})


def cause(segment: Segment) -> str:
    """What is to be known of a part of a program, names included."""
    return cause_of(segment.shape, segment.fusion)


def cause_of(shape: Shape, fusion: Fusion) -> str:
    """The same of a shape and what has it."""
    return _digest(text_of((shape.key, shape.tensors, shape.symbols, fusion.numbers), {}))


def text_of(value: object, known: dict[Label, str]) -> str:
    """A frozen value as text; different values have different texts, in every process.

    Args:
        known: of labels met so far, which are many times the same; those that are met are added.

    Raises:
        InternalError: for a value that is not frozen.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    if kind is tuple:
        return f"({','.join([text_of(each, known) for each in value])})"  # type: ignore[attr-defined]
    if isinstance(value, Label):
        text = known.get(value)
        if text is None:
            text = known[value] = _digest(text_of(value.value, known))
        return text
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, Expr):
        make, given, *rest = value.__reduce__()
        return f"{make.__name__}{text_of((*given, *rest), known)}"
    if is_dataclass(value):
        own = tuple([getattr(value, name) for name in _names(kind)])  # type: ignore[arg-type]  # a class has a hash
        return f"{kind.__qualname__}{text_of(own, known)}"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted([text_of(each, known) for each in value]))}}}"
    if isinstance(value, Mapping):  # last: of each new class it asks all that are mappings
        return f"map{text_of(frozenset(value.items()), known)}"
    raise InternalError(f"{kind.__qualname__} is not frozen: {value!r}")


@lru_cache(maxsize=256)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_NO_PART = frozenset(("__pycache__", "frontends", "nn", "sim", "tools", "torch_backend"))
"""Folders of warpsmith that no kernel follows from."""


@lru_cache(maxsize=4)
def files(left_out: frozenset[str] = frozenset(("__pycache__", "sim", "tools"))) -> str | None:
    """What warpsmith's files are, by sizes and times of change; None where it has none.

    Args:
        left_out: folders that do not count.
    """
    try:
        return _digest("\n".join(sorted(_lines(Path(warpsmith.__file__).parent, left_out))))
    except OSError:
        return None


def _lines(folder: Path | str, left_out: frozenset[str]) -> Iterator[str]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir():
                if entry.name not in left_out:
                    yield from _lines(entry.path, left_out)
            else:
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
