"""A tensor program as a value: sizes, inputs with layouts, statements, outputs; and as text.

A dimension is a product of named sizes, so a program stays the same program when its sizes change.
The text is Python that defines and runs it, and also what the tests run: there is no second way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warpsmith.ir.dtypes import DataType

Dim = tuple[str, ...]
"""Names of the sizes whose product the extent is, in order of memory; () is 1 by definition."""

Number = bool | int | float


class InvalidProgramError(Exception):
    """A program that breaks a rule of an operation, so that it has no meaning."""


@dataclass(frozen=True, slots=True)
class Size:
    """An extent; a static one is a constant of the definition, any other is known at each call. A
    fixed one follows from the program, such as how many tensors are joined.
    """

    extent: int
    static: bool = False
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of an input lie.

    Attributes:
        order: dimensions from the slowest in memory to the fastest; row-major if empty.
        gaps: dimensions whose stride is larger than the faster ones need.
        repeated: dimensions of stride 0; they come first in `order`.
        offset: elements between a 64-byte boundary and the first one.
    """

    order: tuple[int, ...] = ()
    gaps: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    offset: int = 0

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Elements from one index to the next, for each dimension."""
        found = [0] * len(shape)
        step = 1
        for d in reversed(self.order or range(len(shape))):
            if d in self.repeated:
                continue
            found[d] = step + (3 if step > 1 else 1) if d in self.gaps else step
            step = found[d] * shape[d] if shape[d] > 1 else step
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that the call gets; `values` names how its elements are drawn (`arrays.py`)."""

    name: str
    dtype: DataType
    dims: tuple[Dim, ...]
    layout: Layout = Layout()
    values: str = "normal"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number that the call gets."""

    name: str
    dtype: DataType
    value: Number


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor or a scalar input, as an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Extents, as an argument."""

    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """One extent, as an argument."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Statement:
    """`results = ops.op(*args, **options)`."""

    results: tuple[str, ...]
    op: str
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def reads(self) -> tuple[str, ...]:
        """Names of its operands, as often as they occur."""
        listed = (value if isinstance(value, tuple) else (value,) for value in self.args)
        values = (*(each for some in listed for each in some), *(v for _, v in self.options))
        return tuple(value.name for value in values if isinstance(value, Ref))


@dataclass(frozen=True, slots=True)
class Program:
    """Inputs, statements in order, and outputs: names, each with the input that it is written to.

    Attributes:
        outputs: (name, alias), where the alias is the name of an input, or empty.
    """

    sizes: Mapping[str, Size]
    inputs: tuple[Input | ScalarInput, ...]
    statements: tuple[Statement, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    seed: int = field(default=0, compare=False)

    def small(self) -> Program:
        """The program with sizes of at most 3, but for fixed ones: it keeps the same rules."""
        sizes = {
            name: s if s.fixed else replace(s, extent=min(s.extent, 3))
            for name, s in self.sizes.items()
        }
        return replace(self, sizes=sizes)

    def extent(self, dim: Dim) -> int:
        return math.prod(self.sizes[name].extent for name in dim)

    def shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(self.extent(dim) for dim in dims)

    def is_static(self, dim: Dim) -> bool:
        return all(self.sizes[name].static for name in dim)

    def spelled(self, dim: Dim) -> str:
        """The extent in the program's text. InvalidProgramError where no input tells it."""
        if self.is_static(dim):
            return str(self.extent(dim))
        for given in self.inputs:
            if isinstance(given, Input) and dim in given.dims:
                return f"ops.size({given.name}, {given.dims.index(dim)})"
        if len(dim) < 2:
            raise InvalidProgramError(f"no input has the size {dim}")
        return " * ".join(self.spelled((name,)) for name in dim)

    def text(self) -> str:
        """Python that defines the fusion as `fd`, with `inputs` for one call, and validates it."""
        return "\n".join((*self._header(), *self._definition(), "fd.validate(inputs)\n"))

    def definition(self) -> str:
        """`text` without the call."""
        return "\n".join((*self._header(), *self._definition(), ""))

    def _header(self) -> Iterator[str]:
        yield "from tests.programs.arrays import array"
        yield "from tests.programs.program import Layout"
        yield "from warpsmith import DataType, FusionDefinition"
        yield ""
        yield "inputs = ["
        for given in self.inputs:
            if isinstance(given, ScalarInput):
                yield f"    {_text(given.value)},"
                continue
            shape = self.shape(given.dims)
            parts = [_text(given.dtype), _text(shape), _layout_text(given.layout)]
            parts += [f"{given.values!r}", f"{given.seed}"]
            yield f"    array({', '.join(parts)}),"
        yield "]"

    def _definition(self) -> Iterator[str]:
        yield "with FusionDefinition() as fd:"
        yield "    ops = fd.ops"
        for given in self.inputs:
            yield f"    {given.name} = {self._defined(given)}"
        for statement in self.statements:
            args = [self._argument(value) for value in statement.args]
            args += [f"{name}={self._argument(value)}" for name, value in statement.options]
            yield f"    {', '.join(statement.results)} = ops.{statement.op}({', '.join(args)})"
        for name, alias in self.outputs:
            yield f"    fd.add_output({name}{', ' + alias if alias else ''})"

    def _defined(self, given: Input | ScalarInput) -> str:
        if isinstance(given, ScalarInput):
            return f"fd.define_scalar({_text(given.dtype)})"
        shape = [self.extent(d) if self.is_static(d) else -1 for d in given.dims]
        layout = given.layout
        order = layout.order or tuple(range(len(shape)))
        irregular = (*layout.gaps, *layout.repeated)
        flags = [None if not given.dims[d] else d not in irregular for d in order]
        text = f"shape={shape}, contiguity={flags}, dtype={_text(given.dtype)}"
        if layout.order:
            ranks = [len(order) - 1 - order.index(d) for d in range(len(order))]
            text += f", stride_order={ranks}"
        return f"fd.define_tensor({text})"

    def _argument(self, value: Any) -> str:
        if isinstance(value, Ref):
            return value.name
        if isinstance(value, Shape):
            return f"[{', '.join(map(self.spelled, value.dims))}]"
        if isinstance(value, Extent):
            return self.spelled(value.dim)
        if isinstance(value, tuple):
            return f"[{', '.join(map(self._argument, value))}]"
        return _text(value)


def _layout_text(layout: Layout) -> str:
    plain = Layout()
    parts = [
        f"{name}={getattr(layout, name)}"
        for name in Layout.__slots__
        if getattr(layout, name) != getattr(plain, name)
    ]
    return f"Layout({', '.join(parts)})"


def _text(value: Any) -> str:
    if isinstance(value, DataType):
        return f"DataType.{value.name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)
