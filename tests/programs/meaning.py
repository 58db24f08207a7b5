"""What a program means: each statement's rule of type and shape, and its values with bounds.

Nothing here looks at a fusion. Promotion and the functions of single numbers are the table's
(`ops/table`), which has tests of its own; shapes, moves, reductions, products and what is rounded
where are said a second time, so that a fault in `ops` shows as well as one in a kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.programs import bounds
from tests.programs.arrays import array
from tests.programs.program import Extent, Input, Program, Ref, ScalarInput, Shape, Statement
from tests.programs.rules import (
    moves,
    orders,
    parts,
    places,
    pointwise,
    products,
    reductions,
    scalars,
)
from tests.programs.values import Value, perhaps_stored, require


@dataclass(slots=True)
class Meaning:
    """The values of a program as far as it has been run."""

    program: Program
    values: dict[str, Value] = field(default_factory=dict)
    scalars: dict[str, ScalarInput] = field(default_factory=dict)

    def run(self) -> None:
        """All of the program. InvalidProgramError where a statement breaks a rule."""
        for given in self.program.inputs:
            self.give(given)
        for statement in self.program.statements:
            self.step(statement)

    def give(self, given: Input | ScalarInput) -> None:
        if isinstance(given, ScalarInput):
            self.scalars[given.name] = given
            return
        shape = self.program.shape(given.dims)
        drawn = array(given.dtype, shape, given.layout, given.values, given.seed)
        self.values[given.name] = Value(given.dtype, given.dims, bounds.exact(given.dtype, drawn))

    def step(self, statement: Statement) -> None:
        """Run one statement whose operands are there."""
        options = {name: self._argument(value) for name, value in statement.options}
        args = [self._argument(value) for value in statement.args]
        rule = RULES.get(statement.op)
        if rule is None:
            made = pointwise.pointwise(self.program, statement.op, *args)
        else:
            made = rule(self.program, *args, **options)
        results = made if isinstance(made, tuple) else (made,)
        require(len(results) == len(statement.results), "results")
        for name, value in zip(statement.results, results, strict=True):
            require(value.wide.value.shape == self.program.shape(value.dims), "shape")
            if value.dtype.is_small_int:  # whatever it was computed in
                value = replace(value, wide=bounds.wrapped(value.wide, value.dtype))
            self.values[name] = self._perhaps_stored(value)

    def _perhaps_stored(self, value: Value) -> Value:
        """What its user knows as 16-bit may be rounded to that in memory between kernels;
        pointwise operations alone are one kernel, and round nothing on the way.
        """
        one = all(each.op not in RULES or each.op in _POINTWISE for each in self.program.statements)
        return value if one else perhaps_stored(value)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._argument, value))
        if isinstance(value, Ref):
            found = self.values.get(value.name, self.scalars.get(value.name))
            require(found is not None, f"{value.name} is not defined")
            return found
        if isinstance(value, Shape):
            for dim in value.dims:
                self.program.spelled(dim)
        if isinstance(value, Extent):
            self.program.spelled(value.dim)
        return value


_POINTWISE = frozenset({"addcmul", "cast", "clamp", "floor_divide", "masked_fill"})

RULES: dict[str, Callable[..., Any]] = {
    "addcmul": pointwise.addcmul,
    "addmm": products.addmm,
    "baddbmm": products.baddbmm,
    "bmm": products.bmm,
    "broadcast": moves.broadcast,
    "broadcast_in_dim": moves.broadcast_in_dim,
    "cast": pointwise.cast,
    "clamp": pointwise.clamp,
    "argmax": reductions.place("argmax"),
    "argmin": reductions.place("argmin"),
    "cumsum": reductions.cumsum,
    "logsumexp": reductions.logsumexp,
    "dot": products.dot,
    "dropout": scalars.dropout,
    "einsum": products.einsum,
    "expand": moves.expand,
    "floor_divide": pointwise.floor_divide,
    "full": scalars.full,
    "full_like": scalars.full_like,
    "grouped_matmul": products.grouped_matmul,
    "iota": scalars.iota,
    "linear": products.linear,
    "matmul": products.matmul,
    "max": reductions.extreme("max"),
    "mean": reductions.mean,
    "min": reductions.extreme("min"),
    "mv": products.mv,
    "normal": scalars.normal,
    "ones_like": scalars.filled(1),
    "outer": places.outer,
    "permute": moves.permute,
    "prod": reductions.accumulation("prod"),
    "reshape": moves.reshape,
    "set": moves.copied,
    "squeeze": moves.squeeze,
    "stride_order": moves.stride_order,
    "sum": reductions.accumulation("sum"),
    "transpose": moves.transpose,
    "uniform": scalars.uniform,
    "var": reductions.var,
    "var_mean": reductions.var_mean,
    "welford": reductions.welford,
    "zeros_like": scalars.filled(0),
    **{op: places.truth(op) for op in ("all", "any")},
    **{op: places.running_extreme(op) for op in ("cummax", "cummin")},
    **{op: places.joined(op) for op in ("cat", "stack")},
    **dict.fromkeys(("gather", "take_along_axis"), places.gather),
    "argsort": orders.argsort,
    "chunk": parts.parted,
    "cumprod": places.cumprod,
    "embedding": places.embedding,
    "embedding_backward": orders.embedding_backward,
    "flip": places.flip,
    "index_add": orders.by_rows(orders.scatter_add),
    "index_copy": orders.by_rows(orders.scatter),
    "index_select": places.index_select,
    "logcumsumexp": places.logcumsumexp,
    "masked_fill": places.masked_fill,
    "narrow": parts.narrow,
    "one_hot": places.one_hot,
    "pad": parts.pad,
    "repeat_interleave": places.repeat_interleave,
    "roll": places.roll,
    "scatter": orders.scatter,
    "scatter_add": orders.scatter_add,
    "segment_set": moves.copied,
    "select": places.select,
    "slice": parts.sliced,
    "sort": orders.sort,
    "topk": orders.topk,
    "tril": places.tril,
    "triu": places.triu,
    "unbind": parts.unbind,
}
"""Operations that are not simply entries of the table of pointwise ones."""
