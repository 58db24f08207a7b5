"""Where calls run."""

from __future__ import annotations

from warpsmith import knobs
from warpsmith.runtime import driver


def on_gpu() -> bool:
    """Whether calls run on a GPU: there is one, and no knob says otherwise."""
    return knobs.current().device not in ("sim", "reference") and driver.device_count() > 0
