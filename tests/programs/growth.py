"""A random program while it grows: its values so far, and what adds to them.

Each statement is run by `meaning.py` as it is added. It is refused where it breaks a rule, where
its numbers run away, or where too little is known of them: what is left can be compared.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.programs.meaning import Meaning
from tests.programs.program import (
    Dim,
    Input,
    InvalidProgramError,
    Layout,
    Program,
    Ref,
    ScalarInput,
    Size,
    Statement,
)
from tests.programs.values import Value
from warpsmith.ir.dtypes import DataType

FLOATS = (DataType.Float, DataType.Float, DataType.BFloat16, DataType.Half, DataType.Double)
FLOAT8S = (DataType.Float8_e4m3fn, DataType.Float8_e5m2)
SMALL_INTS = (DataType.Int16, DataType.Int8, DataType.UInt8)
SMALL = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 24, 31, 32, 33, 40, 64)
MIDDLE = (96, 100, 127, 128, 130, 200, 256, 257, 512)
LARGE = (1000, 1024, 1031, 2048, 4096, 5000, 8192)

_MOST_UNKNOWN, _MOST_NAN, _MOST_SIZE = 0.2, 0.2, 1e7
_MOST_INPUTS = 7


@dataclass(frozen=True, slots=True)
class Budget:
    """How large programs may be.

    Attributes:
        operations: fewest and most steps; a step is an operation or a small group of them.
        elements: most elements of a tensor.
        products: most multiplications of one product.
        extents: to choose sizes from.
    """

    operations: tuple[int, int] = (2, 25)
    elements: int = 4096
    products: int = 2**18
    extents: tuple[int, ...] = (*SMALL, *SMALL, *MIDDLE, *LARGE)


class Growth:
    """A program of random inputs and statements; `choice` makes every decision."""

    def __init__(self, choice: random.Random, budget: Budget, seed: int) -> None:
        self.choice = choice
        self.budget = budget
        self.count = 0
        self._read = ""
        sizes = {f"n{k}": self.size() for k in range(choice.choice((2, 3, 3, 4)))}
        self.meaning = Meaning(Program(sizes, (), seed=seed))
        self.floats = [choice.choice(FLOATS) for _ in range(choice.choice((1, 1, 2)))]

    def chance(self, probability: float) -> bool:
        return self.choice.random() < probability

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count - 1}"

    def size(self) -> Size:
        extent = 0 if self.chance(0.015) else self.choice.choice(self.budget.extents)
        return Size(extent, static=extent != 1 and self.chance(0.3))

    def float_type(self) -> DataType:
        return self.choice.choice(self.floats)

    def some_dims(self) -> tuple[Dim, ...]:
        """Dimensions of a new tensor: some sizes, some 1, within the budget."""
        names = list(self.meaning.program.sizes)
        self.choice.shuffle(names)
        dims: list[Dim] = []
        for name in names[: self.choice.choice((1, 2, 2, 3, 3, 4))]:
            if self.fits([*dims, (name,)]):
                dims.append((name,))
        if self.chance(0.1):
            dims.insert(self.choice.randint(0, len(dims)), ())
        return tuple(dims)

    def elements(self, dims: Sequence[Dim]) -> int:
        return math.prod(self.meaning.program.shape(dims))

    def fits(self, dims: Sequence[Dim]) -> bool:
        return self.elements(dims) <= self.budget.elements and len(dims) <= 5

    def new_input(self, dtype: DataType, dims: tuple[Dim, ...], values: str = "") -> str:
        program = self.meaning.program
        if len(program.inputs) >= _MOST_INPUTS:
            raise InvalidProgramError("enough inputs")
        drawn = values or self.choice.choice(("normal",) * 5 + ("positive", "unit", "whole"))
        if not values and self.chance(0.03):
            drawn = "special"
        name = self.name("t")
        given = Input(name, dtype, dims, self.layout(dims), drawn, self.choice.randrange(1000))
        self.meaning.program = replace(program, inputs=(*program.inputs, given))
        self.meaning.give(given)
        return name

    def layout(self, dims: Sequence[Dim]) -> Layout:
        if self.chance(0.6):
            return Layout()
        order = list(range(len(dims)))
        if self.chance(0.5):
            self.choice.shuffle(order)
        real = [d for d in order if dims[d]]
        repeated = tuple(d for d in real if self.chance(0.06))
        gaps = tuple(d for d in real if d not in repeated and self.chance(0.25))
        order.sort(key=lambda d: d not in repeated)
        plain = order == list(range(len(dims)))
        offset = self.choice.choice((0, 0, 1, 2, 4))
        return Layout(() if plain else tuple(order), gaps, repeated, offset)

    def new_scalar(self, dtype: DataType) -> Ref:
        program = self.meaning.program
        if len(program.inputs) >= _MOST_INPUTS:
            raise InvalidProgramError("enough inputs")
        value: Any = round(self.choice.uniform(-2, 2), 3)
        if not dtype.is_float:
            value = self.choice.randint(1, 5)
        given = ScalarInput(self.name("s"), dtype, value)
        self.meaning.program = replace(program, inputs=(*program.inputs, given))
        self.meaning.give(given)
        return Ref(given.name)

    def value(self, name: str) -> Value:
        return self.meaning.values[name]

    def pick(self, fitting: Callable[[Value], bool] = lambda value: True) -> str:
        """A tensor that fits, more likely a late one; no 8-bit float, which only products take."""
        if self._read and fitting(self.value(self._read)):
            return self._read
        values = self.meaning.values.items()
        names = [name for name, v in values if v.dtype not in FLOAT8S and fitting(v)]
        if not names:
            raise InvalidProgramError("nothing fits")
        late = self.chance(0.6)
        return self.choice.choice(names[-3:] if late else names)

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Steps inside begin with this tensor, where it fits."""
        self._read = name
        try:
            yield
        finally:
            self._read = ""

    def add(self, op: str, *args: Any, results: int = 1, **options: Any) -> str:
        """Append a statement; InvalidProgramError where it or its numbers will not do."""
        names = tuple(self.name("t") for _ in range(results))
        statement = Statement(names, op, args, tuple(options.items()))
        before = self.meaning.program
        self.meaning.program = replace(before, statements=(*before.statements, statement))
        self.meaning.step(statement)
        for name in names:
            self.check(self.value(name))
        return names[0]

    def check(self, value: Value) -> None:
        if not self.fits(value.dims):
            raise InvalidProgramError("too large")
        found = value.wide
        if not found.value.size:
            return
        unknown = float(np.mean(found.unknown))
        nan = float(np.mean(np.isnan(found.value))) if value.dtype.is_float else 0.0
        known = np.abs(found.value[np.isfinite(found.value)]) if value.dtype.is_float else ()
        if unknown > _MOST_UNKNOWN or nan > _MOST_NAN or np.max(known, initial=0) > _MOST_SIZE:
            raise InvalidProgramError("too little is known")
