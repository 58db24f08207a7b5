"""Times one first compile in a process of its own.

`python -m bench.compile_probe IMPL NAME CACHE_DIR`

Prints one line of JSON: `import_ms` of what a first compile needs, `import_cached_ms` of what
kernels from the disk need, and `compile_ms` from the definition to a kernel that could be launched
(loaded, where there is a GPU).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.matmul import linear
from bench.norm_backward import layer_norm_bwd
from bench.pointwise import silu_mul
from bench.problem import Problem

PROBLEMS: dict[str, Problem] = {
    "pointwise": silu_mul(8192, 1024, "bfloat16"),
    "norm_backward": layer_norm_bwd(8192, 4096, "bfloat16"),
    "product": linear(4096, 4096, 4096, "bfloat16"),
}

_LOADED_ON_USE = (
    "cuda.bindings.driver",
    "cuda.bindings.nvrtc",
    "warpsmith.frontends.lowered",
    "warpsmith.frontends.fuse",
    "warpsmith.kernel.printer",  # with it all that kernels from the disk consist of
)

_MAKES_KERNELS = "warpsmith.engine.emission"


def main(impl: str, name: str, cache_dir: Path) -> dict[str, float]:
    """Milliseconds of the two parts."""
    probe = {"warpsmith": _warpsmith, "torch_compile": _torch_compile, "nvfuser": _nvfuser}[impl]
    return probe(PROBLEMS[name], cache_dir)


def _warpsmith(problem: Problem, cache_dir: Path) -> dict[str, float]:
    start = time.perf_counter()
    # All modules and libraries that are loaded on first use count as import.
    for module in _LOADED_ON_USE:
        importlib.import_module(module)
    import ml_dtypes
    import numpy as np

    import warpsmith
    from warpsmith import knobs
    from warpsmith.runtime import nvrtc
    from warpsmith.runtime.driver import device_count, in_context
    from warpsmith.runtime.launch import LoadedKernel

    nvrtc.nvrtc_version()  # the bindings load the library at the first call
    for_cached = time.perf_counter()
    importlib.import_module(_MAKES_KERNELS)
    imported = time.perf_counter()
    on_gpu = device_count() > 0
    if on_gpu:
        with in_context(0):  # it is made once a process, and no part of a compile
            pass
    kinds = (np.float32 if d == "float" else ml_dtypes.bfloat16 for d in problem.dtypes)
    inputs = [np.zeros(shape, kind) for shape, kind in zip(problem.shapes, kinds, strict=True)]

    def compiled() -> None:
        made = warpsmith.fuse(problem.fused).lower(*inputs).compile()
        if on_gpu:
            for kernel in made.kernels:
                LoadedKernel(kernel.binary, kernel.name, 0)

    with knobs.scope(cache_dir=cache_dir, keep_emitted=True):
        return {
            **_timed(imported - start, compiled),
            "import_cached_ms": 1e3 * (for_cached - start),
        }


def _torch_compile(problem: Problem, cache_dir: Path) -> dict[str, float]:
    del cache_dir  # its caches are turned off instead
    start = time.perf_counter()
    import torch
    import torch._inductor.config

    imported = time.perf_counter()
    torch._inductor.config.force_disable_caches = True
    inputs = problem.draw()
    torch.cuda.synchronize()
    return _timed(imported - start, lambda: torch.compile(problem.eager, dynamic=False)(*inputs))


def _nvfuser(problem: Problem, cache_dir: Path) -> dict[str, float]:
    del cache_dir  # it keeps nothing on disk
    start = time.perf_counter()
    import torch

    nvfuser_direct = importlib.import_module("nvfuser_direct")

    imported = time.perf_counter()
    inputs = problem.draw()
    torch.cuda.synchronize()

    def compiled() -> None:
        with nvfuser_direct.FusionDefinition() as definition:
            problem.define(definition, nvfuser_direct.DataType, *inputs)
        definition.execute(list(inputs))

    return _timed(imported - start, compiled)


def _timed(imported_s: float, compiled: Callable[[], Any]) -> dict[str, float]:
    begun = time.perf_counter()
    compiled()
    return {"import_ms": 1e3 * imported_s, "compile_ms": 1e3 * (time.perf_counter() - begun)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
