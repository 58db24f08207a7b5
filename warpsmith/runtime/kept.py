"""The kinds of things that the process keeps between calls, each with its limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warpsmith.runtime import heap
from warpsmith.runtime.recent import Held, Kind
from warpsmith.runtime.tensor_maps import MAP_BYTES

TRACES: Final = Kind(lambda knobs: knobs.kept_traces)
"""Functions as programs: one for each class of arguments."""

PLANS: Final = Kind(lambda knobs: knobs.kept_plans)
"""Signatures that can be run at once. One that comes through `fuse` counts twice: its arguments are
a key there, and its arrays here."""

LAUNCHES: Final = Kind(lambda knobs: knobs.kept_plans)
"""Launches of kernels, worked out for sizes: layers of a model that are alike share them."""

CUTS: Final = Kind(lambda knobs: knobs.kept_traces)
"""Programs cut into kernels, once for each set of schedulers that sizes leave."""

PROOFS: Final = Kind(lambda knobs: knobs.kept_plans)
"""Sizes at which a kernel was proved neither to hang nor to race."""

CLASSES: Final = Kind(lambda knobs: knobs.kept_plans)
"""Classes of sizes that were met, for `explain`."""

KERNELS: Final = Kind(
    lambda knobs: knobs.kept_kernels,
    lambda kernel: len(kernel.cuda) + len(kernel.binary.ptx) + len(kernel.binary.cubin),
    heap.trim,
)
"""Compiled kernels in all their forms, on the host."""

LOADED: Final = Kind(lambda knobs: knobs.loaded_kernels, lambda kernel: len(kernel.binary.cubin))
"""Kernels on a device."""

MAPS: Final = Kind(lambda knobs: knobs.kept_maps, lambda encoded: MAP_BYTES)
"""Tensor maps, encoded for an address."""

WORKSPACES: Final = Kind(lambda knobs: knobs.kept_workspaces, lambda tensor: int(tensor.nbytes))
"""Counters of arrivals, on a device: zero between kernels, so those of a stream share them."""

_BY_NAME: Final = {
    "traces": TRACES,
    "plans": PLANS,
    "launches": LAUNCHES,
    "cuts": CUTS,
    "proofs": PROOFS,
    "classes": CLASSES,
    "kernels": KERNELS,
    "loaded": LOADED,
    "maps": MAPS,
    "workspaces": WORKSPACES,
}


def cache_info() -> Mapping[str, Held]:
    """What this process keeps, by kind: entries, limit, bytes, hits, and what was let go of."""
    return {name: kind.held() for name, kind in _BY_NAME.items()}
