"""Random programs, grown statement by statement from one seed.

Each statement is run by `meaning.py` as it is added, and taken back where it breaks a rule, where
its numbers run away, or where too little is known of them: what is left can be compared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.programs.meaning import Meaning, Value
from tests.programs.program import (
    Dim,
    Extent,
    Input,
    InvalidProgramError,
    Layout,
    Program,
    Ref,
    ScalarInput,
    Shape,
    Size,
    Statement,
)
from warpsmith import ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE
from warpsmith.ops.table.op import Rule

FLOATS = (DataType.Float, DataType.Float, DataType.BFloat16, DataType.Half, DataType.Double)
OTHERS = (DataType.Int32, DataType.Int, DataType.Bool)
SMALL = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 24, 31, 32, 33, 40, 64)
MIDDLE = (96, 100, 127, 128, 130, 200, 256, 257, 512)
LARGE = (1000, 1024, 1031, 2048, 4096, 5000, 8192)

_MOST_UNKNOWN, _MOST_NAN, _MOST_SIZE = 0.2, 0.2, 1e7
_MOST_INPUTS, _MOST_OUTPUTS, _TRIES = 7, 6, 12

# Operations whose results run away or leave the numbers unless the operand is near zero, or above.
_NARROW = ("exp", "exp2", "expm1", "sinh", "cosh", "tan", "erfinv", "asin", "acos", "atanh", "pow")
_ABOVE = ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "lgamma", "acosh", "log1p")
_DIVIDES = ("div", "truediv", "remainder", "fmod", "floor_divide", "mod")


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


SIMULATED = Budget(operations=(2, 12), elements=1024, products=2**15, extents=(*SMALL, *MIDDLE))
"""What the simulator runs in about a second."""


TINY = Budget(operations=(1, 3), elements=256, products=2**12, extents=(1, 2, 3, 5, 8, 16, 17, 33))
"""What the simulator runs in an instant: most of the time is the compiler's."""


def generate(seed: int, budget: Budget = Budget()) -> Program:  # frozen
    """The program of this seed."""
    return _Grower(random.Random(seed), budget, seed).program()


