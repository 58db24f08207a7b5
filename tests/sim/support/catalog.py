"""The kernels of tests/sim/kernels: their PTX, their specs, and the trip counts worth running."""

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source

KERNELS = Path(__file__).parents[1] / "kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A kernel whose loop takes its trip count from a scalar parameter.

    `trips` are the counts to run. The spec's own count is the largest that its buffers hold.
    """

    position: int
    trips: tuple[int, ...]


NAMES = (
    "atomics_shuffles",
    "bulk_ring",
    "cluster_multicast",
    "cp_async",
    "dsmem",
    "grid_sync",
    "multi_role",
    "norm_backward",
    "pingpong",
    "tensormap_replace",
    "tma_ring",
    "tma_store",
    "wgmma_ring",
    "ws_ring",
)

# The correct twins of the kernels in corpus.py.
TWINS = (
    "corpus/cluster",
    "corpus/grid",
    "corpus/handoff",
    "corpus/multicast",
    "corpus/named",
    "corpus/parity_trap",
    "corpus/prologue",
    "corpus/registers",
    "corpus/ring",
    "corpus/store",
    "corpus/wgmma",
)

# Made by Triton, and stored as PTX.
TRITON = (
    "triton/add",
    "triton/device_descriptors",
    "triton/histogram",
    "triton/layer_norm",
    "triton/matmul_descriptors",
    "triton/matmul_fp8",
    "triton/matmul_pointers",
    "triton/matmul_tf32",
    "triton/matmul_transposed",
    "triton/matmul_warp_specialized",
    "triton/softmax",
    "triton/split_k",
    "triton/transpose",
)

# What PTX's rules have against some of them, though the H200 runs them right.
TRITON_FINDINGS = {
    # cp.async writes shared memory through the generic proxy, wgmma reads it through the async one.
    "triton/matmul_pointers": ("missing-proxy-fence",),
    "triton/split_k": ("missing-proxy-fence",),
    # Barriers that nobody uses are initialized several times, in the memory of a tile.
    "triton/matmul_warp_specialized": ("barrier-reinitialized", "missing-proxy-fence"),
}

# No trip, one, and those about the number of stages. ws_ring is persistent: its two CTAs share the
# tiles, so that with 1 tile one CTA has no work.
LOOPS = {
    "tma_ring": Loop(position=2, trips=(0, 1, 2, 3, 4)),
    "bulk_ring": Loop(position=3, trips=(0, 1, 3, 4, 5)),
    "ws_ring": Loop(position=3, trips=(0, 1, 2, 4, 5, 6, 7)),
    "tma_store": Loop(position=2, trips=(0, 1, 2, 3)),
    "wgmma_ring": Loop(position=3, trips=(0, 1, 2, 3, 4)),
    "multi_role": Loop(position=3, trips=(0, 1, 2, 3, 4, 5, 6)),
    "pingpong": Loop(position=2, trips=(0, 1, 2, 3)),
    "cluster_multicast": Loop(position=2, trips=(0, 1, 2, 3, 4)),
    "cp_async": Loop(position=3, trips=(0, 1, 2, 3, 4)),
    "grid_sync": Loop(position=2, trips=(0, 1, 2)),
    "corpus/ring": Loop(position=2, trips=(0, 1, 2, 3, 4)),
    "corpus/prologue": Loop(position=2, trips=(0, 1, 2, 3, 4)),
    "corpus/parity_trap": Loop(position=2, trips=(0, 1, 4, 5)),
    "corpus/handoff": Loop(position=2, trips=(0, 1, 2, 3)),
    "corpus/store": Loop(position=3, trips=(0, 1, 2, 3)),
    "corpus/cluster": Loop(position=2, trips=(0, 1, 2, 3)),
    "corpus/named": Loop(position=2, trips=(0, 1, 2)),
    "corpus/wgmma": Loop(position=3, trips=(0, 1, 2, 3)),
    "corpus/grid": Loop(position=4, trips=(1, 2)),
}


def read_spec(name: str, trips: int | None = None) -> dict[str, Any]:
    """The spec beside the kernel, with another trip count where one is given."""
    spec: dict[str, Any] = json.loads((KERNELS / f"{name}.json").read_text())
    return spec if trips is None else with_scalar(spec, LOOPS[name].position, trips)


def cases(names: Iterable[str]) -> Iterator[tuple[str, int | None]]:
    """Each kernel with its spec as it stands, then with each of its trip counts."""
    for name in names:
        yield name, None
        for trips in LOOPS[name].trips if name in LOOPS else ():
            yield name, trips


def with_scalar(spec: dict[str, Any], position: int, value: float) -> dict[str, Any]:
    """The spec with another value of one scalar parameter."""
    changed = copy.deepcopy(spec)
    (kind,) = changed["params"][position]
    changed["params"][position] = {kind: value}
    return changed


@cache
def compile_ptx(path: Path, entry: str, macros: tuple[str, ...] = ()) -> str:
    """PTX of a kernel by NVRTC, with line numbers. `macros` are NAME or NAME=VALUE."""
    options = ("-lineinfo", f"--include-path={KERNELS}", *(f"-D{macro}" for macro in macros))
    return compile_source(
        Source(text=path.read_text(), entry=entry, options=options, arch="sm_90a")
    ).ptx


def read_ptx(name: str, macros: tuple[str, ...] = ()) -> str:
    """PTX of the kernel of that name, compiled unless it is stored.

    A folder in the name is not part of the entry's name.
    """
    stored = KERNELS / f"{name}.ptx"
    if stored.exists():
        return stored.read_text()
    path = KERNELS / f"{name}.cu"
    return compile_ptx(path, path.stem, macros)
