"""Arrival counters, which the blocks of a kernel count each other by: zero before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from warpsmith.locks import ProcessLock
from warpsmith.runtime import arrays
from warpsmith.runtime.kept import WORKSPACES
from warpsmith.runtime.recent import Recent
from warpsmith.runtime.stream import is_capturing

_COUNTERS: Final[Recent[tuple[int, int, int, int], Any]] = Recent(WORKSPACES)
"""Counters by device, stream and how many they are."""

FOR_GRAPHS: Final = 1 << 16
"""Counters of a device that calls in graphs may take, each its own: 146 products of 448 tiles."""

_LEFT: Final[dict[int, Any]] = {}
"""By device, those that no graph has yet. What a graph has is never given back: it may be replayed
at any time."""

_LEFT_LOCK: Final = ProcessLock()


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
        if ordinal not in _LEFT:
            _LEFT[ordinal] = _kept_zeros(ordinal, FOR_GRAPHS, apart=True)
    return found


def counters_of_call(
    ordinal: int, launches: Sequence[Mapping[str, tuple[int, int]]], stream: int
) -> list[dict[str, Any]]:
    """Counters of the kernels of a call, by name: of each its place and how many they are.

    A graph that is being captured gets its own, since its replays may overlap with other work of
    the stream. They are zero from a call before it on, as each kernel leaves them; where too few
    are left, one kernel of the graph zeroes others.
    """
    if not is_capturing():
        return [
            {n: counters(ordinal, *own, stream) for n, own in each.items()} for each in launches
        ]
    sizes = [elements for each in launches for _, elements in each.values()]
    parts = iter(_of_graph(ordinal, sum(sizes)).split(sizes) if sizes else ())
    return [{name: next(parts) for name in each} for each in launches]


def _of_graph(ordinal: int, elements: int) -> Any:
    with _LEFT_LOCK.own:
        left = _LEFT.get(ordinal)
        if left is not None and elements <= left.numel():
            _LEFT[ordinal] = left[elements:]
            return left[:elements]
    return _zeros(ordinal, elements, None)


def _kept_zeros(ordinal: int, elements: int, *, apart: bool = False) -> Any:
    """Zeros that are made in a thread of their own, on the stream of this one; or `apart`, on one
    of their own, and there when this returns.

    A thread that warms up a CUDA graph gets its tensors from the graph's pool, where torch counts
    what is still there behind the call, and refuses what is none of its results.
    """
    import torch

    stream = None
    if torch.cuda.is_available():
        stream = torch.cuda.Stream(ordinal) if apart else torch.cuda.current_stream(ordinal)
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(_zeros, ordinal, elements, stream).result()
    if stream is not None and apart:
        stream.synchronize()
    return made


def _zeros(ordinal: int, elements: int, stream: Any) -> Any:
    import torch

    with torch.cuda.stream(stream):  # None leaves the current one
        device = arrays.torch_device("cuda", ordinal)
        return torch.zeros(elements, dtype=torch.int32, device=device)
