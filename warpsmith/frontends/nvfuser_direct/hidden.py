"""Inputs of a program that its callers do not pass: each call finds them, before its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.nvfuser_direct import random
from warpsmith.frontends.nvfuser_direct.inputs import counted
from warpsmith.ir import arithmetic
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.scalar import Const, Expr, is_evaluated
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.scalars import known
from warpsmith.values import dataclass


@dataclass(frozen=True, eq=False)
class Outside:
    """An operation that PyTorch runs.

    Attributes:
        run: gives the results for what a call passes for the operands.
        operands: inputs of the program, constants, numbers, or None.
        results: the inputs of the program that stand for the results.
    """

    run: Callable[..., Sequence[Any]]
    operands: tuple[Any, ...]
    results: tuple[TensorView, ...]

    def values(self, passed: Mapping[Any, Any]) -> dict[Any, Any]:
        """The results of a call, by the inputs that stand for them.

        Args:
            passed: what there is so far, by inputs of the program.
        """
        import torch

        given = [_value(each, passed) for each in self.operands]
        with torch.no_grad():
            return dict(zip(self.results, self.run(*given), strict=True))


def _value(operand: Any, passed: Mapping[Any, Any]) -> Any:
    if isinstance(operand, Const):
        return operand.value
    return operand if _is_number(operand) else passed[operand]


def _is_number(operand: Any) -> bool:
    return operand is None or isinstance(operand, int | float)


class Hidden:
    """These inputs: a seed and an offset, numbers of elements, and what PyTorch computes."""

    def __init__(self, definition: FusionDefinition) -> None:
        self._definition = definition
        self._state: tuple[Expr, Expr] | None = None
        self._draws = 0
        self._counted: dict[Expr, Expr] = {}
        self._outside: list[Outside] = []

    def drawn(self) -> tuple[Expr, Expr]:
        """Seed and offset of random numbers that have none of their own."""
        if self._state is None:
            seed, offset = (self._definition.define_scalar(Type.Int) for _ in range(2))
            self._state = seed, offset
        seed, offset = self._state
        self._draws += 1
        return seed, offset if self._draws == 1 else offset + (self._draws - 1)

    def extent(self, value: Any) -> Any:
        """A number of elements as warpsmith takes it: floats are cut, as nvFuser casts them, and
        what kernels would have to compute is an input, which the host computes.
        """
        if isinstance(value, Expr) and value.dtype.is_float:
            value = arithmetic.convert(value, Type.Int)
        if not isinstance(value, Expr) or is_evaluated(value) or isinstance(known(value), Const):
            return value
        if value not in self._counted:
            self._counted[value] = self._definition.define_scalar(Type.Int)
        return self._counted[value]

    def can_be_outside(self, operands: Sequence[Any]) -> bool:
        """Whether PyTorch is there, and a call passes all of these."""
        passed = set(self._definition.fusion.inputs)
        return find_spec("torch") is not None and all(
            _is_number(each) or isinstance(each, Const) or each in passed for each in operands
        )

    def outside(
        self,
        run: Callable[..., Sequence[Any]],
        operands: Sequence[Any],
        results: Sequence[tuple[int, Type, Sequence[int] | None]],
    ) -> list[TensorView]:
        """Let PyTorch compute something, which operations then read as they read inputs.

        Args:
            results: number of dimensions, type and order in memory of each.
        """
        made = [
            self._definition.define_tensor([-1] * rank, True, dtype, stride_order=order or ())
            for rank, dtype, order in results
        ]
        self._outside.append(Outside(run, tuple(operands), tuple(made)))
        return list(made)

    @property
    def runs_outside(self) -> bool:
        """Whether PyTorch computes anything."""
        return bool(self._outside)

    def is_outside(self, value: Any) -> bool:
        """Whether PyTorch computes a value of warpsmith."""
        return any(value is made for each in self._outside for made in each.results)

    def found(self, passed: Mapping[Any, Any]) -> dict[Any, Any]:
        """What a call has for all of them, by inputs of the program, after what was passed."""
        values = dict(passed)
        if self._state is not None:
            values |= dict(
                zip(self._state, random.drawn(self._draws, passed.values()), strict=True)
            )
        if self._counted:
            values |= counted(self._counted, values)
        for each in self._outside:
            values |= each.values(values)
        return values
