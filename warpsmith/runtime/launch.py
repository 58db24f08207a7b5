"""A kernel on a device, ready to be launched."""

from __future__ import annotations

import weakref
from typing import Any

from warpsmith.errors import DeviceError
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.driver import (
    check,
    device_properties,
    in_context,
    initialized,
    memory_info,
)
from warpsmith.runtime.launch_kinds import LaunchKind, launcher
from warpsmith.runtime.memory import no_room
from warpsmith.runtime.source import Binary
from warpsmith.runtime.stream import is_capturing
from warpsmith.runtime.unload import Residence, leave, unload_left
from warpsmith.targets.family import Limits

# What every kernel may use of shared memory, static and dynamic together, without asking.
_SHARED_BYTES_UNASKED = 48 * 1024

# Blocks of a cluster that run on every device with clusters (CUDA C++ Programming Guide).
_CLUSTER_BLOCKS_UNASKED = 8

Extent = tuple[int, int, int]

_OLD = "the driver may be older than the compiler: install one of release 580 or later"
_REFUSED = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "it was compiled for another family of GPUs: leave the knob "
    "`target` alone, or set WARPSMITH_DEVICE=sim",
    "CUDA_ERROR_INVALID_IMAGE": _OLD,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": _OLD,
}
"""What to do about the answers of the driver to a module."""


def check_grid(entry: str, grid: Extent, limits: Limits) -> None:
    """Raise DeviceError for a grid with more blocks along x, y or z than a device takes."""
    if any(blocks > most for blocks, most in zip(grid, limits.grid_axes, strict=True)):
        raise DeviceError(
            f"kernel `{entry}` would need a grid of {grid} blocks, and a device takes "
            f"{limits.grid_axes} at most",
            code="WS0608",
            remedy="pass smaller tensors, or parts of them one after the other",
        )


def check_clusters(entry: str, grid: Extent, cluster: Extent) -> None:
    """Raise DeviceError for a grid that is no multiple of the cluster along x, y or z."""
    if any(blocks % part for blocks, part in zip(grid, cluster, strict=True)):
        raise DeviceError(
            f"kernel `{entry}` has a grid of {grid} blocks, which is no multiple of its cluster of "
            f"{cluster}",
            code="WS0606",
            remedy="make the grid larger, and leave out the work of blocks that are too many",
        )


