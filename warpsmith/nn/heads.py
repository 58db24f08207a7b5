"""Gated units, rotations of heads, and embeddings, with gradients in a kernel or two."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.nn import head_programs as programs
from warpsmith.nn.calls import NAMES, statistic_type, wide_name
from warpsmith.nn.doors import NOWHERE, Program, Tensors, door
from warpsmith.nn.embeddings import of_few, summed
from warpsmith.nn.head_programs import EmbeddingForm, GateForm, TurnForm
from warpsmith.nn.modes import is_traced
from warpsmith.nn.refusals import check_embedding, check_gate, check_turn


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`silu(gate) * up`, of the gate's type."""
    return _gated("swiglu", gate, up, "silu")


def geglu(gate: Tensor, up: Tensor, approximate: str = "none") -> Tensor:
    """`gelu(gate) * up`, of the gate's type; with `approximate` "tanh" by GELU's tanh form."""
    return _gated("geglu", gate, up, "gelu_tanh" if approximate == "tanh" else "gelu")


def rotary(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Pairs of the last dimension, turned by angles: rotary positions.

    Args:
        cos, sin: of each element's angle, or of each pair's, broadcast along other dimensions.
        interleaved: pairs are neighbours; else an element of the first half and one of the second.
    """
    half = check_turn("rotary", x, None, cos, sin)
    form = TurnForm(interleaved, half, wide_name(x.dtype), NAMES[x.dtype])
    found: Tensor = _ROTARY("rotary", (x, cos, sin), form)
    return found


def rms_norm_rotary(
    x: Tensor,
    weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None = None,
    interleaved: bool = False,
) -> Tensor:
    """`rotary(rms_norm(x, (x.shape[-1],), weight, eps), cos, sin)`, rounded once: queries or keys
    that are normalized.
    """
    half = check_turn("rms_norm_rotary", x, weight, cos, sin)
    if eps is None:
        eps = torch.finfo(torch.float64 if x.dtype is torch.float64 else torch.float32).eps
    kind = "" if weight is None else NAMES[weight.dtype]
    form = TurnForm(interleaved, half, wide_name(x.dtype), NAMES[x.dtype], kind, eps)
    found: Tensor = _NORM_ROTARY("rms_norm_rotary", (x, weight, cos, sin), form)
    return found


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of the weight, as `torch.nn.functional.embedding`; its gradient is summed in float, in
    the order of the indices, and so the same every time.
    """
    padding = check_embedding("embedding", input, weight, padding_idx or 0)
    padding = -1 if padding_idx is None else padding
    found: Tensor | None = None
    if not is_traced("embedding", input, weight):
        found = of_few(input, weight, padding)
    if found is None:
        found = _EMBEDDING("embedding", (input, weight), EmbeddingForm(weight.shape[0], padding))
    return found


def _gated(who: str, gate: Tensor, up: Tensor, unit: str) -> Tensor:
    found: Tensor = _GATED(who, (gate, up), GateForm(unit, wide_name(gate.dtype, up.dtype)))
    return found


def _check_gated(given: Tensors, form: GateForm) -> None:
    check_gate("swiglu" if form.unit == "silu" else "geglu", *given)


def _like(given: Tensors, form: Any) -> Tensors:
    return (given[0].new_empty(given[0].shape),)


def _run_gated(given: Tensors, form: Any) -> Tensors:
    return _like(given, form) if given[0].numel() == 0 else (programs.gated(*given, form),)


def _gated_gradients(dy: Tensor, given: Tensors, form: Any) -> Tensors:
    if dy.numel() == 0:
        return tuple(map(torch.empty_like, given))
    return tuple(programs.gated_gradient(dy, *given, form))


def _run_rotary(given: Tensors, form: Any) -> Tensors:
    return _like(given, form) if given[0].numel() == 0 else (programs.rotary(*given, form),)


def _rotary_gradients(dy: Tensor, given: Tensors, form: Any) -> Tensors:
    if dy.numel() == 0:
        return torch.empty_like(given[0]), None, None
    return programs.rotary_gradient(dy, *given[1:], form), None, None


def _norm_rotary_shapes(given: Tensors, form: Any) -> Tensors:
    x = given[0]
    scale = x.new_empty((*x.shape[:-1], 1), dtype=statistic_type(form.wide))
    return x.new_empty(x.shape), scale


def _run_norm_rotary(given: Tensors, form: Any) -> Tensors:
    if given[0].numel() == 0:
        return _norm_rotary_shapes(given, form)
    return tuple(programs.norm_rotary(*given, form))


def _norm_rotary_gradients(dy: Tensor, kept: Tensors, form: Any) -> Tensors:
    x, weight, *_ = kept
    if dy.numel() == 0:
        return torch.empty_like(x), None if weight is None else torch.zeros_like(weight), None, None
    found = programs.norm_rotary_gradient(dy, *kept, form)
    dx, dw = found if form.weight else (found, None)
    return dx, dw, None, None


def _embedded_shape(given: Tensors, form: Any) -> Tensors:
    index, weight = given
    return (weight.new_empty((*index.shape, weight.shape[1])),)


def _run_embedding(given: Tensors, form: Any) -> Tensors:
    empty = given[0].numel() == 0 or given[1].numel() == 0
    return _embedded_shape(given, form) if empty else (programs.embedding(*given, form),)


def _embedding_gradients(dy: Tensor, given: Tensors, form: Any) -> Tensors:
    return None, summed(dy, given[0], *form)


def _turned_alike(x: Tensor, cos: Tensor, sin: Tensor) -> list[int]:
    """Dimensions of x along which all is turned by the same angles."""
    return [
        dim
        for dim in range(x.ndim - 1)
        if all(t.ndim < x.ndim - dim or t.shape[dim - x.ndim] == 1 for t in (cos, sin))
    ]


_TURN = "bool interleaved, bool half, str wide, str out, str weight_type, float eps"

_GATED = door(
    Program(
        name="gated",
        form=GateForm,
        tensors="Tensor gate, Tensor up",
        told="str unit, str wide",
        run=_run_gated,
        shapes=_like,
        gradients=_gated_gradients,
        differentiated=(0, 1),
        free=lambda given, form: range(given[0].ndim),
        alike=(0, 1),
        check=_check_gated,
        shortcuts=(programs.gated.shortcut, programs.gated_gradient.shortcut),
        reads=(0, 1),
    )
)
_ROTARY = door(
    Program(
        name="rotary",
        form=TurnForm,
        tensors="Tensor x, Tensor cos, Tensor sin",
        told=_TURN,
        run=_run_rotary,
        shapes=_like,
        gradients=_rotary_gradients,
        differentiated=(0,),
        free=lambda given, form: _turned_alike(*given),
        shortcuts=(programs.rotary.shortcut, programs.rotary_gradient.shortcut),
        reads=(1, 2),
    )
)
_NORM_ROTARY = door(
    Program(
        name="norm_rotary",
        form=TurnForm,
        tensors="Tensor x, Tensor? weight, Tensor cos, Tensor sin",
        told=_TURN,
        run=_run_norm_rotary,
        shapes=_norm_rotary_shapes,
        results=2,
        gradients=_norm_rotary_gradients,
        differentiated=(0, 1),
        free=lambda given, form: _turned_alike(given[0], given[2], given[3]),
        shortcuts=(programs.norm_rotary.shortcut, programs.norm_rotary_gradient.shortcut),
        reads=(0, 1, 2, 3, 4),
    )
)
_EMBEDDING = door(
    Program(
        name="embedding",
        form=EmbeddingForm,
        tensors="Tensor input, Tensor weight",
        told="int rows, int padding",
        run=_run_embedding,
        shapes=_embedded_shape,
        gradients=_embedding_gradients,
        differentiated=(1,),
        free=lambda given, form: range(given[0].ndim),
        shortcuts=(programs.embedding.shortcut, NOWHERE),
    )
)
