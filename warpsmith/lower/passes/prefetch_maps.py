"""Ask for tensor maps before the first copy waits for them."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.tiles import PrefetchMap


def prefetch_maps(kernel: Kernel) -> Kernel:
    """The elected thread asks for every tensor map at the start, while barriers are made ready.

    Before::

        initialize barriers

    After::

        if elected: prefetch T0_map0
        initialize barriers
    """
    if not kernel.tensor_maps:
        return kernel
    asked = If(ELECTED, tuple(PrefetchMap(each.name) for each in kernel.tensor_maps))
    return kernel if asked in kernel.body else replace(kernel, body=(asked, *kernel.body))
