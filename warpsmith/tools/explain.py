"""The command `explain`: what would be compiled for arguments of given shapes."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import warpsmith
from warpsmith.errors import ArgumentError, InternalError, WarpsmithError
from warpsmith.frontends.lowered import Compiled, Lowered
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.tools.texts import kernel_source

_SPEC = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\]")


def explain_function(
    place: str,
    arguments: Sequence[str],
    *,
    with_cuda: bool,
    with_sync: bool = False,
    target: str | None = None,
) -> str:
    """The choices for a function, as text.

    Args:
        place: `FILE.py:FUNCTION`; a plain function counts as one that `fuse` decorates.
        arguments: one a parameter, see `parse_argument`.
        with_cuda: append the kernels.
        with_sync: list what orders accesses of memory, with the lines of the kernels.
        target: name of the model to compile for; if absent, the knob `target` decides.

    Raises WarpsmithError for a function or an argument that cannot be used, with the line of the
    user's file where one is to blame, and KnobError for a target that is not known.
    """
    compiled = _compiled(place, arguments, target)
    parts = [compiled.explain(sync=with_sync).rstrip("\n")]
    if with_cuda:
        parts += [kernel_source(str(kernel.asm["cuda"])) for kernel in compiled.kernels]
    return "\n\n".join(parts)


def write_page(path: Path, place: str, arguments: Sequence[str], *, target: str | None) -> str:
    """Write the page of a function; returns what is to be said of it. Raises as above, and
    ArgumentError where the file cannot be written.
    """
    title = f"{place.rpartition(':')[2]}({', '.join(arguments)})"
    text = _compiled(place, arguments, target).explain_html(title)
    try:
        path.write_text(text, "utf-8")
    except OSError as failure:
        raise ArgumentError(
            f"the page {path} cannot be written: {failure.strerror or failure}",
            code="WS0354",
            remedy="name a file in a directory that can be written",
        ) from None
    return f"wrote {path}: {len(text):,} bytes"


def _compiled(place: str, arguments: Sequence[str], target: str | None) -> Compiled:
    values = [parse_argument(text) for text in arguments]
    function = load_function(place)
    fused: Any = function if hasattr(function, "lower") else warpsmith.fuse(function)
    with _blamed(Path(place.rpartition(":")[0])):
        lowered: Lowered = fused.lower(*values)
    return lowered.compile(target=target)


def parse_argument(text: str) -> Any:
    """`bfloat16[8192,4096]` as an array of undefined elements; `3` and `0.5` as numbers."""
    spec = _SPEC.fullmatch(text.strip())
    if spec is None:
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
    if spec is None or spec["dtype"] not in NUMPY_DTYPES:
        raise ArgumentError(
            f"{text!r} is neither an array nor a number",
            code="WS0350",
            remedy=f"write a dtype and a shape, bfloat16[8192,4096], with one of "
            f"{', '.join(NUMPY_DTYPES)}",
        )
    extents = [part for part in re.split(r"[,\s]+", spec["shape"]) if part]
    return np.empty([int(extent) for extent in extents], NUMPY_DTYPES[spec["dtype"]])


def load_function(place: str) -> Any:
    """The object that `FILE.py:FUNCTION` names; the file is run."""
    file, colon, name = place.rpartition(":")
    path = Path(file)
    if not colon or not name or path.suffix != ".py":
        raise ArgumentError(
            f"{place!r} names no function", code="WS0351", remedy="write FILE.py:FUNCTION"
        )
    if not path.is_file():
        raise ArgumentError(f"there is no file {file}", code="WS0352")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    try:
        with _blamed(path):
            module_spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent.resolve()))
    found = getattr(module, name, None)
    if not callable(found):
        callables = sorted(n for n, v in vars(module).items() if callable(v) and n[0] != "_")
        raise ArgumentError(
            f"{file} has no function {name!r}",
            code="WS0353",
            remedy=f"it has {', '.join(callables) or 'none'}",
        )
    return found


@contextmanager
def _blamed(path: Path) -> Iterator[None]:
    """What the user's file raises inside names its line; what warpsmith itself does stays as it is.

    Raises:
        WarpsmithError: WS0140, in place of any other exception of the file, or of what it calls.
    """
    try:
        yield
    except (WarpsmithError, InternalError):
        raise
    except Exception as failure:
        place = _place(failure, path)
        if not place:
            raise
        raise WarpsmithError(
            f"{place} raised {type(failure).__name__}: {failure}", code="WS0140"
        ) from failure


def _place(failure: BaseException, path: Path) -> str:
    """`file:line`, the last line of the user's file that was running; empty where none was, or
    warpsmith itself failed in it.
    """
    if isinstance(failure, SyntaxError):
        return f"{path}:{failure.lineno}"
    frames = traceback.extract_tb(failure.__traceback__)
    if frames and Path(frames[-1].filename).is_relative_to(Path(warpsmith.__file__).parent):
        return ""
    lines = [f.lineno for f in frames if Path(f.filename).resolve() == path.resolve()]
    return f"{path}:{lines[-1]}" if lines else ""
