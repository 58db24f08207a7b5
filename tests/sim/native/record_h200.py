"""Run tensor copies and matrix products on a GPU and keep what they give, for `test_h200`.

    python -m tests.sim.native.record_h200 tests/sim/native/h200_tensor_mma.npz

Copies run in processes of their own, since an illegal one leaves its process without a GPU.
"""

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cuda.bindings import driver, nvrtc

from tests.sim.support import h200_kernels, product_cases, tensor_cases
from tests.sim.support.fragments import TABLES, Place, accumulator, to_registers
from tests.sim.support.product_cases import A_PLAIN, B_PLAIN, MMA, WGMMA, WIDTH
from tests.sim.support.random_bits import Bits
from tests.sim.support.tensor_cases import DUMP_BYTES, POOL_BYTES, SIZES, TensorCase

STYLES = (0, 2, 3, 5, 6, 7, 8)
NUMBERS = (
    *("f16_n8", "f16_n16_h", "tf32_n8_ra", "e4m3_n16", "e5m2_n16", "mixed_n8_ra", "e4m3_n16_h"),
    *("bf16_n8_ra", "e5m2_n8_h_ra", "s8_n16_sat", "u8_n8_ra"),
)
NUMBER_CASES = 10
ILLEGAL_CASES = 12
COPIES: dict[str, Callable[[], list[TensorCase]]] = {
    "load": tensor_cases.loads,
    "far": tensor_cases.far_loads,
    "special": tensor_cases.special_loads,
    "store": tensor_cases.stores,
}
Array = npt.NDArray[Any]
Results = dict[str, Array]


def checked(answer: tuple[Any, ...]) -> Any:
    """The value that a call returns, its error raised."""
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1] if len(answer) > 1 else None


def binary(text: str) -> bytes:
    program = checked(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, None, None))
    options = [b"--gpu-architecture=sm_90a", b"--std=c++17", b"-w"]
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    made = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, made))
    return made


class Gpu:
    """One context, and arrays that live until it ends."""

    def __init__(self) -> None:
        checked(driver.cuInit(0))
        context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))
        checked(driver.cuCtxSetCurrent(context))

    def module(self, text: str) -> Any:
        return checked(driver.cuModuleLoadData(binary(text)))

    def function(self, module: Any, name: str, shared: int = 0) -> Any:
        found = checked(driver.cuModuleGetFunction(module, name.encode()))
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(found, limit, shared))
        return found

    def put(self, array: Array) -> int:
        data = np.ascontiguousarray(array)
        pointer = int(checked(driver.cuMemAlloc(data.nbytes)))
        self.write(pointer, data)
        return pointer

    def write(self, pointer: int, array: Array) -> None:
        checked(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))

    def get(self, pointer: int, like: Array) -> Array:
        out = np.empty_like(like)
        checked(driver.cuMemcpyDtoH(out.ctypes.data, pointer, out.nbytes))
        return out

    def run(self, function: Any, grid: int, block: int, shared: int, *values: Any) -> None:
        """Pointers and sizes are 64-bit numbers here, `c_int`s and maps are themselves."""
        kept = [ctypes.c_uint64(x) if isinstance(x, int) else x for x in values]
        table = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(x) for x in kept))
        shape = (grid, 1, 1, block, 1, 1, shared, 0)
        checked(driver.cuLaunchKernel(function, *shape, ctypes.addressof(table), 0))
        checked(driver.cuCtxSynchronize())


# ---- copies -------------------------------------------------------------------------------------


def encoded(case: TensorCase, memory: int) -> Any:
    """The driver's 128 bytes."""
    rank = len(case.dim)
    made = checked(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType(case.type),
            rank,
            memory + case.address,
            [driver.cuuint64_t(x) for x in case.dim],
            [driver.cuuint64_t(x) for x in case.stride] or [driver.cuuint64_t(16)],
            [driver.cuuint32_t(x) for x in case.box],
            [driver.cuuint32_t(x) for x in case.element_stride],
            driver.CUtensorMapInterleave(0),
            driver.CUtensorMapSwizzle(case.swizzle),
            driver.CUtensorMapL2promotion(0),
            driver.CUtensorMapFloatOOBfill(case.fill),
        )
    )
    return (ctypes.c_uint64 * 16)(*(int(word) for word in made.opaque))


