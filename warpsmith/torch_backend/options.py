"""`mode` and `options` of `torch.compile`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args

import torch

from warpsmith import knobs as knob_module
from warpsmith.errors import ArgumentError
from warpsmith.ir.exprs import Precision
from warpsmith.knobs import Knobs
from warpsmith.values import dataclass

Fallback = Literal["eager", "inductor"]

_MODES: Mapping[str, tuple[bool, bool]] = {
    "default": (False, False),
    "reduce-overhead": (True, False),
    "max-autotune": (True, True),
    "max-autotune-no-cudagraphs": (False, True),
}
"""By mode: whether CUDA graphs are recorded, and whether candidates are timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a model is compiled.

    Attributes:
        knobs: that hold for its kernels: those where it is compiled, with what its options change.
        fallback: what runs the operations that are not taken.
        products: whether matrix products are taken.
        cuda_graphs: whether calls are recorded once, and replayed.
        precision: of products of float32: as torch's `allow_tf32` says.
    """

    knobs: Knobs
    fallback: Fallback = "eager"
    products: bool = True
    cuda_graphs: bool = False
    precision: Precision = "exact"


def read_options(mode: str | None, given: Mapping[str, Any] | None) -> Options:
    """The options of a call of `torch.compile`.

    Raises:
        ArgumentError: WS0371 for a mode, an option, or a value that there is none of.
        KnobError: for a knob that cannot have its value.
    """
    if mode is not None and mode not in _MODES:
        raise _refused("mode", mode, ", ".join(_MODES))
    cuda_graphs, autotune = _MODES[mode or "default"]
    asked = dict(given or {})
    fallback = asked.pop("fallback", "eager")
    if fallback not in get_args(Fallback):
        raise _refused("option fallback", fallback, ", ".join(get_args(Fallback)))
    switches = {"products": True, "cuda_graphs": cuda_graphs}
    for name in switches:
        switches[name] = asked.pop(name, switches[name])
        if not isinstance(switches[name], bool):
            raise _refused(f"option {name}", switches[name], "True, False")
    names = sorted(each.name for each in fields(Knobs))
    for name in asked:
        if name not in names:
            known = ", ".join(("fallback", *switches, *names))
            raise _refused("option", name, known)
    if autotune:
        asked.setdefault("autotune", True)
    knobs = knob_module.current().replace(**asked)
    precision: Precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "exact"
    return Options(knobs=knobs, fallback=fallback, precision=precision, **switches)


def _refused(what: str, got: object, known: str) -> ArgumentError:
    return ArgumentError(
        f'torch.compile(backend="warpsmith") got {what} {got!r}',
        code="WS0371",
        remedy=f"there are {known}",
    )
