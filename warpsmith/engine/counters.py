"""Arrival counters, which the blocks of a kernel count each other by: zero before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from warpsmith.runtime import arrays
from warpsmith.runtime.kept import WORKSPACES
from warpsmith.runtime.recent import Recent
from warpsmith.runtime.stream import is_capturing

_COUNTERS: Final[Recent[tuple[int, int, int, int], Any]] = Recent(WORKSPACES)
"""Counters by device, stream and how many they are."""


def counters(ordinal: int, place: int, elements: int, stream: int) -> Any:
    """Counters, zeroed once per stream: each kernel leaves them at zero.

    Kernels of a stream share them: none touches them before the one before it is over. Those of
    one kernel, told apart by their `place` among its scratch, are never the same.
    """
    key = (ordinal, stream, place, elements.bit_length())
    found = _COUNTERS.get(key)
    if found is None:
        room = (1 << elements.bit_length()) - 1  # any number of as many bits
        found = _COUNTERS.put(key, _kept_zeros(ordinal, room))
    return found


def counters_of_call(
    ordinal: int, launches: Sequence[Mapping[str, tuple[int, int]]], stream: int
) -> list[dict[str, Any]]:
    """Counters of the kernels of a call, by name: of each its place and how many they are.

    A graph that is being captured gets its own, which one kernel of the graph zeroes, since its
    replays may overlap with other work of the stream.
    """
    if not is_capturing(ordinal):
        return [
            {n: counters(ordinal, *own, stream) for n, own in each.items()} for each in launches
        ]
    sizes = [elements for each in launches for _, elements in each.values()]
    parts = iter(_zeros(ordinal, sum(sizes), None).split(sizes) if sizes else ())
    return [{name: next(parts) for name in each} for each in launches]


def _kept_zeros(ordinal: int, elements: int) -> Any:
    """Zeros that are made in a thread of their own, on the stream of this one.

    A thread that warms up a CUDA graph gets its tensors from the graph's pool, where torch counts
    what is still there behind the call, and refuses what is none of its results.
    """
    import torch

    stream = torch.cuda.current_stream(ordinal) if torch.cuda.is_available() else None
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_zeros, ordinal, elements, stream).result()


def _zeros(ordinal: int, elements: int, stream: Any) -> Any:
    import torch

    with torch.cuda.stream(stream):  # None leaves the current one
        device = arrays.torch_device("cuda", ordinal)
        return torch.zeros(elements, dtype=torch.int32, device=device)
