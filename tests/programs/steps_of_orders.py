"""Steps that order elements, write to chosen places, and take parts of dimensions."""

from dataclasses import replace
from typing import Any

from tests.programs.growth import Growth
from tests.programs.program import Dim, Extent, InvalidProgramError, Ref, Size
from tests.programs.steps_of_places import INTEGERS, count_of, join
from tests.programs.values import Value
from warpsmith.ir.dtypes import DataType


def ordered(g: Growth) -> None:
    """A sort, or the first elements of one: of what is exact, and more than the order is used."""

    def is_exact(value: Value) -> bool:
        return bool(value.dims) and not value.wide.error.any() and bool(value.wide.value.size)

    name = g.pick(is_exact)
    if g.chance(0.3):  # equal elements
        kind = g.choice.choice((g.value(name).dtype, DataType.Float))
        name = g.new_input(kind, g.value(name).dims, "whole")
    dims = g.value(name).dims
    dim, falls = g.choice.randrange(len(dims)), g.chance(0.5)
    match g.choice.choice(("sort", "argsort", "topk", "topk")):
        case "sort":
            g.add("sort", Ref(name), dim, falls, results=2)
        case "argsort":
            g.add("argsort", Ref(name), dim, falls)
        case "topk":
            g.add("topk", Ref(name), Extent((count_of(g),)), dim, falls, results=2)


def written(g: Growth) -> None:
    """Elements of one tensor put into another, or added to it, where indices say."""
    op = g.choice.choice(("scatter", "scatter_add", "index_add", "index_copy", "embedding"))
    if op == "embedding":
        _rows_of_words(g)
        return
    name = g.pick(lambda v: bool(v.dims) and v.dtype is not DataType.Bool)
    value = g.value(name)
    dim = g.choice.randrange(len(value.dims))
    extent = g.meaning.program.extent(value.dims[dim])
    if extent == 0:
        raise InvalidProgramError("there is nothing to write to")
    many: Dim = g.choice.choice([(size,) for size in g.meaning.program.sizes])
    shape = (*value.dims[:dim], many, *value.dims[dim + 1 :])
    told = (many,) if op.startswith("index") else shape
    if not g.fits(shape):
        raise InvalidProgramError("too large")
    alike = [n for n, v in g.meaning.values.items() if (v.dims, v.dtype) == (shape, value.dtype)]
    source: Any = Ref(g.choice.choice(alike)) if alike and g.chance(0.7) else None
    if source is None:
        source = Ref(g.new_input(value.dtype, shape))
    drawn = Ref(g.new_input(g.choice.choice(INTEGERS), told))
    index = Ref(g.add("remainder", drawn, extent))
    if op.startswith("scatter") and g.chance(0.2):
        source = 2
    g.add(op, Ref(name), index, source, dim)


def _rows_of_words(g: Growth) -> None:
    name = g.pick(lambda v: len(v.dims) in (2, 3) and v.dtype.is_float)
    rows: Dim = g.choice.choice([(size,) for size in g.meaning.program.sizes])
    if g.meaning.program.extent(rows) == 0:
        raise InvalidProgramError("there are no rows")
    drawn = Ref(g.new_input(g.choice.choice(INTEGERS), g.value(name).dims[:-1]))
    index = Ref(g.add("remainder", drawn, g.meaning.program.extent(rows)))
    padding = g.choice.choice((-1, 0, 2))
    g.add("embedding_backward", Ref(name), index, Extent(rows), padding)


def parts(g: Growth) -> None:
    """Some elements of a dimension, or more than it has."""
    name = g.pick(lambda v: bool(v.dims))
    dims = g.value(name).dims
    if g.chance(0.2):
        join(g, name, g.choice.randrange(len(dims)))
        name = g.meaning.program.statements[-1].results[0]
        dims = g.value(name).dims
    counts = [d for d, dim in enumerate(dims) if dim[:1] in (("c2",), ("c3",))]
    kinds = ["narrow", "pad", "pad", "slice", "slice", *["chunk"] * len(counts)]
    kinds += ["unbind"] * any(len(dims[d]) == 1 for d in counts)
    kind = g.choice.choice(kinds)
    dim = g.choice.randrange(len(dims))
    if kind == "chunk":
        dim = g.choice.choice(counts)
        count = g.meaning.program.extent(dims[dim][:1])
        g.add("chunk", Ref(name), Extent(dims[dim][:1]), dim, results=count)
    elif kind == "unbind":
        dim = g.choice.choice([d for d in counts if len(dims[d]) == 1])
        g.add("unbind", Ref(name), dim, results=g.meaning.program.extent(dims[dim]))
    elif kind == "narrow":
        free: list[Dim] = [(size,) for size in g.meaning.program.sizes]
        start, length = g.choice.choice((0, 0, 1, 3, -1, -4)), g.choice.choice(free)
        _fix(g, dims[dim] + length)
        g.add("narrow", Ref(name), dim, start, Extent(length))
    elif kind == "pad":
        dim = len(dims) - 1 - g.choice.randrange(min(2, len(dims)))
        widths = g.choice.randint(-3, 4), g.choice.randint(-3, 4)
        _tie(g, dims[dim], g.meaning.program.extent(dims[dim]) + sum(widths))
        fill = 0 if g.value(name).dtype is DataType.Bool else g.choice.choice((0, 2, -1))
        g.add("pad", Ref(name), (*[0, 0] * (len(dims) - 1 - dim), *widths), fill)
    else:
        part = slice(
            g.choice.choice((0, 1, 2, -3, -50)),
            g.choice.choice((None, 5, -1, -2, 900)),
            g.choice.choice((1, 1, 2, 3)),
        )
        _tie(g, dims[dim], len(range(g.meaning.program.extent(dims[dim]))[part]))
        each = [part if d == dim else slice(0, None, 1) for d in range(len(dims))]
        bounds = zip(*((s.start, s.stop, s.step) for s in each), strict=True)
        g.add("slice", Ref(name), *bounds)


def _tie(g: Growth, dim: Dim, extent: int) -> None:
    """A size that follows from a dimension, which keeps its own from now on."""
    static = g.meaning.program.is_static(dim)
    if extent < 0 or not dim or (extent == 1 and static):
        raise InvalidProgramError("no such size")
    sizes = {f"p{extent}{'s' * static}": Size(extent, static, fixed=True)}
    g.meaning.program = replace(g.meaning.program, sizes=sizes | dict(g.meaning.program.sizes))
    _fix(g, dim)


def _fix(g: Growth, names: Dim) -> None:
    """Sizes that stay as they are where others are enlarged."""
    program = g.meaning.program
    sizes = {n: replace(s, fixed=s.fixed or n in names) for n, s in program.sizes.items()}
    g.meaning.program = replace(program, sizes=sizes)