def box_bytes(case: TensorCase) -> int:
    steps = [1, *case.element_stride[1:]]
    counts = [-(-x // e) for x, e in zip(case.box, steps, strict=True)]
    return int(np.prod(counts)) * SIZES[case.type]


def copy_all(kind: str, indices: Sequence[int], folder: Path) -> None:
    """Run copies one by one; each leaves a file, so that what was done outlives a failure."""
    gpu = Gpu()
    cases = COPIES[kind]()
    before = tensor_cases.special_pool() if kind == "special" else Bits(7).bytes(POOL_BYTES)
    source = Bits(8).bytes(DUMP_BYTES)
    pool, inner, status = gpu.put(before), gpu.put(source), gpu.put(np.zeros(2, np.uint32))
    name = "store" if kind == "store" else "load"
    function = gpu.function(gpu.module(h200_kernels.copies()), name, DUMP_BYTES)
    for index in indices:
        case = cases[index]
        (folder / "at").write_text(str(index))
        gpu.write(pool, before)
        padded = (*case.coordinates, *[0] * 5)[:5]
        numbers = [ctypes.c_int(x) for x in (len(case.dim), *padded, case.base)]
        first = (encoded(case, pool), *numbers)
        dump = ctypes.c_int(DUMP_BYTES)
        if name == "store":
            gpu.run(function, 1, 256, DUMP_BYTES, *first, inner, dump)
            after = gpu.get(pool, before)
            where = np.flatnonzero(after != before).astype(np.uint32)
            np.savez(folder / f"{index}.npz", where=where, values=after[where])
        else:
            size = ctypes.c_int(box_bytes(case))
            gpu.run(function, 1, 256, DUMP_BYTES, *first, size, inner, status, dump)
            done = gpu.get(status, np.zeros(2, np.uint32))
            assert done.tolist() == [1, 2048], f"{case} did not complete"
            np.savez(folder / f"{index}.npz", shared=gpu.get(inner, source))


def recorded_copies(kind: str) -> Results:
    cases = COPIES[kind]()
    allowed = [tensor_cases.legal(case, store=kind == "store") for case in cases]
    queue = [i for i, fine in enumerate(allowed) if fine]
    doubtful = [i for i, fine in enumerate(allowed) if not fine][:ILLEGAL_CASES]
    illegal: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for batch in (queue, *([i] for i in doubtful)):
            left = list(batch)
            while left:
                part = [sys.executable, "-m", __spec__.name, kind, name, *map(str, left)]
                answer = subprocess.run(part, timeout=60, capture_output=True, text=True)
                if answer.returncode == 0:
                    break
                if "ILLEGAL_INSTRUCTION" not in answer.stderr:
                    raise RuntimeError(answer.stderr)
                failed = int((folder / "at").read_text())
                illegal.append(failed)
                left = left[left.index(failed) + 1 :]
        done = sorted(int(path.stem) for path in folder.glob("*.npz"))
        files = [dict(np.load(folder / f"{index}.npz")) for index in done]
    results: Results = {
        f"{kind} done": np.array(done, np.int16),
        f"{kind} illegal": np.array(sorted(illegal), np.int16),
    }
    if kind != "store":
        return {**results, f"{kind} shared": np.stack([file["shared"] for file in files])}
    for index, file in zip(done, files, strict=True):
        results[f"store at {index}"] = file["where"]
        results[f"store values {index}"] = file["values"]
    return results


# ---- products -----------------------------------------------------------------------------------


def recorded_mma(gpu: Gpu) -> Results:
    results = {}
    for index, form in enumerate(MMA):
        kinds = ["u8" if WIDTH[x] == 64 else "u4" for x in (form.a, form.a, form.d)]
        inputs = product_cases.mma_inputs(index, STYLES[-1] + 1)
        arrays = [x.astype(kind) for x, kind in zip(inputs, kinds, strict=True)]
        pointers = [gpu.put(array) for array in (*arrays, arrays[2])]
        function = gpu.function(gpu.module(h200_kernels.mma(form)), "run")
        gpu.run(function, len(arrays[0]), 32, 0, *pointers)
        results[f"mma {form.name}"] = gpu.get(pointers[3], arrays[2])[list(STYLES)]
    return results


def one_warp_each(rows: Array) -> Array:
    return np.stack([d[:, 32 * (i % 4) : 32 * (i % 4 + 1)] for i, d in enumerate(rows)])


def condensed(rows: Array, kind: str) -> Array:
    """Sums that are small integers take two bytes each."""
    values = rows.view(np.float32)
    if kind != "f32" or abs(values).max() >= 1 << 15 or (rows == 1 << 31).any():
        return rows
    return values.astype(np.int16) if (values == np.rint(values)).all() else rows


def run_wgmma(gpu: Gpu, module: Any, images: Array, words: Array, a: Array, d: Array) -> Array:
    """D of one warp for each block; a single image is shared by all."""
    size = images.shape[1]
    pitch = size // 8 if len(images) > 1 else 0
    places = [gpu.put(x) for x in (images, words, a.astype("u4"), d.astype("u4"))]
    function = gpu.function(module, "run", size)
    first = (places[0], pitch, ctypes.c_int(size), *places[1:])
    gpu.run(function, len(d), 128, size, *first)
    return one_warp_each(gpu.get(places[3], d.astype("u4")))


def run_layouts(gpu: Gpu, module: Any, index: int) -> Array:
    form = WGMMA[index]
    image, pairs, registers = product_cases.layout_cases(index)
    count = 10 if form.n <= 16 else 4 if form.n <= 64 else 2
    words = np.array([[a, b, 0] for a, b in pairs[:count]], np.uint64)
    d = np.zeros((count, accumulator(16, form.n)[0] * WIDTH[form.d] // 32, 128))
    rows = run_wgmma(gpu, module, image[None], words, np.stack([registers] * count), d)
    return condensed(rows, form.d)


def four_warps(matrix: Array, width: int, place: Place, count: int) -> Array:
    parts = matrix.astype(f"u{width // 8}").reshape(4, 16, -1)
    return np.hstack([to_registers(part, place, count) for part in parts])


def run_numbers(gpu: Gpu, module: Any, index: int) -> Array:
    form = WGMMA[index]
    cases = product_cases.number_cases(index, NUMBER_CASES)
    table = TABLES[WIDTH[form.a], 16, form.k]
    count, place = accumulator(16, form.n)
    a = [four_warps(x.a, WIDTH[form.a], table.a, table.a_count) for x in cases]
    d = [four_warps(x.c, WIDTH[form.d], place, count) for x in cases]
    words = np.array([[A_PLAIN, B_PLAIN, x.add] for x in cases], np.uint64)
    images = np.stack([x.image for x in cases])
    return run_wgmma(gpu, module, images, words, np.stack(a), np.stack(d))


def recorded_wgmma(gpu: Gpu) -> Results:
    results = {}
    for index, form in enumerate(WGMMA):
        module = gpu.module(h200_kernels.wgmma(form))
        results[f"layout {form.name}"] = run_layouts(gpu, module, index)
        if form.name in NUMBERS:
            results[f"numbers {form.name}"] = run_numbers(gpu, module, index)
    return results


def main(path: Path) -> None:
    results: Results = {}
    for kind in COPIES:
        results |= recorded_copies(kind)
    gpu = Gpu()
    np.savez_compressed(path, **results, **recorded_mma(gpu), **recorded_wgmma(gpu))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        copy_all(sys.argv[1], [int(index) for index in sys.argv[3:]], Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
