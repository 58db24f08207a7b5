"""A fused program and that of its gradient, as torch calls them: eager, recorded and traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warpsmith import knobs
from warpsmith.nn.gradients import scoped
from warpsmith.nn.modes import is_traced
from warpsmith.nn.refusals import refuse_second_gradient

Tensors = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Door:
    """A function of tensors with a gradient.

    Attributes:
        form: makes the form of what operators are told behind their tensors.
        tensors: how many there are.
        run: results of tensors and a form: the function's, and what its gradient reads besides.
        gradients: of the tensors, of a result's gradient, the tensors, what `run` gave besides, and
            a form: None for those that have none.
        operator, gradient_operator: the same as operators of torch.
    """

    form: Callable[..., Any]
    tensors: int
    run: Callable[[Tensors, Any], Tensors]
    gradients: Callable[[Tensor, Tensors, Tensors, Any], Tensors]
    operator: Any
    gradient_operator: Any

    def __call__(self, who: str, given: Tensors, form: Any) -> Any:
        """The function's result."""
        first, *others = given
        if is_traced(who, first, *(*others, None, None, None)[:3]):
            return _first(self.operator(*given, *form))
        needed = any(t is not None and t.requires_grad for t in given)
        if needed and torch.is_grad_enabled():
            return _Recorded.apply(self, form, *given)
        return self.run(given, form)[0]


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple | list) else found


class _Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """A door's call for autograd in eager mode."""

    @staticmethod
    def forward(ctx: Any, door: Door, form: Any, *given: Any) -> Any:
        result, *beside = door.run(given, form)
        _save(ctx, door, form, given, beside)
        return result

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return None, None, *_gradients(ctx, dy, operate=torch.is_grad_enabled())


def _save(ctx: Any, door: Door, form: Any, given: Tensors, beside: Sequence[Tensor]) -> None:
    ctx.door, ctx.form, ctx.knobs = door, form, knobs.scoped()
    ctx.save_for_backward(*given, *beside)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dy: Tensor | None, *, operate: bool) -> Tensors:
    """Of the tensors; by the operator where gradients are recorded, which refuses to be
    differentiated.
    """
    door: Door = ctx.door
    if dy is None:
        return (None,) * door.tensors
    given, beside = ctx.saved_tensors[: door.tensors], ctx.saved_tensors[door.tensors :]
    if not operate:
        return tuple(scoped(ctx, door.gradients, dy, given, beside, ctx.form))
    made = iter(scoped(ctx, door.gradient_operator, dy, *given, *beside, *ctx.form))
    wanted = [t is not None and t.is_floating_point() for t in given]
    return tuple(next(made, None) if each else None for each in wanted)


def door(
    name: str,
    form: Callable[..., Any],
    schema: str,
    gradient_schema: str,
    tensors: int,
    run: Callable[[Tensors, Any], Tensors],
    shapes: Callable[[Tensors, Any], Tensors],
    gradients: Callable[[Tensor, Tensors, Tensors, Any], Tensors],
    differentiated: Sequence[int],
) -> Door:
    """A door, and its two operators.

    Args:
        schema: of the operator's arguments and results, as torch writes it: tensors first.
        shapes: what `run` gives, without values.
        differentiated: places of the tensors that have gradients.
    """

    def called(*args: Any) -> Any:
        return _results(run(args[:tensors], form(*args[tensors:])))

    def faked(*args: Any) -> Any:
        return _results(shapes(args[:tensors], form(*args[tensors:])))

    beside = gradient_schema.split(")")[0].count("Tensor") - 1 - tensors

    def differentiate(dy: Tensor, *args: Any) -> Any:
        given, saved = args[:tensors], args[tensors : tensors + beside]
        found = gradients(dy, given, saved, form(*args[tensors + beside :]))
        return [found[k] for k in differentiated if found[k] is not None]

    def faked_gradients(dy: Tensor, *args: Any) -> Any:
        return [args[k].new_empty(args[k].shape) for k in differentiated if args[k] is not None]

    operator = torch.library.custom_op(f"warpsmith::{name}", called, mutates_args=(), schema=schema)
    gradient = torch.library.custom_op(
        f"warpsmith::{name}_gradient", differentiate, mutates_args=(), schema=gradient_schema
    )
    operator.register_fake(faked)
    gradient.register_fake(faked_gradients)
    gradient.register_autograd(refuse_second_gradient, setup_context=_nothing)
    made = Door(form, tensors, run, gradients, operator, gradient)

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple | list) else (output,)
        _save(ctx, made, form(*inputs[tensors:]), inputs[:tensors], results[1:])
        ctx.mark_non_differentiable(*results[1:])

    def back(ctx: Any, dy: Any, *_: Any) -> Tensors:
        return *_gradients(ctx, dy, operate=True), *(None,) * len(ctx.form)

    operator.register_autograd(back, setup_context=save)
    return made


def _results(found: Tensors) -> Any:
    return found[0] if len(found) == 1 else tuple(found)


def _nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Nothing is saved: there is no second gradient."""
