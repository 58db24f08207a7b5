"""A fused program and that of its gradient, as torch calls them: eager, recorded and traced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

from warpsmith import knobs
from warpsmith.nn.gradients import recorder, scoped
from warpsmith.nn.modes import is_spread, is_traced
from warpsmith.nn.refusals import refuse_second_gradient
from warpsmith.values import dataclass

Tensors = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A function of tensors with a gradient, and what torch is to know of it.

    Attributes:
        name: of its operator.
        form: makes what it is told behind its tensors, a tuple.
        tensors, told: their names and types, as torch writes them in schemas.
        run: results of tensors and a form: the function's, and what its gradient reads besides.
        shapes: what `run` gives, without values.
        results: how many these are.
        gradients: of the tensors, of a result's gradient, what was kept, and a form: None for those
            that have none.
        differentiated: places of the tensors that have gradients.
        keeps: of its tensors and results, those that the gradient reads; by default the tensors,
            and all results but the first.
        kept: names and types of these, where they are others.
        gradient_types: of the differentiated tensors, by the form; those of what was kept in their
            places, by default.
        free: dimensions of the first tensor along which its slices, and those of the tensors
            `alike`, have results of their own; by default none (`sharded.on_parts`).
    """

    name: str
    form: Callable[..., Any]
    tensors: str
    told: str
    run: Callable[[Tensors, Any], Tensors]
    shapes: Callable[[Tensors, Any], Tensors]
    results: int = 1
    gradients: Callable[[Tensor, Tensors, Any], Tensors]
    differentiated: Sequence[int]
    keeps: Callable[[Tensors, Tensors], Tensors] = lambda given, results: (*given, *results[1:])
    kept: str = ""
    gradient_types: Callable[[Any], Sequence[torch.dtype | None]] | None = None
    free: Callable[[Tensors, Any], Collection[int]] = lambda given, form: ()
    alike: Collection[int] = (0,)

    @property
    def schema(self) -> str:
        """Of the operator."""
        results = ", ".join(["Tensor"] * self.results)
        return f"({self.tensors}, {self.told}) -> {f'({results})' if self.results > 1 else results}"

    @property
    def gradient_schema(self) -> str:
        """Of the gradient's operator."""
        saved = [f"Tensor saved{number}" for number in range(1, self.results)]
        kept = self.kept or ", ".join([self.tensors, *saved])
        return f"(Tensor dy, {kept}, {self.told}) -> Tensor[]"


@dataclass(frozen=True, slots=True)
class Door:
    """A program with its two operators."""

    program: Program
    operator: Any
    gradient_operator: Any

    def __call__(self, who: str, given: Tensors, form: Any) -> Any:
        """The function's result."""
        first, *others = given
        if is_traced(who, first, *(*others, None, None, None)[:3]):
            if is_spread(*given):
                return self._on_parts(who, given, form)
            return _results_of(self.operator(*given, *form))[0]
        if torch.is_grad_enabled():
            for place in self.program.differentiated:
                if given[place] is not None and given[place].requires_grad:
                    return _recorded(self, form, *given)
        return self.program.run(given, form)[0]

    def _on_parts(self, who: str, given: Tensors, form: Any) -> Any:
        from warpsmith.nn.sharded import on_parts

        free = self.program.free(given, form)
        return on_parts(who, lambda *parts: self(who, parts, form), given, free, self.program.alike)


class _Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """A door's call for autograd in eager mode."""

    @staticmethod
    def forward(ctx: Any, door: Door, form: Any, *given: Any) -> Any:
        given = unwrap_dead_wrappers(given)  # from transforms that are over: they have no memory
        results = door.program.run(given, form)
        _save(ctx, door, form, given, results)
        return results[0]

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return None, None, *_gradients(ctx, dy, operate=torch.is_grad_enabled())


_recorded = recorder(_Recorded)


def _save(ctx: Any, door: Door, form: Any, given: Tensors, results: Tensors) -> None:
    program = door.program
    ctx.door, ctx.form, ctx.knobs = door, form, knobs.scoped()
    ctx.wanted = [k in program.differentiated and t is not None for k, t in enumerate(given)]
    ctx.save_for_backward(*program.keeps(given, results))
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dy: Tensor | None, *, operate: bool) -> Tensors:
    """Of the tensors; by the operator where gradients are recorded, which refuses to be
    differentiated.
    """
    door: Door = ctx.door
    if dy is None:
        return (None,) * len(ctx.wanted)
    if not operate:
        return tuple(scoped(ctx.knobs, door.program.gradients, dy, ctx.saved_tensors, ctx.form))
    made = iter(scoped(ctx.knobs, door.gradient_operator, dy, *ctx.saved_tensors, *ctx.form))
    return tuple(next(made) if wanted else None for wanted in ctx.wanted)


def door(program: Program) -> Door:
    """A program's door, and its two operators."""
    count, kept = program.tensors.count("Tensor"), program.gradient_schema.count("Tensor") - 2

    def called(*args: Any) -> Any:
        found = program.run(args[:count], program.form(*args[count:]))
        return tuple(found) if program.results > 1 else found[0]

    def faked(*args: Any) -> Any:
        found = program.shapes(args[:count], program.form(*args[count:]))
        return tuple(found) if program.results > 1 else found[0]

    def differentiate(dy: Tensor, *args: Any) -> Any:
        found = program.gradients(dy, args[:kept], program.form(*args[kept:]))
        return [found[place] for place in program.differentiated if found[place] is not None]

    def faked_gradients(dy: Tensor, *args: Any) -> Any:
        types = program.gradient_types and program.gradient_types(program.form(*args[kept:]))
        wanted = zip(program.differentiated, types or [None] * count, strict=False)
        return [
            args[place].new_empty(args[place].shape, dtype=kind)
            for place, kind in wanted
            if args[place] is not None
        ]

    operator, gradient = (
        torch.library.custom_op(f"warpsmith::{name}", run, mutates_args=(), schema=schema)
        for name, run, schema in (
            (program.name, called, program.schema),
            (f"{program.name}_gradient", differentiate, program.gradient_schema),
        )
    )
    operator.register_fake(faked)
    gradient.register_fake(faked_gradients)
    gradient.register_autograd(refuse_second_gradient, setup_context=lambda *_, **__: None)
    made = Door(program, operator, gradient)

    def save(ctx: Any, inputs: Tensors, output: Any) -> None:
        results = _results_of(output)
        _save(ctx, made, program.form(*inputs[count:]), inputs[:count], results)
        ctx.mark_non_differentiable(*results[1:])

    def back(ctx: Any, dy: Any, *_: Any) -> Tensors:
        return *_gradients(ctx, dy, operate=True), *(None,) * len(ctx.form)

    operator.register_autograd(back, setup_context=save)
    return made


def _results_of(output: Any) -> Tensors:
    return tuple(output) if isinstance(output, tuple | list) else (output,)
