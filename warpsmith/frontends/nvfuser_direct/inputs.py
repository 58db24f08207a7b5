"""What calls pass for the inputs of a fusion, and get for its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpsmith.frontends.nvfuser_direct import pairs
from warpsmith.frontends.nvfuser_direct.complex_view import ComplexView
from warpsmith.frontends.nvfuser_direct.seeds import SeedView, as_ints, as_seeds
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.scalar import Expr
from warpsmith.ops.scalars import ScalarEvaluator, symbols_of_call
from warpsmith.values import dataclass


@dataclass(frozen=True, eq=False)
class Input:
    """An input as callers see it, and what it is to warpsmith: of a tensor of the CPU a scalar, of
    complex numbers a tensor of their parts, or two scalars.
    """

    val: Val
    passed: Any

    def parts(self, value: Any) -> dict[Any, Any]:
        """What is passed for a value."""
        if isinstance(self.passed, pairs.Pair):
            return {self.passed.re: value.real, self.passed.im: value.imag}
        if isinstance(self.val, SeedView) and self.passed is self.val.value:
            return {self.passed: as_ints(value)}
        if isinstance(self.val.value, pairs.Pair):
            return {self.passed: pairs.as_reals(value)}
        return {self.passed: value if self.passed is self.val.value else _number(value)}


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a fusion.

    Attributes:
        given: what the caller passes for each input.
        passed: what the program takes for it, in its order.
        found: the same, and more, by inputs of the program.
    """

    given: Mapping[Val, Any]
    passed: list[Any]
    found: Mapping[Any, Any]


def flat(given: Sequence[Any]) -> list[Any]:
    """Inputs with the scalars of lists as inputs of their own."""
    found: list[Any] = []
    for value in given:
        found += value if isinstance(value, list | tuple) else [value]
    return found


def _number(value: Any) -> Any:
    """What a tensor of the CPU without dimensions holds."""
    return value.item() if hasattr(value, "item") else value


def passed_type(dtype: Type) -> Type:
    """The type of a scalar as calls pass it."""
    if dtype is Type.Index:
        return Type.Int
    return Type.Double if dtype.is_narrow else dtype


def counted(wanted: Mapping[Expr, Expr], passed: Mapping[Any, Any]) -> dict[Expr, int]:
    """What calls pass for numbers of elements that the host computes, from all else they pass."""
    evaluator = ScalarEvaluator(symbols_of_call(passed.items()))
    return {symbol: evaluator.integer(expr) for expr, symbol in wanted.items()}


def returned(
    outputs: Sequence[Val],
    results: Sequence[Any],
    written: Mapping[Val, Val],
    call: Call,
    is_outside: Callable[[Any], bool],
) -> list[Any]:
    """Results as callers see them: complex numbers, seeds, what PyTorch computed, and of those that
    were written into an input, and of such an input itself, the input.

    Args:
        results: of kernels.
        written: which input each result was written into.
        is_outside: whether PyTorch has computed a value.
    """
    here = {value: call.given[value] for value in written.values()}
    here |= {value: call.given[into] for value, into in written.items()}
    computed, made = iter(results), []
    for value in outputs:
        found = call.found[value.value] if is_outside(value.value) else next(computed)
        if value in here:
            found = here[value]
        elif isinstance(value, ComplexView):
            found = pairs.as_complex(found)
        elif isinstance(value, SeedView):
            found = as_seeds(found)
        made.append(found)
    return made
