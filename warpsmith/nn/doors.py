"""A fused program and that of its gradient, as torch calls them: eager, recorded and traced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

from warpsmith import knobs
from warpsmith.nn.gradients import past_python, recorder, scoped
from warpsmith.nn.modes import is_spread, is_traced
from warpsmith.nn.refusals import refuse_second_gradient
from warpsmith.runtime.launcher import Shortcut
from warpsmith.values import dataclass

Tensors = tuple[Any, ...]

NOWHERE = Shortcut()
"""Takes no calls."""


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
        keeps: places of what the gradient reads among its tensors and results; by default the
            tensors, and all results but the first.
        kept: names and types of these, where they are others.
        gradient_types: of the differentiated tensors, by the form; those of what was kept in their
            places, by default.
        free: dimensions of the first tensor along which its slices, and those of the tensors
            `alike`, have results of their own; by default none (`sharded.on_parts`).
        check: refuses tensors and a form that do not fit.
        shortcuts: ways past Python of `run`'s tensors with the form, and of a gradient with what
            was kept, by `reads`, and the form. They take nothing that `check` did not see.
        reads: places of what the second takes in what is kept.
    """

    name: str
    form: Callable[..., Any]
    tensors: str
    told: str
    run: Callable[[Tensors, Any], Tensors]
    shapes: Callable[[Tensors, Any], Tensors]
    results: int = 1
    gradients: Callable[[Tensor, Tensors, Any], Tensors]
    differentiated: tuple[int, ...]
    keeps: tuple[int, ...] = ()
    kept: str = ""
    gradient_types: Callable[[Any], Sequence[torch.dtype | None]] | None = None
    free: Callable[[Tensors, Any], Collection[int]] = lambda given, form: ()
    alike: Collection[int] = (0,)
    check: Callable[[Tensors, Any], None] = lambda given, form: None
    shortcuts: tuple[Shortcut, Shortcut] = (NOWHERE, NOWHERE)
    reads: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Of its tensors."""
        return self.tensors.count("Tensor")

    @property
    def places(self) -> tuple[int, ...]:
        """Of what is kept, among tensors and results."""
        count = self.count
        return self.keeps or (*range(count), *range(count + 1, count + self.results))

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
    """A program with its two operators, and its call that records, of its tensors and a form."""

    program: Program
    operator: Any
    gradient_operator: Any
    recorded: Callable[..., Any]

    def __call__(self, who: str, given: Tensors, form: Any) -> Any:
        """The function's result."""
        program = self.program
        if is_traced(who, *given):
            program.check(given, form)
            if is_spread(*given):
                return self._on_parts(who, given, form)
            return _results_of(self.operator(*given, *form))[0]
        if torch.is_grad_enabled():
            for place in program.differentiated:
                if given[place] is not None and given[place].requires_grad:
                    return self.recorded(*given, form)
        done: Any = program.shortcuts[0].launch((*given, form))
        if done is NotImplemented:
            program.check(given, form)
            done = program.run(given, form)
        return done[0] if isinstance(done, tuple) else done

    def _on_parts(self, who: str, given: Tensors, form: Any) -> Any:
        from warpsmith.nn.sharded import on_parts

        free = self.program.free(given, form)
        return on_parts(who, lambda *parts: self(who, parts, form), given, free, self.program.alike)


def _recorder(program: Program, gradient_operator: Any) -> Callable[..., Any]:
    """A door's call for autograd in eager mode. Calls like one that was here before go past Python,
    both ways (`runtime/native/gradient.c`).
    """

    def forward(ctx: Any, *arguments: Any) -> Any:
        # A tensor from a transform that is over has no memory.
        given, form = unwrap_dead_wrappers(arguments[:-1]), arguments[-1]
        program.check(given, form)
        results = program.run(given, form)
        _save(ctx, program, form, given, results)
        return results[0]

    def differentiate(ctx: Any, saved: Tensors, dy: Any) -> Any:
        operator = gradient_operator if torch.is_grad_enabled() else None
        return *_gradients(ctx, saved, dy, program, operator), None

    def backward(ctx: Any, dy: Any) -> Any:
        return differentiate(ctx, ctx.saved_tensors, dy)

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function = type(program.name.title().replace("_", ""), (torch.autograd.Function,), body)
    recorded = recorder(function)
    count, places = program.count, program.differentiated
    saved = tuple(place + (place >= count) for place in program.places)  # behind the form
    found = tuple(places.index(k) if k in places else len(places) for k in range(count + 1))
    there, back = program.shortcuts
    past_python(function, (there, saved), (back, differentiate, program.reads, found))
    return recorded


def _save(ctx: Any, program: Program, form: Any, given: Tensors, results: Tensors) -> None:
    both = *given, *results
    ctx.told = knobs.scoped(), form
    ctx.save_for_backward(*[both[place] for place in program.places])
    ctx.set_materialize_grads(False)


def _gradients(
    ctx: Any, saved: Tensors, dy: Tensor | None, program: Program, operator: Any
) -> Tensors:
    """Of the tensors; by an operator where gradients are recorded, which refuses to be
    differentiated.
    """
    scope, form = ctx.told
    if dy is None:
        return (None,) * program.count
    if operator is None:
        return tuple(scoped(scope, program.gradients, dy, saved, form))
    made = iter(scoped(scope, operator, dy, *saved, *form))
    wanted = program.differentiated
    return tuple(
        next(made) if place in wanted and saved[place] is not None else None
        for place in range(program.count)
    )


def door(program: Program) -> Door:
    """A program's door, and its two operators."""
    count, kept = program.count, program.gradient_schema.count("Tensor") - 2

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

    def save(ctx: Any, inputs: Tensors, output: Any) -> None:
        results = _results_of(output)
        _save(ctx, program, program.form(*inputs[count:]), inputs[:count], results)
        ctx.mark_non_differentiable(*results[1:])

    def back(ctx: Any, dy: Any, *_: Any) -> Tensors:
        found = _gradients(ctx, ctx.saved_tensors, dy, program, gradient)
        return *found, *(None,) * len(ctx.told[1])

    operator.register_autograd(back, setup_context=save)
    return Door(program, operator, gradient, _recorder(program, gradient))


def _results_of(output: Any) -> Tensors:
    return tuple(output) if isinstance(output, tuple | list) else (output,)
