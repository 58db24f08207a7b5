"""Steps that multiply with sums: in all types, with results in any."""

import math
from collections.abc import Sequence
from typing import Any

from tests.programs.growth import FLOAT8S, FLOATS, Growth
from tests.programs.program import Dim, InvalidProgramError, Ref
from tests.programs.values import Value
from warpsmith import FusionDefinition
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType


def product(g: Growth) -> None:
    name = g.pick(lambda value: bool(value.dims) and value.dtype in PRODUCT_TYPES)
    value = g.value(name)
    kinds = ["matmul", "matmul", "linear", "linear", "left", "einsum", "einsum"]
    kinds += {1: ["dot"], 2: ["addmm", "mv"], 3: ["bmm", "baddbmm"]}.get(len(value.dims), [])
    kind = g.choice.choice(kinds)
    if kind == "einsum":
        _einsum(g, name, value)
        return
    n = _free_dim(g, value.dims)
    k = value.dims[-1]
    dtype = value.dtype
    if kind == "linear":
        weight = _other(g, dtype, (n, k) if g.chance(0.9) else (k,), value)
        bias = []
        if g.chance(0.4) and len(g.value(weight).dims) == 2:
            bias = [Ref(g.new_input(dtype, (n,)))]
        g.add("linear", Ref(name), Ref(weight), *bias, **_options(g, dtype))
        return
    if kind == "left":
        inner = value.dims[-2] if len(value.dims) > 1 else k
        batches = value.dims[:-2] if g.chance(0.4) else ()
        left = _other(g, dtype, (*batches, n, inner), value)
        g.add("matmul", Ref(left), Ref(name), **_options(g, dtype))
        return
    if kind == "addmm":
        other = _other(g, dtype, (k, n), value)
        added = g.new_input(dtype, (n,) if g.chance(0.5) else (value.dims[0], n))
        g.add("addmm", Ref(added), Ref(name), Ref(other), **_factors(g, dtype))
        return
    if kind in ("dot", "mv"):
        options = _options(g, dtype)
        options.pop("precision", None)
        g.add(kind, Ref(name), Ref(_other(g, dtype, (k,), value)), **options)
        return
    if kind == "baddbmm":
        batch, m, _ = value.dims
        added = g.new_input(dtype, (batch, m, n))
        other = _other(g, dtype, (batch, k, n), value)
        g.add(kind, Ref(added), Ref(name), Ref(other), **_factors(g, dtype))
        return
    batches = value.dims[:-2] if g.chance(0.5) or kind == "bmm" else ()
    if g.chance(0.3):  # as scores in attention: with a transpose
        other = g.add("transpose", Ref(_other(g, dtype, (*batches, n, k), value)), -2, -1)
    elif g.chance(0.1):
        other = _other(g, dtype, (k,), value)
    else:
        other = _other(g, dtype, (*batches, k, n), value)
    g.add(kind, Ref(name), Ref(other), **_options(g, dtype))


def by_group(g: Growth) -> None:
    """Rows by the matrix of their group, whose ends the caller knows, or which are counted."""
    name = g.pick(lambda v: len(v.dims) in (2, 3) and v.dtype in FLOATS)
    value = g.value(name)
    groups = value.dims[0] if len(value.dims) == 3 else _free_dim(g, ())
    weight = _other(g, value.dtype, (groups, _free_dim(g, ()), value.dims[-1]), value)
    kind = g.choice.choice((DataType.Int, DataType.Int32))
    ends = Ref(g.new_input(kind, (groups,), g.choice.choice(("ends", "ends", "normal"))))
    if g.chance(0.3):
        ends = Ref(g.add("minimum", ends, g.meaning.program.extent(value.dims[-2])))
    g.add("grouped_matmul", Ref(name), Ref(weight), ends, **_options(g, value.dtype))


def of_rows(g: Growth) -> None:
    """Rows that an index chooses, by a matrix, or by that of their group."""
    dtype, sizes = g.choice.choice((DataType.BFloat16, DataType.Half)), g.meaning.program.sizes
    whole: list[Dim] = [(name,) for name, size in sizes.items() if size.extent % 8 == 0]
    rows, m, n = (_free_dim(g, ()) for _ in range(3))
    k = g.choice.choice(whole) if whole and g.chance(0.9) else _free_dim(g, ())
    extent = g.meaning.program.extent(rows)
    if extent == 0 or not g.fits((rows, k)) or not g.fits((m, k)):
        raise InvalidProgramError("nothing to choose, or too large")
    x = g.new_input(dtype, (rows, k))
    drawn = g.new_input(g.choice.choice((DataType.Int, DataType.Int32)), (m,))
    index = Ref(g.add("remainder", Ref(drawn), extent))
    if g.chance(0.3):
        found = g.add("embedding", index, Ref(x))
    else:
        found = g.add("index_select", Ref(x), index, 0)
    if g.chance(0.6):
        g.add("linear", Ref(found), Ref(_other(g, dtype, (n, k), g.value(found))))
        return
    groups = _free_dim(g, ())
    weight = _other(g, dtype, (groups, n, k), g.value(found))
    ends = Ref(g.new_input(DataType.Int32, (groups,), "ends"))
    g.add("grouped_matmul", Ref(found), Ref(weight), ends)


