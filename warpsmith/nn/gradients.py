"""Gradients of norms, from what their forward call saved.

The same for both ways that autograd comes here: through operators of torch (`operators.py`), and in
eager mode through `torch.autograd.Function` (`eager.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from warpsmith import knobs
from warpsmith.nn import calls
from warpsmith.runtime.launcher import module

Told = tuple[Any, ...]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def save_norm(
    ctx: Any,
    inputs: tuple[Any, ...],
    at: tuple[int, ...],
    dims: int,
    dropped: float,
    again: float | None,
    centered: bool,
    source: Tensor,
    mean: Tensor | None,
    scale: Tensor | None,
    *constants: Tensor,
) -> None:
    """Keep what the gradient reads, and say which results have none.

    Args:
        inputs: the five tensors of `calls.norm`.
        at: places of those among them that autograd has as arguments.
        again, centered: as in `calls.norm_note`.
        source: what was normalized: a result, where there is a residual.
        constants: further results, which are no function of the inputs for autograd.
    """
    ctx.told = knobs.scoped(), calls.norm_note(inputs, at, dims, dropped, again, centered)
    read = source, mean, scale, inputs[2], inputs[4]
    ctx.save_for_backward(*[each for each in read if each is not None])
    ctx.set_materialize_grads(False)
    if inputs[1] is not None and not any(ctx.needs_input_grad[:2]):
        constants += (source,)
    ctx.mark_non_differentiable(*constants)


@lru_cache(maxsize=256)
def asked(needed: tuple[bool, ...], told: tuple[Any, ...]) -> tuple[Told, tuple[int, ...]]:
    """What `calls.norm_gradient` is told behind its tensors, and which of its results the gradient
    of each argument of the norm is: the one behind the last where none is.

    Args:
        needed: of each argument, tensors and others, whether its gradient is.
    """
    read, at, dims, dropped, again, centered, *kinds, drops = told
    types: list[torch.dtype | None] = [None] * 4
    for place, need in zip(at, needed, strict=False):
        if need and place < 4:
            types[place] = kinds[place]
    shared = types[0] is types[1] and not drops  # the gradients of x and the residual are one
    results, used = [], 0
    for number, kind in enumerate(types):
        results.append(-1 if kind is None else 0 if number == 1 and shared else used)
        used += results[-1] == used
    places = [results[place] if place < 4 else -1 for place in at] + [-1] * (len(needed) - len(at))
    return (read, dims, dropped, again, centered, *types), tuple(
        used if place < 0 else place for place in places
    )


def norm_gradients(
    ctx: Any,
    saved: tuple[Any, ...],
    dy: Tensor | None,
    dtotal: Tensor | None,
    run: Callable[..., Any] = calls.norm_gradient,
) -> tuple[Tensor | None, ...]:
    """Gradients of a norm's inputs; None for those that none needs.

    Args:
        saved: the tensors that `save_norm` kept.
        dy, dtotal: gradients of the normalized tensor and of `x + residual`; None for none.
        run: `calls.norm_gradient`, or its operator.
    """
    scope, note = ctx.told
    (read, *told), places = asked(ctx.needs_input_grad, note[0])
    five = [saved[read.index(k)] if k in read else None for k in range(5)]
    if dy is None:
        if dtotal is None:
            return (None,) * len(places)
        if five[-1] is None:
            own = [None if kind is None else dtotal.to(kind) for kind in told[4:6]]
            return *own, *(None,) * (len(places) - 2)
        dy = torch.zeros_like(dtotal)
    found = (*scoped(scope, run, dy, dtotal, *five, *told), None)
    return tuple([found[place] for place in places])


def recorder(function: Any) -> Callable[..., Any]:
    """`apply` of a `torch.autograd.Function` without what that does for transforms, which are
    refused before (1.5 of 7 µs). Its backward is called without a look at each call for what it is
    (0.4 µs).
    """
    function._backward_cls.apply = function.backward
    recorded: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return recorded


def past_python(function: Any, way: tuple[Any, ...], back: tuple[Any, ...]) -> None:
    """Have calls of a `torch.autograd.Function` go past Python where a shortcut takes them, and
    their gradients (`runtime/native/gradient.c`).

    Args:
        way: a shortcut, and for entries without notes the places of what is saved.
        back: the gradient's shortcut; its function in Python, of the node, what it saved, and
            gradients of results; then a function such as `asked`, or the places of what the
            launches read in what is saved, and of arguments' gradients in their results.
    """
    launcher = module()
    if launcher is not None:
        node = function._backward_cls
        node.way = back
        node.apply = launcher.applying(torch._C._FunctionBase)
        shortcut, *saved = way
        function.forward = launcher.recording((shortcut, function.forward, *saved))


def scoped(scope: knobs.Knobs | None, run: Callable[..., Any], *args: Any) -> Any:
    """A call under the knobs of the forward call's scope: autograd has threads of its own."""
    if scope is None:
        return run(*args)
    with knobs.within(scope):
        return run(*args)
