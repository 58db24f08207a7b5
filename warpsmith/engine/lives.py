"""When the memory of a call is in use: from the first launch that touches it to the last.

A call of small tensors gets all its memory at once, which takes the host least. One of large
tensors gets it launch by launch, in turns, and lets go of what no later launch touches: of what it
made for itself, and of arguments that nobody else holds. So it holds what is in use at the same
time, and not the sum.
"""

from __future__ import annotations

from typing import Any

from warpsmith.engine.allocations import Allocation
from warpsmith.engine.arena import ALIGNMENT
from warpsmith.engine.launches import CallPlan, Workspace
from warpsmith.ir.fusion import Fusion
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.values import dataclass

LARGE = 16 << 20
"""Bytes of results and of what passes between kernels, from which on a call takes turns.

What runs on smaller ones is often bound by the host, for which one piece of memory is less work.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """What happens to memory around one launch.

    Attributes:
        made: what no launch before it touches, in order.
        done: names of what no launch behind it touches.
    """

    made: tuple[Allocation, ...]
    done: tuple[str, ...]


def takes_turns(call: CallPlan) -> bool:
    """Whether a call gets its memory launch by launch, where its caller lets it."""
    size = sum(each.bytes for each in call.outputs) + call.arena.size
    return len(call.launches) > 1 and size >= LARGE


def turns_of(fusion: Fusion, call: CallPlan) -> tuple[Turn, ...]:
    """A turn for each launch of a call that takes turns; none of another."""
    if not takes_turns(call):
        return ()
    given = [tensor.name for tensor in fusion.input_tensors]
    kept = {output.value.name for output in fusion.outputs}
    kept |= {output.alias_of.name for output in fusion.outputs if output.alias_of is not None}
    first: dict[str, int] = {}
    last = dict.fromkeys(given, 0)
    for number, launch in enumerate(call.launches):
        for name in (*launch.pointers, *(each.tensor for each in launch.maps)):
            first.setdefault(name, number)
            last[name] = number
    between = [each for each in call.temporaries if each.name in first]
    scratch = [[s for w in launch.workspaces if (s := scratch_of(w))] for launch in call.launches]
    made = [list(each) for each in scratch]
    for each in (*call.outputs, *between):
        made[first.get(each.name, 0)].append(each)
    done = [[each.name for each in own] for own in scratch]
    for name in dict.fromkeys((*given, *(each.name for each in between))):
        if name not in kept:
            done[last[name]].append(name)
    return tuple(Turn(tuple(m), tuple(d)) for m, d in zip(made, done, strict=True))


def peak_of(fusion: Fusion, call: CallPlan) -> int:
    """Bytes that a call holds at most at one time, beside its arguments."""
    turns = turns_of(fusion, call)
    if not turns:
        whole: int = own_memory(call)[0]
        return whole + sum(each.bytes for each in call.outputs)
    sizes: dict[str, int] = {}
    most = 0
    for turn in turns:
        sizes |= {each.name: each.bytes for each in turn.made}
        most = max(most, sum(sizes.values()))
        for name in turn.done:
            sizes.pop(name, None)  # it may be an argument
    return most


def own_memory(call: CallPlan) -> tuple[Any, tuple[dict[str, Any], ...]]:
    """One piece of memory for all that a call makes for itself at once.

    Returns its bytes, and where each launch's scratch lies in it, by name: behind what passes
    between kernels, and none where another's is, for launches may overlap. Of a line (`lines.py`)
    these are expressions.
    """
    size: Any = aligned(call.arena.size) if call.arena.offsets else 0
    places: list[dict[str, Any]] = []
    for launch in call.launches:
        own: dict[str, Any] = {}
        for space in launch.workspaces:
            if not space.zeroed:
                own[space.name] = size
                count = space.elements * NUMPY_DTYPES[space.dtype].itemsize
                size = aligned(size + count)
        places.append(own)
    return size, tuple(places)


def aligned(size: Any) -> Any:
    """Bytes, or an expression of them, up to where the next tensor may begin."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def scratch_of(space: Workspace) -> Allocation | None:
    """A workspace as memory for one launch; None of counters, which calls share."""
    return None if space.zeroed else Allocation(space.name, space.dtype, (space.elements,), None)
