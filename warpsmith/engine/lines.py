"""Calls between two that were planned, with the same kernels, as one recipe.

Two calls lie on a line where they differ in one size, and in whole multiples of it: rows of one
number in all tensors, say, and strides over them. Where both got the same kernels, those between
get them, too, if all that the kernels rely on holds. What depends on the size (grids, results'
shapes, arguments) is worked out from it by the launcher in C, and so is whether it holds.

Kernels with pipelines or clusters are left out: each size of theirs is proved before its launch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from warpsmith.engine.agreements import Agreement
from warpsmith.engine.allocations import Allocation
from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.engine.spread import reserved_of
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.values import dataclass

_STEPS: Final = (
    *("push", "size", "store", "holds", "add", "sub", "mul", "floordiv", "mod", "ceildiv"),
    *("minimum", "maximum", "lt", "le", "eq", "logical_and", "logical_or", "where", "xor"),
    *("magic", "shift"),
)
"""Steps of a program, as `runtime/native/numbers.c` numbers them."""

_CODES: Final = {name: code for code, name in enumerate(_STEPS)}
_MANY: Final = ("add", "mul", "minimum", "maximum", "logical_and", "logical_or")


class _Bent(Exception):
    """The calls are on no line, or something follows from their size that no program says."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is remembered of a call that was planned, to draw lines from it.

    Attributes:
        values: sizes and strides by name.
        kernels: what tells the launches of two calls apart, but for numbers.
        arena: bytes and offsets of what passes between kernels.
    """

    fusion: Fusion
    values: Mapping[str, int]
    kernels: tuple[object, ...]
    arena: Any


@dataclass(frozen=True, slots=True)
class Line:
    """A call whose numbers are expressions of one size from `low` to `high`.

    Attributes:
        call: as planned, with expressions in place of numbers.
        own_is_high: the call that was planned last is the one of the size `high`.
        holds: what must be true of a size.
    """

    call: CallPlan
    size: Symbol
    low: int
    high: int
    own_is_high: bool
    holds: tuple[Expr, ...]


def sketch_of(fusion: Fusion, call: CallPlan) -> Sketch | None:
    """None where calls of these kernels are on no line."""
    if any(map(_is_proved_by_size, call.launches)) or not call.launches:
        return None
    return Sketch(fusion, call.problem.values, tuple(map(_kernel, call.launches)), call.arena)


def line_of(
    one: Sketch, other: Sketch, call: CallPlan, agreements: Sequence[Agreement]
) -> Line | None:
    """The line through two calls; None where there is none.

    Args:
        other: of the `call`.
        agreements: what the program asks of sizes.
    """
    if one.fusion is not other.fusion or one.kernels != other.kernels:
        return None
    try:
        return _drawn(one, other, call, agreements)
    except _Bent:
        return None


def program_of(numbers: Sequence[int | Expr], line: Line) -> bytes:
    """The steps that make those numbers that are expressions. Raises ValueError."""
    steps: list[int] = []
    try:
        for condition in line.holds:
            steps += [*_steps(condition, line.size), _CODES["holds"]]
        for place, number in enumerate(numbers):
            if isinstance(number, Expr):
                steps += [*_steps(number, line.size), _CODES["store"], place]
    except _Bent as bent:
        raise ValueError(f"no program has the operation {bent}") from None
    return struct.pack(f"={len(steps)}q", *steps)


def _kernel(launch: Launch) -> object:
    spaces = tuple((space.name, space.zeroed) for space in launch.workspaces)
    given = tuple(constant is None for constant in launch.constants)
    named = launch.pointers, launch.scalars, launch.formats
    return launch.compiled.name, launch.segment, launch.kind, launch.values, *named, spaces, given


def _is_proved_by_size(launch: Launch) -> bool:
    kernel = launch.compiled.kernel
    return bool(kernel.pipelines) or kernel.launch.cluster_blocks > 1 or bool(launch.maps)


def _drawn(one: Sketch, other: Sketch, call: CallPlan, agreements: Sequence[Agreement]) -> Line:
    name = next(
        (name for name in _sizes(one.fusion) if one.values.get(name) != other.values.get(name)),
        None,
    )
    if name is None or one.values.keys() != other.values.keys():
        raise _Bent
    ends = one.values[name], other.values[name]
    low, high = min(ends), max(ends)
    if low < 2:
        raise _Bent
    size = Symbol("size", low=low)
    known = {
        each: found
        for each in one.values
        if (found := _through(one.values[each], other.values[each], ends, size)) is not None
    }
    holds = [_agreed(agreement, known) for agreement in agreements]
    launches = []
    for launch in call.launches:
        made, asked = _launch(launch, call, known)
        launches.append(made)
        holds += asked
    tensors = {tensor.name: tensor for tensor in one.fusion.tensors}
    drawn = replace(
        call,
        launches=tuple(launches),
        outputs=tuple(_allocation(each, tensors[each.name], known) for each in call.outputs),
        # What fits at the largest size fits at all, and tensors do not move.
        arena=(one if ends[0] == high else other).arena,
    )
    true = {condition for condition in holds if integers.constant(condition)}
    asked = [condition for condition in dict.fromkeys(holds) if condition not in true]
    return Line(drawn, size, low, high, ends[1] == high, tuple(asked))


def _sizes(fusion: Fusion) -> Iterator[str]:
    for tensor in fusion.input_tensors:
        for dimension in range(tensor.rank):
            yield f"{tensor.name}_size{dimension}"


def _through(a: int, b: int, ends: tuple[int, int], size: Symbol) -> Expr | None:
    """What is `a` at one end and `b` at the other: constant, or a multiple of the size."""
    if a == b:
        return Const(a)
    factor = a // ends[0]
    return integers.mul(factor, size) if (factor * ends[0], factor * ends[1]) == (a, b) else None


def _at(expr: Expr | int, known: Mapping[str, Expr]) -> Expr:
    """An expression of named numbers as one of the size."""
    if isinstance(expr, int):
        return Const(expr)
    mapping: dict[Expr, Expr] = {}
    for node in expr.walk():
        if isinstance(node, Symbol):
            if node.name not in known:
                raise _Bent(node.name)
            mapping[node] = known[node.name]
    return substitute(expr, mapping)


def _agreed(agreement: Agreement, known: Mapping[str, Expr]) -> Expr:
    left, right = _at(agreement.left, known), _at(agreement.right, known)
    if agreement.asks == "==":
        return _equal(left, right)
    if agreement.asks == "%":
        return _equal(integers.mod(left, right), Const(0))
    return _at_most(right, left)


def _equal(a: Expr, b: Expr) -> Expr:
    return integers.TRUE if a == b else Apply("eq", (a, b), DataType.Bool)


def _at_most(a: Expr | int, b: Expr | int) -> Expr:
    return Apply("le", (integers.index(a), integers.index(b)), DataType.Bool)


def _launch(launch: Launch, call: CallPlan, known: Mapping[str, Expr]) -> tuple[Launch, list[Expr]]:
    """A launch of the line, and what its kernel relies on."""
    kernel, target = launch.compiled.kernel, launch.compiled.target
    planned = call.segments[launch.segment]
    own = {name: Const(value) for name, value in launch.values}
    names = {n.name for expr in _expressions(launch) for n in expr.walk() if isinstance(n, Symbol)}
    names |= {symbol.name for symbol in kernel.scalars}
    here: dict[str, Expr] = {**own}
    for name in names - own.keys():
        if planned.named(name) in known:
            here[name] = known[planned.named(name)]
    for reciprocal in kernel.reciprocals:
        divisor = _at(reciprocal.divisor, here)
        for symbol, step in ((reciprocal.magic, "magic"), (reciprocal.shift, "shift")):
            here[symbol.name] = Apply(step, (divisor,), DataType.Index)
    for symbol, value in kernel.derived:
        here[symbol.name] = _at(value, here)
    grid, block = (
        tuple(_at(extent, here) for extent in extents)
        for extents in (kernel.launch.grid, kernel.launch.block)
    )
    limits = target.family.limits
    shared = reserved = _at(launch.compiled.shared, here)
    if kernel.early:
        reserved = reserved_of(shared, integers.mul(*grid), target)
    holds = [_equal(integers.mod(_at(e, here), d), Const(0)) for e, d in kernel.requirements]
    holds += [_at_most(_at(expr, here), most) for expr, most in kernel.limits]
    holds += [_at_most(least, _at(expr, here)) for expr, least in kernel.least]
    holds += [_at_most(1, extent) for extent in (*grid, *block)]
    holds += [_at_most(e, m) for e, m in zip(grid, limits.grid_axes, strict=True)]
    holds += [_at_most(shared, limits.block_shared)]
    sizes = {buffer.name: buffer.size for buffer in kernel.parameters}
    local = {planned.named(name): size for name, size in sizes.items()}
    elements: list[Any] = [_at(local[space.name], here) for space in launch.workspaces]
    spaces = tuple(
        replace(space, elements=count)
        for space, count in zip(launch.workspaces, elements, strict=True)
    )
    constants = tuple(
        None if constant is None else _at(symbol, here)
        for symbol, constant in zip(kernel.scalars, launch.constants, strict=True)
    )
    made: dict[str, Any] = {
        "grid": grid,
        "block": block,
        "reserved_bytes": reserved,
        "workspaces": spaces,
        "constants": constants,
    }
    return replace(launch, **made), holds


def _expressions(launch: Launch) -> Iterator[Expr]:
    kernel = launch.compiled.kernel
    yield from (*kernel.launch.grid, *kernel.launch.block, launch.compiled.shared)
    for expr, _ in (*kernel.requirements, *kernel.limits, *kernel.least, *kernel.derived):
        yield expr
    yield from (value for _, value in kernel.derived)
    yield from (reciprocal.divisor for reciprocal in kernel.reciprocals)
    yield from (buffer.size for buffer in kernel.parameters)


def _allocation(planned: Allocation, tensor: TensorView, known: Mapping[str, Expr]) -> Allocation:
    shape = tuple(_at(axis.extent, known) for axis in tensor.shape_axes)
    strides: dict[int, Expr] = {}
    step: Expr = Const(1)
    for dimension in reversed(tensor.memory_order()):
        if tensor.contiguity[dimension] is False:
            step = _at(Symbol(f"{tensor.name}_stride{dimension}"), known)
        strides[dimension] = step
        step = integers.mul(step, integers.maximum(shape[dimension], 1))
    made: dict[str, Any] = {
        "shape": shape,
        "strides": tuple(strides[dimension] for dimension in range(len(shape))),
    }
    return replace(planned, **made)


def _steps(expr: Expr, size: Symbol) -> list[int]:
    if isinstance(expr, Const):
        return [_CODES["push"], int(expr.value)]
    if expr is size or expr == size:
        return [_CODES["size"]]
    if not isinstance(expr, Apply) or expr.dtype.is_float:
        raise _Bent(repr(expr))
    if expr.op == "cast" and expr.dtype is not DataType.Bool and not expr.dtype.is_small_int:
        return _steps(expr.args[0], size)
    if expr.op not in _CODES or _CODES[expr.op] < _CODES["add"]:
        raise _Bent(expr.op)
    found = _steps(expr.args[0], size)
    if expr.op in _MANY:
        for arg in expr.args[1:]:
            found += [*_steps(arg, size), _CODES[expr.op]]
        return found
    for arg in expr.args[1:]:
        found += _steps(arg, size)
    return [*found, _CODES[expr.op]]