class _Grower:
    def __init__(self, choice: random.Random, budget: Budget, seed: int) -> None:
        self._choice = choice
        self._budget = budget
        self._count = 0
        sizes = {f"n{k}": self._size() for k in range(choice.choice((2, 3, 3, 4)))}
        self._meaning = Meaning(Program(sizes, (), seed=seed))
        self._floats = [choice.choice(FLOATS) for _ in range(choice.choice((1, 1, 2)))]

    # --- the whole ---------------------------------------------------------------------------

    def program(self) -> Program:
        first = self._new_input(self._float_type(), self._some_dims())
        for _ in range(self._choice.randint(*self._budget.operations)):
            self._step()
        program = self._meaning.program
        if not program.statements:
            self._add("neg", Ref(first))
            program = self._meaning.program
        return replace(program, outputs=tuple(self._outputs(program)))

    def _outputs(self, program: Program) -> Iterable[tuple[str, str]]:
        made = [name for statement in program.statements for name in statement.results]
        used = {name for statement in program.statements for name in statement.reads()}
        ends = [name for name in made if name not in used and name != made[-1]]
        between = [name for name in made[:-1] if name in used and self._chance(0.15)]
        inputs = [given.name for given in program.inputs if isinstance(given, Input)]
        chosen = [made[-1], *(name for name in ends if self._chance(0.8)), *between]
        if self._chance(0.03):
            chosen.append(self._choice.choice(inputs))
        aliased: set[str] = set()
        for name in chosen[:_MOST_OUTPUTS]:
            alias = ""
            if self._chance(0.04):
                alias = self._alias(name, program, aliased)
            aliased.add(alias)
            yield name, alias

    def _alias(self, name: str, program: Program, taken: set[str]) -> str:
        value = self._meaning.values[name]
        for given in program.inputs:
            if isinstance(given, Input) and given.name not in taken and not given.layout.repeated:
                same = (given.dtype, given.dims) == (value.dtype, value.dims)
                if same and given.name != name:
                    return given.name
        return ""

    def _step(self) -> None:
        steps: list[tuple[int, Callable[[], None]]] = [
            (40, self._pointwise),
            (8, self._cast),
            (14, self._move),
            (16, self._reduce),
            (14, self._product),
            (8, self._norm),
            (4, self._from_scalars),
            (3, self._dropout),
            (4, self._choose),
        ]
        weights, functions = zip(*steps, strict=True)
        for _ in range(_TRIES):
            before = (self._meaning.program, dict(self._meaning.values), self._count)
            scalars = dict(self._meaning.scalars)
            try:
                self._choice.choices(functions, weights)[0]()
            except InvalidProgramError:
                pass
            else:
                if len(self._meaning.program.statements) > len(before[0].statements):
                    return
            self._meaning.program, self._meaning.values, self._count = before
            self._meaning.scalars = scalars

    # --- pieces ------------------------------------------------------------------------------

    def _chance(self, probability: float) -> bool:
        return self._choice.random() < probability

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count - 1}"

    def _size(self) -> Size:
        extent = 0 if self._chance(0.015) else self._choice.choice(self._budget.extents)
        return Size(extent, static=extent != 1 and self._chance(0.3))

    def _float_type(self) -> DataType:
        return self._choice.choice(self._floats)

    def _some_dims(self) -> tuple[Dim, ...]:
        """Dimensions of a new tensor: some sizes, some 1, within the budget."""
        names = list(self._meaning.program.sizes)
        self._choice.shuffle(names)
        dims: list[Dim] = []
        for name in names[: self._choice.choice((1, 2, 2, 3, 3, 4))]:
            if self._fits([*dims, (name,)]):
                dims.append((name,))
        if self._chance(0.1):
            dims.insert(self._choice.randint(0, len(dims)), ())
        return tuple(dims)

    def _elements(self, dims: Sequence[Dim]) -> int:
        return math.prod(self._meaning.program.shape(dims))

    def _fits(self, dims: Sequence[Dim]) -> bool:
        return self._elements(dims) <= self._budget.elements and len(dims) <= 5

    def _new_input(self, dtype: DataType, dims: tuple[Dim, ...], values: str = "") -> str:
        program = self._meaning.program
        if len(program.inputs) >= _MOST_INPUTS:
            raise InvalidProgramError("enough inputs")
        drawn = values or self._choice.choice(("normal",) * 5 + ("positive", "unit", "whole"))
        if not values and self._chance(0.03):
            drawn = "special"
        name = self._name("t")
        given = Input(name, dtype, dims, self._layout(dims), drawn, self._choice.randrange(1000))
        self._meaning.program = replace(program, inputs=(*program.inputs, given))
        self._meaning.give(given)
        return name

    def _layout(self, dims: Sequence[Dim]) -> Layout:
        if self._chance(0.6):
            return Layout()
        order = list(range(len(dims)))
        if self._chance(0.5):
            self._choice.shuffle(order)
        real = [d for d in order if dims[d]]
        repeated = tuple(d for d in real if self._chance(0.06))
        gaps = tuple(d for d in real if d not in repeated and self._chance(0.25))
        order.sort(key=lambda d: d not in repeated)
        plain = order == list(range(len(dims)))
        offset = self._choice.choice((0, 0, 1, 2, 4))
        return Layout(() if plain else tuple(order), gaps, repeated, offset)

    def _new_scalar(self, dtype: DataType) -> Ref:
        program = self._meaning.program
        if len(program.inputs) >= _MOST_INPUTS:
            raise InvalidProgramError("enough inputs")
        value: Any = round(self._choice.uniform(-2, 2), 3)
        if not dtype.is_float:
            value = self._choice.randint(1, 5)
        given = ScalarInput(self._name("s"), dtype, value)
        self._meaning.program = replace(program, inputs=(*program.inputs, given))
        self._meaning.give(given)
        return Ref(given.name)

    def _value(self, name: str) -> Value:
        return self._meaning.values[name]

    def _pick(self, fitting: Callable[[Value], bool] = lambda value: True) -> str:
        """A tensor that fits, more likely a late one."""
        names = [name for name, value in self._meaning.values.items() if fitting(value)]
        if not names:
            raise InvalidProgramError("nothing fits")
        late = self._chance(0.6)
        return self._choice.choice(names[-3:] if late else names)

    def _add(self, op: str, *args: Any, results: int = 1, **options: Any) -> str:
        """Append a statement; InvalidProgramError where it or its numbers will not do."""
        names = tuple(self._name("t") for _ in range(results))
        statement = Statement(names, op, args, tuple(options.items()))
        before = self._meaning.program
        self._meaning.program = replace(before, statements=(*before.statements, statement))
        self._meaning.step(statement)
        for name in names:
            self._check(self._value(name))
        return names[0]

    def _check(self, value: Value) -> None:
        if not self._fits(value.dims):
            raise InvalidProgramError("too large")
        found = value.wide
        if not found.value.size:
            return
        unknown = float(np.mean(found.unknown))
        nan = float(np.mean(np.isnan(found.value))) if value.dtype.is_float else 0.0
        known = np.abs(found.value[np.isfinite(found.value)]) if value.dtype.is_float else ()
        if unknown > _MOST_UNKNOWN or nan > _MOST_NAN or np.max(known, initial=0) > _MOST_SIZE:
            raise InvalidProgramError("too little is known")

    # --- steps -------------------------------------------------------------------------------

    def _pointwise(self) -> None:
        op = TABLE[self._choice.choice(self._pointwise_names())]
        common = ("add", "mul", "sub", "div", "exp", "tanh", "maximum", "where", "neg", "silu")
        if self._chance(0.45):
            op = TABLE[self._choice.choice(common)]
        name = op.name
        if self._chance(0.02):
            name = "floor_divide"
        arity = 2 if name == "floor_divide" else op.arity
        first = self._pick(lambda value: self._takes(op, value.dtype, 0))
        if name in _NARROW and self._chance(0.7):
            first = self._add("tanh", Ref(first))
        if name in _ABOVE and self._chance(0.8):
            first = self._add("add", Ref(self._add("abs", Ref(first))), 0.5)
        args: list[Any] = [Ref(first)]
        for position in range(1, arity):
            above = position == 1 and name in _DIVIDES
            args.append(self._partner(op, first, position, above))
        if op.conditions and self._value(first).dtype is not DataType.Bool:
            args[0] = Ref(self._add("gt", Ref(first), 0))
        if arity == 2 and self._chance(0.15):
            args.reverse()
        self._add(name, *args)

    @staticmethod
    def _pointwise_names() -> list[str]:
        return [name for name in TABLE if name != "philox"]

    @staticmethod
    def _takes(op: Any, dtype: DataType, position: int) -> bool:
        if op.rule is Rule.INTEGER:
            return dtype in (DataType.Int, DataType.Int32) and op.supports(dtype)
        return position < op.conditions or bool(op.supports(dtype))

    def _partner(self, op: Any, first: str, position: int, above: bool) -> Any:
        """Another operand beside `first`: a tensor of the program, a new one, or a number."""
        value = self._value(first)
        integral = not value.dtype.is_float
        if self._chance(0.2):
            if integral:
                return self._choice.randint(1, 6)
            return round(self._choice.uniform(0.5 if above else -2, 2), 2)
        if self._chance(0.06):
            return self._new_scalar(DataType.Int if integral else DataType.Double)
        if self._chance(0.1) and not above:
            return Ref(first)

        def fits(other: Value) -> bool:
            joined = self._joined(value.dims, other.dims)
            same = other.dtype.is_float == value.dtype.is_float
            return (
                joined is not None
                and self._fits(joined)
                and same
                and self._takes(op, other.dtype, position)
            )

        if not above and self._chance(0.75):
            return Ref(self._pick(fits))
        if above and self._chance(0.5) and not integral:
            divisor = self._pick(fits)
            return Ref(self._add("add", Ref(self._add("abs", Ref(divisor))), 0.5))
        dims = [dim if self._chance(0.8) else () for dim in value.dims]
        if self._chance(0.3):
            dims = dims[self._choice.randint(0, len(dims)) :]
        dtype = value.dtype if self._chance(0.7) or integral else self._float_type()
        return Ref(self._new_input(dtype, tuple(dims), "positive" if above else ""))

    @staticmethod
    def _joined(a: Sequence[Dim], b: Sequence[Dim]) -> list[Dim] | None:
        rank = max(len(a), len(b))
        wide = [((),) * (rank - len(dims)) + tuple(dims) for dims in (a, b)]
        if any(x and y and x != y for x, y in zip(*wide, strict=True)):
            return None
        return [x or y for x, y in zip(*wide, strict=True)]

    def _cast(self) -> None:
        source = self._pick()
        if self._chance(0.15):
            self._add("set", Ref(source))
            return
        dtype = self._float_type() if self._chance(0.7) else self._choice.choice((*FLOATS, *OTHERS))
        self._add("cast", Ref(source), dtype)

    def _choose(self) -> None:
        """Bools and integers, and tensors that are chosen by them."""
        source = self._pick(lambda value: value.dtype.is_float)
        match self._choice.randint(0, 2):
            case 0:
                condition = self._add(self._choice.choice(("gt", "le", "lt", "ge")), Ref(source), 0)
                self._add("where", Ref(condition), Ref(source), self._choice.choice((0, -1.5)))
            case 1:
                dims = self._value(source).dims
                mask = self._new_input(DataType.Bool, dims)
                self._add("where", Ref(mask), Ref(source), -2.0)
            case 2:
                dims = self._value(source).dims
                whole = self._new_input(self._choice.choice(OTHERS[:2]), dims)
                self._add("mul", Ref(source), Ref(whole))

    def _move(self) -> None:
        name = self._pick()
        dims = self._value(name).dims
        rank = len(dims)
        kinds = [self._broadcast]
        if rank:
            kinds += [self._merge, self._split_again, self._expand]
        if rank > 1:
            kinds += [self._permute, self._permute]
        if () in dims:
            kinds += [self._squeeze, self._expand, self._squeeze]
        self._choice.choice(kinds)(name, dims)

    def _permute(self, name: str, dims: Sequence[Dim]) -> None:
        if self._chance(0.3):
            pair = self._choice.sample(range(len(dims)), 2)
            self._add("transpose", Ref(name), *pair)
            return
        order = list(range(len(dims)))
        self._choice.shuffle(order)
        op = "stride_order" if self._chance(0.1) else "permute"
        self._add(op, Ref(name), tuple(order))

    def _broadcast(self, name: str, dims: Sequence[Dim]) -> None:
        place = self._choice.randint(0, len(dims))
        flags = [False] * len(dims)
        flags.insert(place, True)
        wide = self._add("broadcast", Ref(name), tuple(flags))
        if self._chance(0.5):
            self._expand(wide, self._value(wide).dims)

    def _expand(self, name: str, dims: Sequence[Dim]) -> None:
        names = [(size,) for size in self._meaning.program.sizes if (size,) not in dims]
        if () not in dims or not names:
            raise InvalidProgramError("nothing to expand")
        place = list(dims).index(())
        wanted = [*dims[:place], self._choice.choice(names), *dims[place + 1 :]]
        if self._chance(0.3):
            kept = [d for d in range(len(dims)) if d != place or self._chance(0.5)]
            if place not in kept:
                narrow = self._add("squeeze", Ref(name), (place,))
                self._add("broadcast_in_dim", Ref(narrow), Shape(tuple(wanted)), tuple(kept))
                return
        self._add("expand", Ref(name), Shape(tuple(wanted)))

    def _squeeze(self, name: str, dims: Sequence[Dim]) -> None:
        self._add(
            "squeeze",
            Ref(name),
            (self._choice.choice([d for d, dim in enumerate(dims) if not dim]),),
        )

    def _merge(self, name: str, dims: Sequence[Dim]) -> None:
        """Some neighbours become one dimension."""
        first = self._choice.randrange(len(dims))
        last = self._choice.randint(first, len(dims) - 1)
        merged = sum(dims[first : last + 1], ())
        wanted = (*dims[:first], merged, *dims[last + 1 :])
        if self._chance(0.2):
            wanted = (*wanted, ())
        self._add("reshape", Ref(name), Shape(tuple(wanted)))

    def _split_again(self, name: str, dims: Sequence[Dim]) -> None:
        """A dimension of several sizes comes apart, or all of them are laid out anew."""
        long = [d for d, dim in enumerate(dims) if len(dim) > 1]
        if not long:
            raise InvalidProgramError("nothing to split")
        d = self._choice.choice(long)
        cut = self._choice.randint(1, len(dims[d]) - 1)
        wanted = (*dims[:d], dims[d][:cut], dims[d][cut:], *dims[d + 1 :])
        self._add("reshape", Ref(name), Shape(tuple(wanted)))

    def _gone(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        if self._chance(0.5):
            return (self._choice.choice((len(dims) - 1, self._choice.randrange(len(dims)))),)
        found = tuple(d for d in range(len(dims)) if self._chance(0.5))
        return found or (len(dims) - 1,)

    def _reduce(self) -> None:
        op = self._choice.choice(
            ("sum", "sum", "sum", "mean", "max", "min", "prod", "var", "var_mean", "welford")
        )
        floats = op in ("mean", "var", "var_mean", "welford", "prod")
        name = self._pick(lambda v: bool(v.dims) and (v.dtype.is_float or not floats))
        gone: Any = self._gone(self._value(name).dims)
        keepdim = self._chance(0.5)
        if op == "prod" and self._elements(self._value(name).dims) > 64:
            name = self._add("add", Ref(self._add("mul", Ref(name), 0.05)), 1.0)
        if op == "welford":
            self._add(op, Ref(name), gone, results=3)
            return
        if self._chance(0.05):
            gone = None
        options: dict[str, Any] = {"keepdim": True} if keepdim else {}
        if op in ("var", "var_mean") and self._chance(0.4):
            options["correction"] = self._choice.choice((0, 1, 0.5))
        if op in ("sum", "prod") and self._chance(0.1):
            options["dtype"] = self._choice.choice((DataType.Float, DataType.Double))
        reduced = self._add(op, Ref(name), gone, results=2 if op == "var_mean" else 1, **options)
        if keepdim and self._chance(0.5) and op in ("sum", "mean", "max", "min"):
            self._add("sub", Ref(name), Ref(reduced))

    def _norm(self) -> None:
        """A softmax or a norm over one or more dimensions, written out."""
        name = self._pick(lambda value: bool(value.dims) and value.dtype.is_float)
        dtype = self._value(name).dtype
        gone = self._gone(self._value(name).dims)
        kind = self._choice.choice(("softmax", "log_softmax", "layer", "rms"))
        if kind in ("softmax", "log_softmax"):
            top = self._add("max", Ref(name), gone, keepdim=True)
            low = self._add("sub", Ref(name), Ref(top))
            power = self._add("exp", Ref(low))
            total = self._add("sum", Ref(power), gone, keepdim=True)
            if kind == "softmax":
                self._add("div", Ref(power), Ref(total))
            else:
                self._add("sub", Ref(low), Ref(self._add("log", Ref(total))))
            return
        if kind == "layer":
            variance = self._add("var_mean", Ref(name), gone, results=2, correction=0, keepdim=True)
            mean = self._meaning.program.statements[-1].results[1]
            centered = self._add("sub", Ref(name), Ref(mean))
        else:
            variance = self._add(
                "mean", Ref(self._add("mul", Ref(name), Ref(name))), gone, keepdim=True
            )
            centered = name
        scale = self._add("rsqrt", Ref(self._add("add", Ref(variance), 1e-3)))
        scaled = self._add("mul", Ref(centered), Ref(scale))
        if self._chance(0.6):
            kept = tuple(dim if d in gone else () for d, dim in enumerate(self._value(name).dims))[
                min(gone) :
            ]
            weight = self._new_input(dtype, kept)
            self._add("mul", Ref(scaled), Ref(weight))

    def _dropout(self) -> None:
        name = self._pick(lambda value: value.dtype.is_float)
        self._add(
            "dropout",
            Ref(name),
            self._choice.choice((0.1, 0.5)),
            results=2,
            rng_seed=self._seed(),
            rng_offset=self._choice.randrange(4),
        )

    def _seed(self) -> Any:
        return self._new_scalar(DataType.Int) if self._chance(0.3) else self._choice.randrange(99)

    def _from_scalars(self) -> None:
        other = self._value(self._pick())
        shape = Shape(other.dims)
        match self._choice.randint(0, 4):
            case 0:
                self._add("full", shape, round(self._choice.uniform(-2, 2), 2), self._float_type())
            case 1:
                self._add("full_like", Ref(self._pick(lambda v: v.dtype.is_float)), 0.5)
            case 2:
                dtype = self._choice.choice((DataType.Int, DataType.Int32, DataType.Float))
                if not other.dims:
                    raise InvalidProgramError("no extent")
                places = self._add(
                    "iota",
                    Extent(other.dims[-1]),
                    self._choice.randint(-3, 3),
                    self._choice.choice((1, 2)),
                    dtype,
                )
                self._add("mul", Ref(places), self._choice.choice((0.25, 0.5)))
            case 3:
                self._add(
                    "uniform",
                    0,
                    1,
                    shape,
                    rng_seed=self._seed(),
                    rng_offset=1,
                    dtype=DataType.Float,
                )
            case 4:
                self._add(
                    "normal",
                    0.5,
                    2.0,
                    shape,
                    rng_seed=self._seed(),
                    rng_offset=2,
                    dtype=DataType.Float,
                )

    def _product(self) -> None:
        name = self._pick(lambda value: bool(value.dims) and value.dtype in PRODUCT_TYPES)
        value = self._value(name)
        kinds = ["matmul", "matmul", "linear", "linear", "left"]
        kinds += [kind for kind in ("bmm", "addmm") if kind in ops.__all__]
        kind = self._choice.choice(kinds)
        n = self._free_dim(value.dims)
        k = value.dims[-1]
        dtype = value.dtype
        if kind == "linear":
            weight = self._other(dtype, (n, k) if self._chance(0.9) else (k,), value)
            bias = []
            if self._chance(0.4) and len(self._value(weight).dims) == 2:
                bias = [Ref(self._new_input(dtype, (n,)))]
            self._add("linear", Ref(name), Ref(weight), *bias)
            return
        if kind == "left":
            inner = value.dims[-2] if len(value.dims) > 1 else k
            batches = value.dims[:-2] if self._chance(0.4) else ()
            left = self._other(dtype, (*batches, n, inner), value)
            self._add("matmul", Ref(left), Ref(name))
            return
        if kind == "addmm":
            other = self._other(dtype, (k, n), value)
            added = self._new_input(dtype, (n,) if self._chance(0.5) else (value.dims[0], n))
            self._add("addmm", Ref(added), Ref(name), Ref(other))
            return
        batches = value.dims[:-2] if self._chance(0.5) or kind == "bmm" else ()
        if self._chance(0.3):  # as scores in attention: with a transpose
            other = self._add("transpose", Ref(self._other(dtype, (*batches, n, k), value)), -2, -1)
        elif self._chance(0.1):
            other = self._other(dtype, (k,), value)
        else:
            other = self._other(dtype, (*batches, k, n), value)
        self._add(kind, Ref(name), Ref(other))

    def _free_dim(self, dims: Sequence[Dim]) -> Dim:
        names: list[Dim] = [(name,) for name in self._meaning.program.sizes]
        return self._choice.choice(names + [()] * self._chance(0.05))

    def _other(self, dtype: DataType, dims: tuple[Dim, ...], beside: Value) -> str:
        """A second factor: one of the program that fits, or a new input."""
        extents = self._meaning.program.shape(dims)
        rows = math.prod(self._meaning.program.shape(beside.dims))
        if rows * extents[0] * (extents[-1] if len(extents) > 1 else 1) > self._budget.products * 8:
            raise InvalidProgramError("too large")
        fitting = [
            name
            for name, value in self._meaning.values.items()
            if value.dims == dims and value.dtype is dtype
        ]
        if fitting and self._chance(0.5):
            return self._choice.choice(fitting)
        return self._new_input(dtype, dims)


def _product_types() -> tuple[DataType, ...]:
    """The types that products take, as they say."""
    from warpsmith import FusionDefinition
    from warpsmith.errors import DefinitionError

    found = []
    for dtype in (DataType.BFloat16, DataType.Half, DataType.Float, DataType.Double):
        with FusionDefinition() as fd:
            a = fd.define_tensor(shape=[2, 2], contiguity=True, dtype=dtype)
            try:
                fd.ops.matmul(a, a)
            except DefinitionError:
                continue
            found.append(dtype)
    return tuple(found)


PRODUCT_TYPES = _product_types()
