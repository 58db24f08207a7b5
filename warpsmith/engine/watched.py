"""Launches whose waits are watched: each is waited for, and a hang becomes an error in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.engine.compiled import CompiledKernel
from warpsmith.errors import DeviceError, HangError
from warpsmith.kernel.waits import WaitSite, wait_sites
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import Extent, LoadedKernel
from warpsmith.runtime.launch_kinds import LaunchKind
from warpsmith.runtime.source import Binary
from warpsmith.runtime.watchdog import Record, Watchdog
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

_LOST = (
    "the CUDA context is lost, so start the process anew; `warpsmith.verify` runs the kernel on "
    "the simulator, which says what is missing; if the wait was only long, set "
    "WARPSMITH_WATCHDOG_SECONDS higher"
)


@dataclass(frozen=True, slots=True)
class Image:
    """What a device needs of a compiled kernel: its machine code, and which waits are watched."""

    binary: Binary
    entry: str
    sites: tuple[WaitSite, ...]


def image_of(compiled: CompiledKernel) -> Image:
    """The kernel without the texts that it was made from."""
    binary = replace(compiled.binary, ptx="", log="")
    return Image(binary, compiled.name, tuple(wait_sites(compiled.kernel.body)))


def ready_to_launch(
    image: Image, ordinal: int, *, kind: LaunchKind = LaunchKind.PLAIN
) -> LoadedKernel | WatchedKernel:
    """The kernel on a device, watched if it was compiled so."""
    loaded = LoadedKernel(image.binary, image.entry, ordinal, kind=kind)
    return WatchedKernel(loaded, image.sites) if image.sites else loaded


class WatchedKernel:
    """A loaded kernel whose launches are waited for."""

    def __init__(self, loaded: LoadedKernel, sites: Sequence[WaitSite]) -> None:
        self._loaded = loaded
        self._sites = tuple(sites)
        self._watchdog = Watchdog(loaded)

    def launch(
        self,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        stream: int,
        arguments: ArgumentBuffer,
    ) -> None:
        """Launch as `LoadedKernel.launch` does, and wait for the stream unless it is captured.

        Raises HangError when a wait was given up, DeviceError for all other failures.
        """
        try:
            self._loaded.launch(grid, block, shared_bytes, stream, arguments)
            self._watchdog.wait(stream)
        except DeviceError as failure:
            record = self._watchdog.record
            if record is None:
                raise
            words = described(self._loaded.entry, self._sites, record)
            raise HangError(words, remedy=_LOST) from failure


def described(kernel: str, sites: Sequence[WaitSite], record: Record) -> str:
    """Who waited for what, how long, and which line of Python asked for it."""
    site = sites[record.site]
    role = f"role {site.role}" if site.role else "all warps"
    goal = "filled" if site.full else "free again"
    stage = f"stage {record.stage} of {site.ring} ({', '.join(site.buffers)}) to be {goal}"
    goal = stage if site.buffers else f"the turn of group {record.stage} in {site.ring}"
    asked = f"; asked for at {site.where}" if site.where else ""
    return (
        f"kernel {kernel}, block {record.block}, {role}, warp {record.thread // WARP}: waited "
        f"{record.seconds:.3g} s for {goal} (a phase of parity {record.parity}){asked}"
    )
