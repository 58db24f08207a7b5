"""Steps that compute element by element, choose, draw, or make tensors of scalars."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.programs.growth import FLOATS, SMALL_INTS, Growth
from tests.programs.program import Dim, Extent, InvalidProgramError, Ref, Shape
from tests.programs.values import Value
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE
from warpsmith.ops.table.op import Rule

INTEGERS = (DataType.Int32, DataType.Int, *SMALL_INTS)


def _wanting() -> tuple[set[str], set[str]]:
    """The operations that want operands above zero, and those that want them near zero: else their
    results are no numbers, or run away. Their meanings say which.
    """
    above, narrow = set[str](), {"pow"}
    x = np.linspace(-6.0, 6.0, 961)
    for op in TABLE.values():
        if op.arity == 1 and op.rule is Rule.FLOAT:
            result = op.numpy(x)
            runs_away = ~(np.abs(result) < 50.0)
            if not np.isfinite(result[x <= 0.0]).all() and not runs_away[x >= 1.0].any():
                above.add(op.name)
            elif runs_away.any():
                narrow.add(op.name)
    return above, narrow


ABOVE, NARROW = _wanting()
_DIVIDES = ("div", "truediv", "remainder", "fmod", "floor_divide", "mod")


def pointwise(g: Growth) -> None:
    op = TABLE[g.choice.choice(_pointwise_names())]
    common = ("add", "mul", "sub", "div", "exp", "tanh", "maximum", "where", "neg", "silu")
    if g.chance(0.45):
        op = TABLE[g.choice.choice(common)]
    name = op.name
    if g.chance(0.02):
        name = "floor_divide"
    arity = 2 if name == "floor_divide" else op.arity
    first = g.pick(lambda value: _takes(op, value.dtype, 0))
    if name in NARROW and g.chance(0.7):
        first = g.add("tanh", Ref(first))
    if name in ABOVE and g.chance(0.8):
        first = g.add("add", Ref(g.add("abs", Ref(first))), 0.5)
    args: list[Any] = [Ref(first)]
    for position in range(1, arity):
        above = position == 1 and name in _DIVIDES
        args.append(_partner(g, op, first, position, above))
    if op.conditions and g.value(first).dtype is not DataType.Bool:
        args[0] = Ref(g.add("gt", Ref(first), 0))
    if arity == 2 and g.chance(0.15):
        args.reverse()
    g.add(name, *args)


def _pointwise_names() -> list[str]:
    return [name for name in TABLE if name not in ("philox", "kept", "float_rank", "double_rank")]


def _takes(op: Any, dtype: DataType, position: int) -> bool:
    if op.rule is Rule.INTEGER:
        return dtype.is_int and op.supports(dtype)
    return position < op.conditions or bool(op.supports(dtype))


def _partner(g: Growth, op: Any, first: str, position: int, above: bool) -> Any:
    """Another operand beside `first`: a tensor of the program, a new one, or a number."""
    value = g.value(first)
    integral = not value.dtype.is_float
    if g.chance(0.2):
        if integral:
            return g.choice.randint(1, 6)
        return round(g.choice.uniform(0.5 if above else -2, 2), 2)
    if g.chance(0.06):
        return g.new_scalar(DataType.Int if integral else DataType.Double)
    if g.chance(0.1) and not above:
        return Ref(first)

    def fits(other: Value) -> bool:
        joined = _joined(value.dims, other.dims)
        same = other.dtype.is_float == value.dtype.is_float
        return joined is not None and g.fits(joined) and same and _takes(op, other.dtype, position)

    if not above and g.chance(0.75):
        return Ref(g.pick(fits))
    if above and g.chance(0.5) and not integral:
        divisor = g.pick(fits)
        return Ref(g.add("add", Ref(g.add("abs", Ref(divisor))), 0.5))
    dims = [dim if g.chance(0.8) else () for dim in value.dims]
    if g.chance(0.3):
        dims = dims[g.choice.randint(0, len(dims)) :]
    dtype = value.dtype if g.chance(0.7) or integral else g.float_type()
    return Ref(g.new_input(dtype, tuple(dims), "positive" if above else ""))


def _joined(a: Sequence[Dim], b: Sequence[Dim]) -> list[Dim] | None:
    rank = max(len(a), len(b))
    wide = [((),) * (rank - len(dims)) + tuple(dims) for dims in (a, b)]
    if any(x and y and x != y for x, y in zip(*wide, strict=True)):
        return None
    return [x or y for x, y in zip(*wide, strict=True)]


def cast(g: Growth) -> None:
    source = g.pick()
    if g.chance(0.15):
        g.add("set", Ref(source))
        return
    dtype = (
        g.float_type() if g.chance(0.7) else g.choice.choice((*FLOATS, *INTEGERS, DataType.Bool))
    )
    g.add("cast", Ref(source), dtype)


def choose(g: Growth) -> None:
    """Bools and integers, and tensors that are chosen by them."""
    source = g.pick(lambda value: value.dtype.is_float)
    match g.choice.randint(0, 2):
        case 0:
            condition = g.add(g.choice.choice(("gt", "le", "lt", "ge")), Ref(source), 0)
            g.add("where", Ref(condition), Ref(source), g.choice.choice((0, -1.5)))
        case 1:
            dims = g.value(source).dims
            mask = g.new_input(DataType.Bool, dims)
            g.add("where", Ref(mask), Ref(source), -2.0)
        case 2:
            dims = g.value(source).dims
            whole = g.new_input(g.choice.choice(INTEGERS), dims)
            g.add("mul", Ref(source), Ref(whole))


def dropout(g: Growth) -> None:
    name = g.pick(lambda value: value.dtype.is_float)
    g.add(
        "dropout",
        Ref(name),
        g.choice.choice((0.1, 0.5)),
        results=2,
        rng_seed=_seed(g),
        rng_offset=g.choice.randrange(4),
    )


def _seed(g: Growth) -> Any:
    return g.new_scalar(DataType.Int) if g.chance(0.3) else g.choice.randrange(99)


def from_scalars(g: Growth) -> None:
    other = g.value(g.pick())
    shape = Shape(other.dims)
    match g.choice.randint(0, 4):
        case 0:
            g.add("full", shape, round(g.choice.uniform(-2, 2), 2), g.float_type())
        case 1:
            g.add("full_like", Ref(g.pick(lambda v: v.dtype.is_float)), 0.5)
        case 2:
            dtype = g.choice.choice((DataType.Int, DataType.Int32, DataType.Float))
            if not other.dims:
                raise InvalidProgramError("no extent")
            places = g.add(
                "iota",
                Extent(other.dims[-1]),
                g.choice.randint(-3, 3),
                g.choice.choice((1, 2)),
                dtype,
            )
            g.add("mul", Ref(places), g.choice.choice((0.25, 0.5)))
        case 3:
            g.add(
                "uniform",
                0,
                1,
                shape,
                rng_seed=_seed(g),
                rng_offset=1,
                dtype=DataType.Float,
            )
        case 4:
            g.add(
                "normal",
                0.5,
                2.0,
                shape,
                rng_seed=_seed(g),
                rng_offset=2,
                dtype=DataType.Float,
            )