def of_bytes(g: Growth) -> None:
    """Products of bytes, which give Int32, and of 8-bit floats, which give Float."""
    first = g.choice.choice((DataType.Int8, DataType.UInt8, *FLOAT8S))
    second = g.choice.choice(FLOAT8S) if first.is_float else first
    batch, m, n, k = (_free_dim(g, ()) for _ in range(4))
    kind = g.choice.choice(("matmul", "linear", "bmm", "einsum"))
    batches = (batch,) if kind == "bmm" else ()
    if not g.fits((*batches, m, k)):
        raise InvalidProgramError("too large")
    drawn = g.choice.choice(("normal", "unit", "whole"))
    a = g.new_input(first, (*batches, m, k), drawn)
    b = _other(g, second, (n, k) if kind == "linear" else (*batches, k, n), g.value(a))
    equation = (g.choice.choice(("ab,bc->ac", "ab,bc->ca")),) if kind == "einsum" else ()
    g.add(kind, *equation, Ref(a), Ref(b), **_options(g, first))


def _options(g: Growth, dtype: DataType) -> dict[str, Any]:
    """A type for the result, and leave to lose some of its bits."""
    options: dict[str, Any] = {}
    if g.chance(0.2):
        options["dtype"] = g.choice.choice((*FLOATS, DataType.Int32))
    if g.chance(0.3) and (dtype is DataType.Float or dtype.is_float8):
        options["precision"] = "tf32" if dtype is DataType.Float else "fast"
    return options


def _factors(g: Growth, dtype: DataType) -> dict[str, Any]:
    """The same, with what multiplies both terms."""
    some = (0, 1, -1.5, 0.25) if dtype.is_float else (0, 1, -2, 3)
    names = [name for name in ("beta", "alpha") if g.chance(0.3)]
    return {name: g.choice.choice(some) for name in names} | _options(g, dtype)


def _einsum(g: Growth, name: str, value: Value) -> None:
    """Dimensions are summed, in both operands, or in one alone, in any order."""
    own = "abcdefgh"[: len(value.dims)]
    summed = {letter for letter in own if g.chance(0.3)} or {own[-1]}
    both = {letter for letter in own if letter not in summed and g.chance(0.3)}
    dims = dict(zip(own, value.dims, strict=True))
    if g.chance(0.8):
        dims["z"] = _free_dim(g, value.dims)
    other = [letter for letter in dims if letter in summed | both or letter == "z"]
    kept = [letter for letter in dims if letter not in summed]
    g.choice.shuffle(other)
    if g.chance(0.5):
        g.choice.shuffle(kept)
    beside = _other(g, value.dtype, tuple(dims[letter] for letter in other), value)
    equation = f"{own},{''.join(other)}->{''.join(kept)}"
    g.add("einsum", equation, Ref(name), Ref(beside), **_options(g, value.dtype))


def _free_dim(g: Growth, dims: Sequence[Dim]) -> Dim:
    names: list[Dim] = [(name,) for name in g.meaning.program.sizes]
    return g.choice.choice(names + [()] * g.chance(0.05))


def _other(g: Growth, dtype: DataType, dims: tuple[Dim, ...], beside: Value) -> str:
    """A second factor: one of the program that fits, or a new input."""
    extents = g.meaning.program.shape(dims)
    rows = math.prod(g.meaning.program.shape(beside.dims))
    if (
        not g.fits(dims)
        or rows * extents[0] * (extents[-1] if len(extents) > 1 else 1) > g.budget.products * 8
    ):
        raise InvalidProgramError("too large")
    fitting = [
        name
        for name, value in g.meaning.values.items()
        if value.dims == dims and value.dtype is dtype
    ]
    if fitting and g.chance(0.5):
        return g.choice.choice(fitting)
    return g.new_input(dtype, dims)


def _product_types() -> tuple[DataType, ...]:
    """The types that products take, as they say."""
    found = []
    for dtype in (*dict.fromkeys(FLOATS), DataType.Int32, DataType.Int):
        with FusionDefinition() as fd:
            a = fd.define_tensor(shape=[2, 2], contiguity=True, dtype=dtype)
            try:
                fd.ops.matmul(a, a)
            except DefinitionError:
                continue
            found.append(dtype)
    return tuple(found)


PRODUCT_TYPES = _product_types()
