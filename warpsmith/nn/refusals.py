"""What the training doors refuse, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch.autograd import forward_ad

from warpsmith.errors import ArgumentError
from warpsmith.nn.calls import NAMES

_TAKEN = "convert it to float64, float32, float16 or bfloat16"


def row_dimensions(
    who: str,
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> int:
    """How many of the last dimensions of x are normalized together, after all is checked."""
    shape = tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ArgumentError(
            f"{who} got normalized_shape {shape} for an input of shape {tuple(x.shape)}",
            code="WS0361",
            remedy="give the extents of one or more of the input's last dimensions",
        )
    if weight is not None and weight.shape != shape:
        raise _wrong_shape(who, "weight", weight, shape)
    if bias is not None and bias.shape != shape:
        raise _wrong_shape(who, "bias", bias, shape)
    if residual is not None and residual.shape != x.shape:
        raise ArgumentError(
            f"{who} got a residual of shape {tuple(residual.shape)} for an input of shape "
            f"{tuple(x.shape)}",
            code="WS0361",
            remedy="expand the residual to the shape of the input",
        )
    check_floats(who, input=x, residual=residual, weight=weight, bias=bias)
    return len(shape)


def softmax_dimension(who: str, x: torch.Tensor, dim: int | None, dtype: torch.dtype | None) -> int:
    """The dimension counted from the first one, after all is checked."""
    rank: int = x.ndim or 1
    if dim is None or not -rank <= dim < rank:
        raise ArgumentError(
            f"{who} got dim {dim} for an input of {x.ndim} dimensions",
            code="WS0361",
            remedy=f"name a dimension from {-rank} to {rank - 1}",
        )
    if dtype is None:
        if x.dtype not in NAMES or x.layout is not torch.strided:
            _check(who, "input", x)
    elif dtype in NAMES:
        _check_layout(who, "input", x)
    else:
        raise _wrong_type(who, "dtype", dtype)
    return dim % rank


def check_loss(
    who: str,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    label_smoothing: float,
) -> None:
    """Refuse logits, targets, weights and options that make no cross entropy."""
    _check(who, "input", x)
    if target.dtype not in (torch.int64, torch.int32):
        raise ArgumentError(
            f"{who} got a target of type {target.dtype}",
            code="WS0360",
            remedy="give numbers of classes in int64 or int32; for probabilities of classes use "
            "torch.nn.functional",
        )
    classes = x.shape[min(1, x.ndim - 1)] if x.ndim else 0
    if not classes or target.shape != x.shape[:1][: x.ndim - 1] + x.shape[2:]:
        raise ArgumentError(
            f"{who} got a target of shape {tuple(target.shape)} for an input of shape "
            f"{tuple(x.shape)}",
            code="WS0361",
            remedy="the input's dimension 1, or the only one, are the classes, and the target has "
            "the others",
        )
    if weight is not None:
        _check(who, "weight", weight)
        if weight.shape != (classes,):
            raise ArgumentError(
                f"{who} got a weight of shape {tuple(weight.shape)} for {classes} classes",
                code="WS0361",
                remedy="give a number for each class, or None",
            )
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(
            f"{who} got the reduction {reduction!r}",
            code="WS0365",
            remedy="the reductions are none, mean, sum",
        )
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"{who} got label_smoothing {label_smoothing}",
            code="WS0365",
            remedy="give a number from 0 to 1",
        )


def check_scale(who: str, x: torch.Tensor, reduction: str, scale: torch.Tensor | None) -> None:
    """Refuse what one gradient cannot be scaled by."""
    if reduction == "none":
        raise ArgumentError(
            f"{who} got the reduction 'none', and a gradient for each row is not known",
            code="WS0365",
            remedy="use mean or sum, or cross_entropy and its backward",
        )
    if scale is None:
        return
    if scale.dtype not in NAMES or scale.numel() != 1 or scale.device != x.device:
        raise ArgumentError(
            f"{who} got a scale of type {scale.dtype} and shape {tuple(scale.shape)} on "
            f"{scale.device}",
            code="WS0365",
            remedy=f"give a floating-point tensor of one element on {x.device}",
        )


def check_floats(who: str, **given: torch.Tensor | None) -> None:
    """Refuse tensors of other types and layouts than are computed with."""
    for name, tensor in given.items():
        if tensor is not None:
            _check(who, name, tensor)


def check_gate(who: str, gate: torch.Tensor, up: torch.Tensor) -> None:
    """Refuse two tensors that are no gated unit."""
    check_floats(who, gate=gate, up=up)
    if gate.shape != up.shape:
        raise ArgumentError(
            f"{who} got a gate of shape {tuple(gate.shape)} and up of shape {tuple(up.shape)}",
            code="WS0361",
            remedy="give two tensors of one shape",
        )


def check_turn(
    who: str, x: torch.Tensor, weight: torch.Tensor | None, cos: torch.Tensor, sin: torch.Tensor
) -> bool:
    """Whether angles are one for each pair, after all is checked."""
    check_floats(who, x=x, weight=weight, cos=cos, sin=sin)
    size = x.shape[-1] if x.ndim else 1
    sizes = (size, size // 2)
    fits = cos.shape == sin.shape and 0 < cos.ndim <= x.ndim and cos.shape[-1] in sizes
    pairs = zip(reversed(cos.shape[:-1]), reversed(x.shape[:-1]), strict=False)
    if size % 2 or not fits or any(a not in (1, b) for a, b in pairs):
        raise ArgumentError(
            f"{who} got angles of shapes {tuple(cos.shape)} and {tuple(sin.shape)} for an input of "
            f"shape {tuple(x.shape)}",
            code="WS0361",
            remedy="the input's last dimension are pairs; cos and sin have one angle for each "
            "element or pair of it, and are broadcast along the others",
        )
    if weight is not None and weight.shape != (size,):
        raise _wrong_shape(who, "weight", weight, (size,))
    if cos.requires_grad or sin.requires_grad:
        raise ArgumentError(
            f"{who} has no gradient of angles, and cos or sin requires one",
            code="WS0362",
            remedy="detach them",
        )
    return bool(cos.shape[-1] != size)


def check_embedding(who: str, index: torch.Tensor, weight: torch.Tensor, padding: int) -> int:
    """The row without a gradient, counted from the first one, or -1, after all is checked."""
    check_floats(who, weight=weight)
    rows = weight.shape[0] if weight.ndim == 2 else 0
    if index.dtype not in (torch.int64, torch.int32) or not -rows <= padding < rows:
        raise ArgumentError(
            f"{who} got indices of type {index.dtype}, a weight of shape {tuple(weight.shape)}, "
            f"and padding_idx {padding}",
            code="WS0361",
            remedy="indices are int64 or int32, the weight is a matrix, and padding_idx one of "
            "its rows",
        )
    return padding % rows


def check_dropout(who: str, x: torch.Tensor, p: float, seed: torch.Tensor | None) -> None:
    """Refuse a share that is none, and a seed that is no integer beside x."""
    if not 0 <= p <= 1:
        raise ArgumentError(
            f"{who} got dropout_p {p}", code="WS0364", remedy="give a number from 0 to 1"
        )
    if seed is None:
        return
    if seed.dtype is not torch.int64 or seed.numel() != 1 or seed.device != x.device:
        raise ArgumentError(
            f"{who} got a seed of type {seed.dtype} and shape {tuple(seed.shape)} on {seed.device}",
            code="WS0364",
            remedy=f"give an int64 tensor of one element on {x.device}",
        )


def refuse_dropout_of_parts(who: str) -> NoReturn:
    """The input is spread over several devices, all of which would drop alike."""
    raise ArgumentError(
        f"{who} got a DTensor: what one device drops of its part, the others would drop of theirs",
        code="WS0366",
        remedy="use torch.nn.functional.dropout, and the norm without dropout behind it",
    )


def refuse_tangents(who: str, *tensors: torch.Tensor | None) -> None:
    """Refuse tensors of forward-mode differentiation, whose tangents would be lost."""
    for tensor in tensors:
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise ArgumentError(
                f"{who} has no forward-mode derivative, and an argument has a tangent",
                code="WS0362",
                remedy="differentiate backward, or use torch.nn.functional here",
            )


def refuse_transforms(who: str) -> NoReturn:
    """The call is inside `torch.func.grad`, `vmap` or the like."""
    raise ArgumentError(
        f"{who} is called under a transform of torch.func, and knows none",
        code="WS0362",
        remedy="use torch.autograd, or torch.nn.functional here",
    )


def refuse_second_gradient(*_: object) -> NoReturn:
    """The gradient of a gradient is asked for."""
    raise ArgumentError(
        "gradients of warpsmith.nn cannot be differentiated again",
        code="WS0363",
        remedy="use torch.nn.functional where a second derivative is needed",
    )


def _wrong_shape(who: str, name: str, given: torch.Tensor, shape: tuple[int, ...]) -> ArgumentError:
    return ArgumentError(
        f"{who} got a {name} of shape {tuple(given.shape)}, and normalized_shape {shape}",
        code="WS0361",
        remedy=f"give a {name} of that shape, or None",
    )


def _check(who: str, name: str, given: torch.Tensor) -> None:
    if given.dtype not in NAMES:
        raise _wrong_type(who, name, given.dtype)
    _check_layout(who, name, given)


def _check_layout(who: str, name: str, given: torch.Tensor) -> None:
    if given.layout is not torch.strided:
        raise ArgumentError(
            f"{who} got {name} of layout {given.layout}",
            code="WS0360",
            remedy="convert it with `to_dense()`",
        )


def _wrong_type(who: str, name: str, dtype: torch.dtype) -> ArgumentError:
    return ArgumentError(f"{who} got {name} of type {dtype}", code="WS0360", remedy=_TAKEN)
