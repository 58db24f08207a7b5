"""Planned calls as the launcher in C takes them: memory and launches in terms of numbers.

`run.c` in `runtime/native` does what `runners.OnDevice` does, from the same plan.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.engine.lines import Line, program_of
from warpsmith.engine.lives import own_memory
from warpsmith.engine.loaded import Loaded
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.places import parts_of
from warpsmith.ir.scalar import Expr
from warpsmith.runtime import arrays, launcher
from warpsmith.runtime.tensor_maps import TiledMap, type_codes

_GIVEN, _MADE, _PART, _COUNTERS = range(4)  # `Source` in launcher.h

_REALS: Final = {"d": struct.Struct("<d"), "f": struct.Struct("<f4x")}


class _Recipe:
    """What is written down of one call so far.

    Attributes:
        numbers: all that may differ from size to size, and what does not.
        memories: each as `launcher.h` describes it.
    """

    def __init__(self) -> None:
        self.numbers: list[int | Expr] = []
        self.memories: list[tuple[Any, ...]] = []
        self.maps: list[tuple[Any, ...]] = []

    def number(self, *values: int | Expr) -> int:
        """Where these numbers stand, one behind the other."""
        self.numbers += values
        return len(self.numbers) - len(values)

    def memory(self, *told: Any) -> int:
        self.memories.append(told)
        return len(self.memories) - 1

    def made(
        self, dtype: str, shape: Sequence[int | Expr], strides: Sequence[int | Expr] | None
    ) -> int:
        if strides is None:
            strides = row_major(shape)
        kind = arrays.torch_dtypes()[dtype]
        return self.memory(_MADE, 0, self.number(*shape, *strides), kind, len(shape))

    def constant(self, letter: str, value: float | Expr) -> int:
        """Where a constant argument stands, as the bits of its type."""
        if isinstance(value, Expr):
            if letter in _REALS:
                raise ValueError("the launcher works out whole numbers only")
            return self.number(value)
        real = _REALS.get(letter)
        bits = int(value) if real is None else int.from_bytes(real.pack(value), "little")
        return self.number(bits - (1 << 64) if bits >= 1 << 63 else bits)

    def map(self, each: TiledMap, memory: int) -> int:
        first = self.number(*each.sizes, *each.strides, each.before)
        self.maps.append(
            (memory, len(each.sizes), first, *type_codes(each), each.spans, each.steps)
        )
        return len(self.maps) - 1


def recipe_of(
    fusion: Fusion,
    call: CallPlan,
    kernels: Sequence[Loaded],
    ordinal: int,
    counters: Callable[[int, int, int], Any],
    line: Line | None = None,
) -> Any:
    """The recipe of a call on a GPU; None where Python has to run it.

    Args:
        counters: makes arrival counters, of a place, a number and a stream.
        line: the recipe is of all its calls, and `call` is its own.
    """
    host = launcher.host()
    if host is None or any(kernel.is_watched for kernel in kernels):
        return None
    try:
        return _recipe_of(host, fusion, call, kernels, ordinal, counters, line)
    except ValueError:  # it has more of something than the launcher has room for
        return None


def _recipe_of(
    host: Any,
    fusion: Fusion,
    call: CallPlan,
    kernels: Sequence[Loaded],
    ordinal: int,
    counters: Callable[[int, int, int], Any],
    line: Line | None,
) -> Any:
    recipe = _Recipe()
    places = {value.name: place for place, value in enumerate(fusion.inputs)}
    where = {t.name: recipe.memory(_GIVEN, places[t.name], 0) for t in fusion.input_tensors}
    for each in call.outputs:
        where[each.name] = recipe.made(each.dtype, each.shape, each.strides)
    where |= {part: where[whole] for part, whole in parts_of(fusion).items()}
    size, scratch = own_memory(call)
    whole = 0 if isinstance(size, int) and not size else recipe.made("uint8", (size,), None)
    for name, offset in call.arena.offsets:
        where[name] = recipe.memory(_PART, whole, recipe.number(offset))
    spaces = [
        _scratch(recipe, launch, whole, own)
        for launch, own in zip(call.launches, scratch, strict=True)
    ]
    launches = tuple(
        _launch(recipe, launch, kernel, where | own, places)
        for launch, kernel, own in zip(call.launches, kernels, spaces, strict=True)
    )
    program, low, high = b"", 0, 0
    if line is not None:
        program, low, high = program_of(recipe.numbers, line), line.low, line.high
    constants = (0 if isinstance(number, Expr) else number for number in recipe.numbers)
    numbers = struct.pack(f"={len(recipe.numbers)}q", *constants)
    results = tuple(where[o.value.name] for o in fusion.outputs if o.alias_of is None)
    aliases = (
        (where[o.value.name], fusion.inputs.index(o.alias_of))
        for o in fusion.outputs
        if o.alias_of is not None and o.place is None and o.value.name in where
    )
    device = arrays.torch_device("cuda", ordinal)
    parts = tuple(recipe.memories), tuple(recipe.maps), launches, results, _flat(aliases)
    return launcher.module().Recipe(
        host, ordinal, device, len(places), numbers, *parts, counters, (program, low, high)
    )


def row_major(shape: Sequence[int | Expr]) -> tuple[int | Expr, ...]:
    """Strides of an array without gaps, as torch gives them."""
    strides: list[int | Expr] = []
    step: int | Expr = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * (max(extent, 1) if isinstance(extent, int) else extent)
    return tuple(reversed(strides))


def _scratch(
    recipe: _Recipe, launch: Launch, whole: int, offsets: dict[str, Any]
) -> dict[str, int]:
    """Memories of a launch's workspaces by name, those that are not zeroed in a whole one."""
    return {
        space.name: recipe.memory(_COUNTERS, place, recipe.number(space.elements))
        if space.zeroed
        else recipe.memory(_PART, whole, recipe.number(offsets[space.name]))
        for place, space in enumerate(launch.workspaces)
    }


def _launch(
    recipe: _Recipe, launch: Launch, kernel: Loaded, where: dict[str, int], places: dict[str, int]
) -> tuple[Any, ...]:
    form = recipe.number(*launch.grid, *launch.block, launch.reserved_bytes)
    arguments = [("P", False, where[name]) for name in launch.pointers]
    arguments += [("T", False, recipe.map(each, where[each.tensor])) for each in launch.maps]
    letters = launch.formats[len(arguments) :]
    for letter, name, constant in zip(letters, launch.scalars, launch.constants, strict=True):
        if constant is None:
            arguments.append((letter, True, places[name]))
        else:
            arguments.append((letter, False, recipe.constant(letter, constant)))
    return kernel.ready, int(launch.kind), form, tuple(arguments)


def _flat(pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(part for pair in pairs for part in pair)