class LoadedKernel:
    """A kernel in the context of one device.

    The module is loaded and the function is made ready at once, not at the first launch: loading
    synchronizes, which a graph capture forbids. It is unloaded some time after the last reference
    to this object is gone (`runtime/unload.py`), but never once a graph was captured that holds it.

    One of the kind `EARLY` may start while the kernel before it on the stream still runs; it must
    wait before it touches what that one touches (`runtime/launch_kinds.py`).

    Raises DeviceError when the device is missing or refuses the module.
    """

    def __init__(
        self, binary: Binary, entry: str, ordinal: int, *, kind: LaunchKind = LaunchKind.PLAIN
    ) -> None:
        self.binary = binary
        self.entry = entry
        self.ordinal = ordinal
        self._driver = initialized()
        unload_left()
        with in_context(ordinal) as self._context:
            module = self._load(binary.cubin)
            self.residence = Residence(self._driver, self._context, module, {0})
            weakref.finalize(self, leave, self.residence).atexit = False
            self._function = check(self._driver.cuModuleGetFunction(module, entry.encode()))
            check(self._driver.cuFuncLoad(self._function))
            self._allow_clusters()
        self._shared_bytes_allowed = max(_SHARED_BYTES_UNASKED - binary.static_shared_bytes, 0)
        self._launch = launcher(self._driver, kind)
        # The bindings' wrapper of the stream of the last launch: it seldom changes.
        self._stream: tuple[int, Any] = (0, self._driver.CUstream(0))

    def _load(self, cubin: bytes) -> Any:
        status, module = self._driver.cuModuleLoadData(cubin)
        name = getattr(status, "name", "")
        if status == 0:
            return module
        if name == "CUDA_ERROR_OUT_OF_MEMORY":
            what = f"the code of kernel `{self.entry}`"
            raise no_room(what, len(cubin), f"GPU {self.ordinal}", *memory_info())
        raise DeviceError(
            f"GPU {self.ordinal} does not take kernel `{self.entry}`: the driver answered {name}",
            code="WS0612",
            remedy=_REFUSED.get(name, "look at the GPU and at the driver by `nvidia-smi`"),
        )

    @property
    def handles(self) -> tuple[int, int]:
        """The driver's handles of the function, and of the context that it is loaded in."""
        return int(self._function), int(self._context)

    def note(self, stream: int) -> None:
        """Remember a stream that the kernel is launched on: it stays until that is idle."""
        self.residence.streams.add(stream)

    def allow(self, shared_bytes: int) -> None:
        """Let launches ask for so much dynamic shared memory. Raises DeviceError for too much."""
        if shared_bytes > self._shared_bytes_allowed:
            self._allow_shared_bytes(shared_bytes)

    def launch(
        self,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        stream: int,
        arguments: ArgumentBuffer,
    ) -> None:
        """Launch on `stream` (a CUstream as an integer, 0 the default) with this thread's values.

        `grid` counts blocks, `block` threads, both (x, y, z); `shared_bytes` is dynamic shared
        memory of one block. Returns at once. Raises DeviceError when the launch is refused.
        """
        self.allow(shared_bytes)
        handle, wrapped = self._stream
        if handle != stream:
            wrapped = self._driver.CUstream(stream)
            self._stream = (stream, wrapped)
            self.note(stream)
        status = 1
        if stream and is_capturing(self.ordinal):  # the default stream cannot be captured
            self.residence.captured = True
        else:
            (status,) = self._launch(
                self._function, *grid, *block, shared_bytes, wrapped, arguments.address, 0
            )
        if status != 0:
            self._launch_in_own_context(grid, block, shared_bytes, wrapped, arguments)

    def _launch_in_own_context(
        self,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        stream: Any,
        arguments: ArgumentBuffer,
    ) -> None:
        """Launch with the kernel's context current, where a launch was refused or is captured.

        A thread that never touched the device has no current context, or one of another device.
        Trying first costs nothing where the context is right, which is nearly always; a capture
        is not to see a refusal.
        """
        check(self._driver.cuCtxPushCurrent(self._context))
        try:
            check(
                self._launch(
                    self._function, *grid, *block, shared_bytes, stream, arguments.address, 0
                )
            )
        except DeviceError as refusal:
            raise DeviceError(
                f"kernel `{self.entry}` cannot be launched with grid {grid}, block {block} and "
                f"{shared_bytes} bytes of dynamic shared memory: {refusal.message}"
            ) from None
        finally:
            check(self._driver.cuCtxPopCurrent())

    def _allow_clusters(self) -> None:
        """Ask for clusters that some devices do not run, where the kernel has such."""
        attribute = self._driver.CUfunction_attribute
        blocks = 1
        for axis in ("WIDTH", "HEIGHT", "DEPTH"):
            kind = getattr(attribute, f"CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_{axis}")
            blocks *= max(check(self._driver.cuFuncGetAttribute(kind, self._function)), 1)
        if blocks > _CLUSTER_BLOCKS_UNASKED:
            kind = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(self._driver.cuFuncSetAttribute(self._function, kind, 1))

    def _allow_shared_bytes(self, shared_bytes: int) -> None:
        """Raise the function's limit of dynamic shared memory, once for the largest launch."""
        attribute = self._driver.CUfunction_attribute
        kind = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        try:
            with in_context(self.ordinal):
                check(self._driver.cuFuncSetAttribute(self._function, kind, shared_bytes))
        except DeviceError as refusal:
            most = device_properties(self.ordinal).shared_bytes_per_block_optin
            raise DeviceError(
                f"kernel `{self.entry}` cannot have {shared_bytes} bytes of dynamic shared memory "
                f"besides {self.binary.static_shared_bytes} static ones: {refusal.message}",
                remedy=f"a block has at most {most} bytes in all",
            ) from None
        self._shared_bytes_allowed = shared_bytes
