"""Decide where every shared buffer lies."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.shared_memory import laid_out


def lay_out_shared(kernel: Kernel) -> Kernel:
    """Give every shared buffer its place, once; whoever asks where one lies reads it there.

    Before::

        shared S: float[n]
        shared T: half[256], aligned to 128 bytes

    After, with `layout` (T at 0, S at 512, in all 512 + 4 n bytes, rounded up to 16)::

        shared S: float[n]
        shared T: half[256], aligned to 128 bytes

    Buffers that `overlay_shared` placed stay where it put them.
    """
    layout = laid_out(kernel.shared, dict(kernel.offsets))
    return kernel if layout == kernel.layout else replace(kernel, layout=layout)
