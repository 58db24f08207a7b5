"""Times one first compile in a process of its own: `python -m bench.compile_probe IMPL CACHE_DIR`.

Prints one line of JSON: `import_ms`, and `compile_ms` from the definition to a kernel that could be
launched (loaded, where there is a GPU).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

SHAPE = (8192, 1024)

_LOADED_ON_USE = (
    "cuda.bindings.driver",
    "cuda.bindings.nvrtc",
    "warpsmith.engine.lowered",
    "warpsmith.frontends.fuse",
)


def main(impl: str, cache_dir: Path) -> dict[str, float]:
    """Milliseconds of the two parts."""
    probe = {"warpsmith": _warpsmith, "torch_compile": _torch_compile, "nvfuser": _nvfuser}[impl]
    return probe(cache_dir)


def _warpsmith(cache_dir: Path) -> dict[str, float]:
    start = time.perf_counter()
    # All modules and libraries that are loaded on first use count as import.
    for module in _LOADED_ON_USE:
        importlib.import_module(module)
    import ml_dtypes
    import numpy as np

    import warpsmith
    from warpsmith import knobs, ops
    from warpsmith.runtime import nvrtc
    from warpsmith.runtime.driver import device_count, ensure_context
    from warpsmith.runtime.launch import LoadedKernel

    nvrtc.nvrtc_version()  # the bindings load the library at the first call
    imported = time.perf_counter()
    on_gpu = device_count() > 0
    if on_gpu:
        ensure_context(0)  # once a process, and no part of a compile
    x, y = (np.zeros(SHAPE, ml_dtypes.bfloat16) for _ in range(2))

    def silu_mul(x: Any, y: Any) -> Any:
        gate = ops.silu(x.to(warpsmith.DataType.Float))
        return ops.cast(ops.mul(gate, y), x.dtype)

    with knobs.scope(cache_dir=cache_dir):
        begun = time.perf_counter()
        compiled = warpsmith.fuse(silu_mul).lower(x, y).compile()
        if on_gpu:
            for kernel in compiled.kernels:
                LoadedKernel(kernel.binary, kernel.name, 0)
        done = time.perf_counter()
    return {"import_ms": 1e3 * (imported - start), "compile_ms": 1e3 * (done - begun)}


def _torch_compile(cache_dir: Path) -> dict[str, float]:
    del cache_dir  # its caches are turned off instead
    start = time.perf_counter()
    import torch
    import torch._inductor.config

    imported = time.perf_counter()
    torch._inductor.config.force_disable_caches = True
    x, y = (torch.randn(SHAPE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    torch.cuda.synchronize()

    def silu_mul(x: Any, y: Any) -> Any:
        return torch.nn.functional.silu(x) * y

    begun = time.perf_counter()
    torch.compile(silu_mul, dynamic=False)(x, y)
    done = time.perf_counter()
    return {"import_ms": 1e3 * (imported - start), "compile_ms": 1e3 * (done - begun)}


def _nvfuser(cache_dir: Path) -> dict[str, float]:
    del cache_dir  # it keeps nothing on disk
    start = time.perf_counter()
    import torch

    nvfuser_direct = importlib.import_module("nvfuser_direct")

    imported = time.perf_counter()
    x, y = (torch.randn(SHAPE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    begun = time.perf_counter()
    types = nvfuser_direct.DataType
    with nvfuser_direct.FusionDefinition() as fd:
        a = fd.ops.cast(fd.from_pytorch(x), dtype=types.Float)
        b = fd.ops.cast(fd.from_pytorch(y), dtype=types.Float)
        fd.add_output(fd.ops.cast(fd.ops.mul(fd.ops.silu(a), b), dtype=types.BFloat16))
    fd.execute([x, y])
    done = time.perf_counter()
    return {"import_ms": 1e3 * (imported - start), "compile_ms": 1e3 * (done - begun)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
