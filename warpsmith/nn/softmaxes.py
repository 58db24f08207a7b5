"""The softmax of any tensor, and its gradient, as torch calls them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpsmith.nn import calls
from warpsmith.nn.doors import Program, Tensors, door


class SoftmaxCall(NamedTuple):
    """What is told of a softmax.

    Attributes:
        dim: counted from the first one.
        log: whether it is the logarithm.
        out: type of the result.
        source: type of the input, and so of its gradient.
    """

    dim: int
    log: bool
    out: torch.dtype
    source: torch.dtype


def _run(given: Tensors, form: Any) -> Tensors:
    return (calls.softmax(given[0], form.dim, form.log, form.out),)


def _shapes(given: Tensors, form: Any) -> Tensors:
    return (given[0].new_empty(given[0].shape, dtype=form.out),)


def _gradients(dy: torch.Tensor, kept: Tensors, form: Any) -> Tensors:
    return (calls.softmax_gradient(dy, kept[0], form.dim, form.log, form.source),)


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
        keeps=lambda given, results: results,
        kept="Tensor y",
        gradient_types=lambda form: (form.source,),
        free=lambda given, form: {*range(given[0].ndim)} - {form.dim},
    )
)
