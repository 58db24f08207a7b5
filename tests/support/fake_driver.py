"""A CUDA driver without a GPU: the host's memory, and modules and launches that are only noted.

It takes the place of the bindings (`cuda.bindings.driver`), with their names and answers.
"""

import ctypes
import threading
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

bindings = pytest.importorskip("cuda.bindings.driver")

OK = bindings.CUresult.CUDA_SUCCESS
NO_MEMORY = bindings.CUresult.CUDA_ERROR_OUT_OF_MEMORY
FREE = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
CAPTURING = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE


class FakeDriver:
    """One device, which any threads may use.

    Attributes:
        memory_bytes: of the device; allocations beyond it fail.
        loaded, unloaded: modules, in order.
        launches: (function, grid, block) of each, with what was in memory untouched.
        capture: what streams say of being captured, by handle.
        waited: handles of streams that were waited for.
        pinned: memory of the host that was asked for, by address.
        answers: what a call answers instead, by its name.
        cluster: blocks of a cluster that functions were compiled for, along each axis.
        asked: attributes of functions that were set.
    """

    def __init__(self, memory_bytes: int = 1 << 30) -> None:
        self.memory_bytes = memory_bytes
        self.loaded: list[int] = []
        self.unloaded: list[int] = []
        self.launches: list[tuple[Any, ...]] = []
        self.capture: dict[int, Any] = {}
        self.waited: list[int] = []
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.pinned: dict[int, Any] = {}
        self.cluster: Sequence[int] = (0, 0, 0)
        self.asked: list[tuple[Any, int]] = []
        self.depth = 0
        self._modules = count(1)
        self._blocks: dict[int, Any] = {}
        self._lock = threading.RLock()  # what dies in an allocation may free, too

    def __getattribute__(self, name: str) -> Any:
        answers = object.__getattribute__(self, "__dict__").get("answers", {})
        if name in answers:
            return lambda *_: answers[name]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("CU", "cuuint")):
            return getattr(bindings, name)
        raise AttributeError(name)

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return sum(map(len, self._blocks.values()))

    # --- contexts and devices -------------------------------------------------------------------

    def cuCtxPushCurrent(self, context: Any) -> tuple[Any]:  # noqa: N802
        with self._lock:
            self.depth += 1
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Any, Any]:  # noqa: N802
        with self._lock:
            self.depth -= 1
        return OK, "context"

    def cuDeviceGetCount(self) -> tuple[Any, int]:  # noqa: N802
        return OK, 1

    def cuMemGetInfo(self) -> tuple[Any, int, int]:  # noqa: N802
        return OK, self.memory_bytes - self.used_bytes, self.memory_bytes

    # --- modules --------------------------------------------------------------------------------

    def cuModuleLoadData(self, cubin: bytes) -> tuple[Any, int]:  # noqa: N802
        with self._lock:
            self.loaded.append(next(self._modules))
            return OK, self.loaded[-1]

    def cuModuleUnload(self, module: int) -> tuple[Any]:  # noqa: N802
        assert module in self.loaded
        assert module not in self.unloaded
        self.unloaded.append(module)
        return (OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, int]:  # noqa: N802
        return OK, module

    def cuFuncLoad(self, function: int) -> tuple[Any]:  # noqa: N802
        return (OK,)

    def cuFuncGetAttribute(self, kind: Any, function: int) -> tuple[Any, int]:  # noqa: N802
        kinds = bindings.CUfunction_attribute
        axes = ("WIDTH", "HEIGHT", "DEPTH")
        names = [getattr(kinds, f"CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_{axis}") for axis in axes]
        return OK, dict(zip(names, self.cluster, strict=True))[kind]

    def cuFuncSetAttribute(self, function: int, kind: Any, value: int) -> tuple[Any]:  # noqa: N802
        self.asked.append((kind, value))
        return (OK,)

    def cuLaunchKernel(self, function: int, *form: Any) -> tuple[Any]:  # noqa: N802
        assert function not in self.unloaded, "a kernel was unloaded under its launch"
        self.launches.append((function, form[:3], form[3:6]))
        return (OK,)

    def cuLaunchKernelEx(self, config: Any, function: int, *_: Any) -> tuple[Any]:  # noqa: N802
        return self.cuLaunchKernel(function, 0, 0, 0, 0, 0, 0)

    # --- streams --------------------------------------------------------------------------------

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, Any]:  # noqa: N802
        return OK, mode

    def cuStreamIsCapturing(self, stream: Any) -> tuple[Any, Any]:  # noqa: N802
        return OK, self.capture.get(int(stream), FREE)

    def cuStreamSynchronize(self, stream: Any) -> tuple[Any]:  # noqa: N802
        assert int(stream) not in self.capture
        self.waited.append(int(stream))
        return (OK,)

    # --- memory ---------------------------------------------------------------------------------

    def cuMemAlloc(self, size: int) -> tuple[Any, Any]:  # noqa: N802
        with self._lock:
            if self.used_bytes + size > self.memory_bytes:
                return NO_MEMORY, None
            block = ctypes.create_string_buffer(size + 256)
            address = ctypes.addressof(block)
            address += -address % 256
            self._blocks[address] = block
        return OK, address

    def cuMemFree(self, address: int) -> tuple[Any]:  # noqa: N802
        with self._lock:
            del self._blocks[address]
        return (OK,)

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[Any, int]:  # noqa: N802
        block = ctypes.create_string_buffer(size)
        self.pinned[ctypes.addressof(block)] = block
        return OK, ctypes.addressof(block)

    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> tuple[Any, int]:  # noqa: N802
        return OK, address

    def cuModuleGetGlobal(self, module: int, name: bytes) -> tuple[Any, int, int]:  # noqa: N802
        self._variable = ctypes.create_string_buffer(8)
        return OK, ctypes.addressof(self._variable), 8

    def cuMemFreeHost(self, address: int) -> tuple[Any]:  # noqa: N802
        del self.pinned[address]
        return (OK,)

    def cuMemcpyHtoD(self, device: int, host: int, size: int) -> tuple[Any]:  # noqa: N802
        ctypes.memmove(device, host, size)
        return (OK,)

    def cuMemcpyDtoH(self, host: int, device: int, size: int) -> tuple[Any]:  # noqa: N802
        ctypes.memmove(host, device, size)
        return (OK,)


def no_kernels_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that are loaded from here on are this test's own."""
    from warpsmith.engine import loaded
    from warpsmith.runtime.kept import LOADED
    from warpsmith.runtime.recent import Recent

    monkeypatch.setattr(loaded, "_KERNELS", Recent(LOADED))


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> FakeDriver:
    """Have warpsmith's runtime use the fake, as if a GPU were there."""
    from warpsmith.engine import executable
    from warpsmith.runtime import driver, launch, memory
    from warpsmith.targets.hopper import H200

    def context(ordinal: int) -> str:
        return "context"

    for module in (driver, launch, memory):
        monkeypatch.setattr(module, "initialized", lambda: fake)
    for module in (launch, memory):
        monkeypatch.setattr(module, "ensure_context", context)
    monkeypatch.setattr(executable, "call_target", lambda knobs: H200)
    return fake
