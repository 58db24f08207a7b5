"""Where a call runs, and for which target its kernels are made."""

from __future__ import annotations

from typing import Literal

from warpsmith.engine.bind import Binding
from warpsmith.errors import DeviceError
from warpsmith.knobs import Knobs
from warpsmith.runtime import driver
from warpsmith.runtime.of_device import target_of_device
from warpsmith.targets.known import KNOWN, named
from warpsmith.targets.target import Target


def call_target(knobs: Knobs, ordinal: int = 0) -> Target:
    """The target that was named, else that of a GPU, else the first that is known."""
    if knobs.target != "auto":
        return named(knobs.target)
    if knobs.device in ("sim", "reference") or driver.device_count() == 0:
        return KNOWN[0]
    return target_of_device(ordinal)


def ordinal_of(binding: Binding) -> int:
    """The GPU of a call's arrays; the first one where none is on a GPU."""
    on_gpu = (int(each.ordinal) for each in binding.infos if each.device_kind == "cuda")
    return next(on_gpu, 0)


def is_on_device(binding: Binding) -> bool:
    """Whether a call on a GPU has its arrays there, as one without arrays has what it makes."""
    return not binding.infos or binding.infos[0].device_kind == "cuda"


def place_of(binding: Binding, knobs: Knobs) -> int | Literal["sim", "reference"]:
    """The GPU to run on by its ordinal, or what stands in for one."""
    if knobs.device in ("sim", "reference"):
        return knobs.device
    if any(each.device_kind == "cuda" for each in binding.infos) or driver.device_count() > 0:
        return ordinal_of(binding)
    if knobs.device == "gpu":
        raise DeviceError(
            f"WARPSMITH_DEVICE=gpu, and there is no GPU: {driver.why_no_device()}",
            code="WS0601",
            remedy="use `auto`, `sim` or `reference`",
        )
    return "sim"
