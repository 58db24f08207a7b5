"""The softmax of any tensor, and its gradient, as torch calls them."""

from __future__ import annotations

from typing import Any

import torch

from warpsmith.nn import calls
from warpsmith.nn.calls import SoftmaxCall
from warpsmith.nn.doors import Program, Tensors, door


def _run(given: Tensors, form: Any) -> Tensors:
    return (calls.softmax(given[0], form),)


def _shapes(given: Tensors, form: Any) -> Tensors:
    return (given[0].new_empty(given[0].shape, dtype=form.out),)


def _gradients(dy: torch.Tensor, kept: Tensors, form: Any) -> Tensors:
    return (calls.softmax_gradient(dy, kept[0], form),)


SOFTMAX = door(
    Program(
        name="softmax",
        form=SoftmaxCall,
        tensors="Tensor x",
        told="int dim, bool log, ScalarType out, ScalarType source",
        run=_run,
        shapes=_shapes,
        gradients=_gradients,
        differentiated=(0,),
        keeps=(1,),
        kept="Tensor y",
        gradient_types=lambda form: (form.source,),
        free=lambda given, form: {*range(given[0].ndim)} - {form.dim},
        shortcuts=(calls.SOFTMAX.shortcut, calls.SOFTMAX_GRADIENT.shortcut),
        reads=(0,),
    )
)
