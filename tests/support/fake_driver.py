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
ELSEWHERE = bindings.CUresult.CUDA_ERROR_INVALID_HANDLE
NO_MEMORY = bindings.CUresult.CUDA_ERROR_OUT_OF_MEMORY
FREE = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
CAPTURING = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE


CONTEXT = 0xC0
"""The primary context of the first device; those of others come behind it."""


class FakeDriver:
    """Two devices of one memory, which any threads may use; the first one is current.

    Attributes:
        memory_bytes: of the devices; allocations beyond it fail.
        loaded, unloaded: modules, in order.
        launches: (function, grid, block) of each, with what was in memory untouched.
        capture: what streams say of being captured, by handle.
        refused: launches where another context than the kernel's was current.
        waited: handles of streams that were waited for.
        pinned: memory of the host that was asked for, by address.
        answers: what a call answers instead, by its name.
        homes: the context that was current when each module was loaded.
        cluster: blocks of a cluster that functions were compiled for, along each axis.
        asked: attributes of functions that were set.
    """

    def __init__(self, memory_bytes: int = 1 << 30) -> None:
        self.memory_bytes = memory_bytes
        self.loaded: list[int] = []
        self.homes: dict[int, int] = {}
        self.refused = 0
        self.unloaded: list[int] = []
        self.launches: list[tuple[Any, ...]] = []
        self.capture: dict[int, Any] = {}
        self.waited: list[int] = []
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.pinned: dict[int, Any] = {}
        self.cluster: Sequence[int] = (0, 0, 0)
        self.asked: list[tuple[Any, int]] = []
        self.contexts = threading.local()
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

    @property
    def stack(self) -> list[int]:
        """Contexts that this thread pushed; the last one is current."""
        found: list[int] = self.contexts.__dict__.setdefault("stack", [CONTEXT])
        return found

    @property
    def depth(self) -> int:
        """Contexts that this thread pushed and did not pop."""
        return len(self.stack) - 1

    def cuCtxGetCurrent(self) -> tuple[Any, int]:  # noqa: N802
        return OK, self.stack[-1]

    def cuCtxGetDevice(self) -> tuple[Any, int]:  # noqa: N802
        return OK, self.stack[-1] - CONTEXT

    def cuCtxPushCurrent(self, context: int) -> tuple[Any]:  # noqa: N802
        self.stack.append(int(context))
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Any, int]:  # noqa: N802
        return OK, self.stack.pop()

    def cuDeviceGetCount(self) -> tuple[Any, int]:  # noqa: N802
        return OK, 2

    def cuMemGetInfo(self) -> tuple[Any, int, int]:  # noqa: N802
        return OK, self.memory_bytes - self.used_bytes, self.memory_bytes

    # --- modules --------------------------------------------------------------------------------

    def cuModuleLoadData(self, cubin: bytes) -> tuple[Any, int]:  # noqa: N802
        with self._lock:
            self.loaded.append(next(self._modules))
            self.homes[self.loaded[-1]] = self.stack[-1]
            return OK, self.loaded[-1]

    def cuModuleUnload(self, module: int) -> tuple[Any]:  # noqa: N802
        assert module in self.loaded
        assert module not in self.unloaded
        assert self.homes[module] == self.stack[-1]
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
        assert self.homes[function] == self.stack[-1]
        self.asked.append((kind, value))
        return (OK,)

    def is_elsewhere(self, function: int) -> bool:
        """Whether a kernel is another context's than the current one; it is counted then."""
        elsewhere = self.homes[function] != self.stack[-1]
        self.refused += elsewhere
        return elsewhere

    def cuLaunchKernel(self, function: int, *form: Any) -> tuple[Any]:  # noqa: N802
        assert function not in self.unloaded, "a kernel was unloaded under its launch"
        if self.is_elsewhere(function):
            return (ELSEWHERE,)
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

    for module in (driver, launch, memory):
        monkeypatch.setattr(module, "initialized", lambda: fake)
    monkeypatch.setattr(driver, "_primary_context", lambda ordinal: CONTEXT + ordinal)
    monkeypatch.setattr(executable, "call_target", lambda knobs, ordinal: H200)
    return fake
