"""Launches PTX on the GPU as a spec of the simulator says."""

import ctypes
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith.runtime.driver import check, in_context, initialized
from warpsmith.sim.contents import initial_array
from warpsmith.sim.parameters import SCALARS

Spec = Mapping[str, Any]

_MAP_TYPES = {
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "int32": "INT32",
    "uint64": "UINT64",
    "int64": "INT64",
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "bfloat16": "BFLOAT16",
}


def initial_arrays(spec: Spec, seed: int = 0) -> dict[str, np.ndarray]:
    """The spec's buffers before the launch. Each has a generator of its own, by its position."""
    return {
        name: initial_array(buffer, np.random.default_rng([seed, position]), name)
        for position, (name, buffer) in enumerate(spec["buffers"].items())
    }


def numpy_type(name: str) -> np.dtype:
    """The dtype of a spec's buffer."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def launch_spec(ptx: str, spec: Spec, seed: int = 0) -> dict[str, np.ndarray]:
    """The spec's outputs after one launch of its kernel on the GPU."""
    with in_context(0):
        return _launched(ptx, spec, initial_arrays(spec, seed))


def _launched(ptx: str, spec: Spec, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    driver = initialized()
    module = check(driver.cuModuleLoadData(for_driver(ptx).encode() + b"\0"))
    places: dict[str, int] = {}
    try:
        for name, array in arrays.items():
            places[name] = int(check(driver.cuMemAlloc(max(array.nbytes, 1))))
            check(driver.cuMemcpyHtoD(places[name], array.ctypes.data, array.nbytes))
        function = check(driver.cuModuleGetFunction(module, _entry(ptx, spec).encode()))
        _launch(function, spec, [_bytes(p, places) for p in spec["params"]])
        check(driver.cuCtxSynchronize())
        results = {name: np.empty_like(arrays[name]) for name in spec["outputs"]}
        for name, array in results.items():
            check(driver.cuMemcpyDtoH(array.ctypes.data, places[name], array.nbytes))
        return results
    finally:
        for place in places.values():
            driver.cuMemFree(place)
        driver.cuModuleUnload(module)


def for_driver(ptx: str) -> str:
    """PTX with a version that the driver knows: one that is too new is refused by its number."""
    driver = initialized()
    cuda = check(driver.cuDriverGetVersion())
    newest = (cuda // 1000 - 4, cuda % 1000 // 10)  # PTX 9.0 came with CUDA 13.0, 8.x with 12.x
    found = re.search(r"^\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    assert found, "no .version"
    if (int(found[1]), int(found[2])) <= newest:
        return ptx
    return f"{ptx[: found.start()]}.version {newest[0]}.{newest[1]}{ptx[found.end() :]}"


def _entry(ptx: str, spec: Spec) -> str:
    if "kernel" in spec:
        return str(spec["kernel"])
    (name,) = re.findall(r"\.entry\s+([\w$]+)", ptx)
    return name


def _launch(function: Any, spec: Spec, params: Sequence[bytes]) -> None:
    driver = initialized()
    shared_bytes = spec.get("shared_bytes", 0)
    kinds = driver.CUfunction_attribute
    check(
        driver.cuFuncSetAttribute(
            function, kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
        )
    )
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = spec["grid"]
    config.blockDimX, config.blockDimY, config.blockDimZ = spec["block"]
    config.sharedMemBytes = shared_bytes
    cluster = spec.get("cluster", [1, 1, 1])
    if list(cluster) != [1, 1, 1]:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dim = attribute.value.clusterDim
        dim.x, dim.y, dim.z = cluster
        config.attrs, config.numAttrs = [attribute], 1
    # A parameter's place must be aligned as its type: 64 bytes, a tensor map's, is enough for all.
    backing = [_aligned(param) for param in params]
    pointers = (ctypes.c_void_p * max(len(params), 1))(*(place for _, place in backing))
    check(driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))


def _aligned(param: bytes) -> tuple[Any, int]:
    buffer = ctypes.create_string_buffer(len(param) + 64)
    place = -(-ctypes.addressof(buffer) // 64) * 64
    ctypes.memmove(place, param, len(param))
    return buffer, place


def _bytes(param: Spec, places: Mapping[str, int]) -> bytes:
    """A parameter as the kernel reads it."""
    ((kind, value),) = param.items()
    if kind == "ptr":
        return np.uint64(places[value] if value is not None else 0).tobytes()
    if kind == "tensormap":
        return _tensor_map(value, places)
    if kind == "struct":
        packed, align = b"", 1
        for member in value:
            content = _bytes(member, places)
            step = min(len(content), 8)
            align = max(align, step)
            packed += b"\0" * (-len(packed) % step) + content
        return packed + b"\0" * (-len(packed) % align)
    return SCALARS[kind](value).tobytes()


def _tensor_map(form: Spec, places: Mapping[str, int]) -> bytes:
    driver = initialized()
    rank = len(form["dims"])
    swizzle = form.get("swizzle", "none").upper()
    encoded = check(
        driver.cuTensorMapEncodeTiled(
            getattr(
                driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[form['dtype']]}"
            ),
            rank,
            places[form["buffer"]],
            [driver.cuuint64_t(dim) for dim in form["dims"]],
            # A line has none, but the driver wants a pointer to some.
            [driver.cuuint64_t(stride) for stride in form["strides_bytes"] or [16]],
            [driver.cuuint32_t(size) for size in form["box"]],
            [driver.cuuint32_t(step) for step in form.get("element_strides", [1] * rank)],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque)
