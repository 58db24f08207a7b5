"""Small programs for random schedules: each takes two extents and whether they are static."""

from collections.abc import Callable

from tests.support.program import Program, Sizes
from warpsmith.ir.dtypes import DataType

Shapes = dict[str, tuple[int, ...]]
Template = Callable[[bool, int, int], tuple[Program, Shapes]]


def _sizes(static: bool, shape: tuple[int, ...]) -> Sizes:
    return shape if static else (None,) * len(shape)


def biased(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns)))
    bias = p.input(DataType.Float, _sizes(static, (columns,)))
    p.output(p.op("add", p.op("neg", x), p.broadcast(p.op("exp", bias), [True, False])))
    return p, {"T0": (rows, columns), "T1": (columns,)}


def transposed(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns)))
    y = p.input(DataType.Float, _sizes(static, (columns, rows)))
    p.output(p.op("mul", p.permute(x, (1, 0)), y))
    return p, {"T0": (rows, columns), "T1": (columns, rows)}


def reshaped(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns)))
    y = p.input(DataType.Float, _sizes(static, (rows * columns,)))
    p.output(p.op("add", p.merge_dims(p.op("exp", x), 0), y))
    return p, {"T0": (rows, columns), "T1": (rows * columns,)}


def widened(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    """A middle dimension, and all of them, are broadcast; two outputs."""
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns, 4)))
    y = p.input(DataType.Float, (rows, 1, 4) if static else (None, 1, None))
    z = p.input(DataType.Float, ())
    product = p.op("mul", x, p.op("exp", y))
    p.output(p.op("add", product, p.broadcast(z, [True] * 3)), p.op("sub", x, y))
    return p, {"T0": (rows, columns, 4), "T1": (rows, 1, 4), "T2": ()}


def rotated(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    """Three dimensions, permuted, beside an input with a memory order of its own."""
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns, 4)))
    y = p.input(DataType.Float, _sizes(static, (4, rows, columns)), stride_order=(0, 2, 1))
    p.output(p.op("add", p.permute(p.op("neg", x), (2, 0, 1)), y))
    return p, {"T0": (rows, columns, 4), "T1": (4, rows, columns)}


def summed(*dims: int) -> Template:
    def template(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
        p = Program()
        x = p.input(DataType.Float, _sizes(static, (rows, columns)))
        p.output(p.op("neg", p.reduce("sum", p.op("mul", x, x), dims)))
        return p, {"T0": (rows, columns)}

    return template


def extreme(*dims: int) -> Template:
    """The reduction reads an input, and its result is an output."""

    def template(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
        p = Program()
        x = p.input(DataType.Float, _sizes(static, (rows, columns)))
        p.output(p.reduce("max", x, dims))
        return p, {"T0": (rows, columns)}

    return template


def spread(*dims: int) -> Template:
    """Variance and mean."""

    def template(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
        p = Program()
        x = p.input(DataType.Float, _sizes(static, (rows, columns)))
        mean, m2, count = p.welford(p.op("neg", x), dims)
        p.output(p.op("div", m2, count), p.copy(mean))
        return p, {"T0": (rows, columns)}

    return template


def two_of_three(*dims: int) -> Template:
    """Two reductions of a product of three dimensions and two types."""

    def template(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
        p = Program()
        shape = (rows, columns, 3)
        x = p.input(DataType.BFloat16, _sizes(static, shape))
        y = p.input(DataType.Float, _sizes(static, shape))
        product = p.op("mul", p.cast(x, DataType.Float), y)
        total, top = (p.reduce(op, product, dims) for op in ("sum", "max"))
        p.output(p.op("neg", total), p.op("abs", top))
        return p, {"T0": shape, "T1": shape}

    return template


def kept_beside_sum(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    p = Program()
    negative = p.op("neg", p.input(DataType.Float, _sizes(static, (rows, columns))))
    p.output(negative, p.op("abs", p.reduce("sum", negative, [1])))
    return p, {"T0": (rows, columns)}


def divided_and_summed(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (4 * rows, columns)))
    p.output(p.op("neg", p.reduce("sum", p.split_dim(p.op("neg", x), 0, 4), [1])))
    return p, {"T0": (4 * rows, columns)}


def reduced_twice(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns)))
    total = p.reduce("sum", x, [1])
    p.output(p.op("neg", p.reduce("max", p.op("abs", total), [0])))
    return p, {"T0": (rows, columns)}


def centred(static: bool, rows: int, columns: int) -> tuple[Program, Shapes]:
    """A result is combined with what was reduced, in one kernel."""
    p = Program()
    x = p.input(DataType.Float, _sizes(static, (rows, columns)))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [1]), [False, True])))
    return p, {"T0": (rows, columns)}


TEMPLATES: dict[str, Template] = {
    "biased": biased,
    "transposed": transposed,
    "reshaped": reshaped,
    "widened": widened,
    "rotated": rotated,
    "sum of columns": summed(0),
    "sum of rows": summed(1),
    "sum of all": summed(0, 1),
    "extreme of columns": extreme(0),
    "extreme of rows": extreme(1),
    "spread of columns": spread(0),
    "spread of rows": spread(1),
    "spread of all": spread(0, 1),
    "two of three, outer and inner": two_of_three(0, 2),
    "two of three, middle": two_of_three(1),
    "kept beside sum": kept_beside_sum,
    "divided and summed": divided_and_summed,
    "reduced twice": reduced_twice,
    "centred": centred,
}
