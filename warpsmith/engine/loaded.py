"""Launches that are ready to start: kernels on devices, with their tensor maps and arguments."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from warpsmith.engine.launches import Launch
from warpsmith.engine.watched import Image, WatchedKernel, image_of, ready_to_launch
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.kept import LOADED, MAPS
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.launch_kinds import LaunchKind
from warpsmith.runtime.recent import Recent

_BUFFERS_KEPT: Final = 256

_KERNELS: Final[Recent[str, LoadedKernel | WatchedKernel]] = Recent(LOADED)
"""All kernels on devices, whichever signatures launch them."""


class Loaded:
    """One launch with its kernel on a device.

    It keeps no more of the compiled kernel than what is loaded, so that all else can be forgotten.
    The kernel itself may be forgotten, too, and is loaded again when it is launched then.
    """

    def __init__(self, launch: Launch, ordinal: int) -> None:
        self.workspaces = launch.workspaces
        self._image = image_of(launch.compiled)
        self._ordinal = ordinal
        self._kind = launch.kind
        self._key = _key(self._image, ordinal, launch.kind)
        self._form = (launch.grid, launch.block, launch.reserved_bytes)
        self._pointers = launch.pointers
        self._scalars = tuple(zip(launch.scalars, launch.constants, strict=True))
        self._arguments = _buffer(launch.formats)
        # From the address of a tensor to its map. All else in a map is the same in every call.
        self._maps: tuple[tuple[Any, Recent[int, bytes]], ...] = tuple(
            (each, Recent(MAPS)) for each in launch.maps
        )
        if _KERNELS.get(self._key) is None:
            self._load()

    def start(self, addresses: Mapping[str, int], scalars: Mapping[str, Any], stream: int) -> None:
        """Launch on a stream, with the tensors and workspaces at these addresses."""
        values: list[Any] = [addresses[name] for name in self._pointers]
        for each, known in self._maps:
            address = addresses[each.tensor]
            values.append(
                known.get(address) or known.put(address, each.encode(address, self._ordinal))
            )
        for name, constant in self._scalars:
            values.append(scalars[name] if constant is None else constant)
        self._arguments.set(tuple(values))
        kernel = _KERNELS.get(self._key) or self._load()
        kernel.launch(*self._form, stream, self._arguments)

    @property
    def is_watched(self) -> bool:
        """Whether each launch is waited for, lest it hangs."""
        return bool(self._image.sites)

    def ready(self) -> tuple[LoadedKernel, int, int]:
        """The kernel, loaded, with what the driver calls its function and its context; not of one
        that is watched.
        """
        kernel = _KERNELS.get(self._key) or self._load()
        assert isinstance(kernel, LoadedKernel)
        kernel.allow(self._form[2])
        return kernel, *kernel.handles

    def _load(self) -> LoadedKernel | WatchedKernel:
        made = ready_to_launch(self._image, self._ordinal, kind=self._kind)
        return _KERNELS.put(self._key, made)


def _key(image: Image, ordinal: int, kind: LaunchKind) -> str:
    """What tells loaded kernels apart, interned: every launch looks it up."""
    digest = hashlib.sha256(image.binary.cubin)
    digest.update(repr((image.entry, image.sites, ordinal, int(kind))).encode())
    return sys.intern(digest.hexdigest())


@lru_cache(maxsize=_BUFFERS_KEPT)
def _buffer(formats: str) -> ArgumentBuffer:
    """One buffer for all launches of these formats: a thread fills its own just before a launch."""
    return ArgumentBuffer(formats)
