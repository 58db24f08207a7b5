"""Norms and softmaxes of torch tensors of any shape, and their gradients, without autograd.

A tensor goes to its program as rows: a view where its memory allows one, else a copy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from warpsmith.nn import programs
from warpsmith.nn.programs import GradientForm, NormForm, SoftmaxForm
from warpsmith.nn.viewed import Viewed

NAMES = {
    torch.float64: "double",
    torch.float32: "float",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
}
"""The types that are normalized."""

FEW = 1 << 16
"""Elements of which eager norms keep no mean and deviation, and gradients compute them again: to
make, keep and free these takes the host longer than a GPU needs for all.
"""

NORM, NORM_GRADIENT = Viewed(programs.norm), Viewed(programs.norm_gradient)
SOFTMAX, SOFTMAX_GRADIENT = Viewed(programs.softmax), Viewed(programs.softmax_gradient)


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


def wide_name(*kinds: torch.dtype | None) -> str:
    """The type in which values of these types are computed."""
    return "double" if torch.float64 in kinds else "float"


def statistic_type(wide: str) -> torch.dtype:
    """The type of a row's mean and reciprocal deviation."""
    return torch.float64 if wide == "double" else torch.float32


def full_results(
    of_x: torch.dtype | None, of_residual: torch.dtype | None, dropped: bool
) -> tuple[torch.dtype, ...]:
    """Types of the gradients of full size: each once, unless x's was dropped from."""
    kinds = [kind for kind in (of_x, of_residual) if kind is not None]
    return tuple(kinds) if dropped else tuple(dict.fromkeys(kinds))


def rows_of(x: torch.Tensor, columns: int) -> torch.Tensor:
    """A tensor as rows whose elements are adjacent and which do not overlap; not of no elements."""
    rows = x if x.ndim == 2 and x.shape[1] == columns else x.reshape(-1, columns)
    between, within = rows.stride()
    if (within == 1 or columns == 1) and (between >= columns or rows.shape[0] == 1):
        return rows
    return rows.contiguous()


def row_of(weight: torch.Tensor, columns: int) -> torch.Tensor:
    """A weight or bias as one row."""
    return weight if weight.ndim == 1 else weight.reshape(columns)


def around(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    """A tensor as at most three dimensions, and which of them is `dim`; not of no elements."""
    shape = x.shape
    after = math.prod(shape[dim + 1 :])
    if after == 1:
        return rows_of(x, shape[dim] if shape else 1), 1
    whole = x.contiguous()
    before = math.prod(shape[:dim])
    if before == 1:
        return whole.view(shape[dim], after), 0
    return whole.view(before, shape[dim], after), 1


@lru_cache(maxsize=256)
def _norm_form(
    of_x: torch.dtype,
    of_residual: torch.dtype | None,
    eps: float,
    centered: bool,
    out: torch.dtype,
    dropped: float,
    saved: bool,
) -> NormForm:
    """What `norm` asks its program for; types that are refused have no names."""
    total = None if of_residual is None else torch.promote_types(of_x, of_residual)
    wide = wide_name(of_x, out, total)
    kind = "" if total is None else NAMES.get(total, "")
    return NormForm(centered, eps, wide, NAMES.get(out, ""), kind, saved, dropped)


@lru_cache(maxsize=256)
def _gradient_form(
    wide: str,
    sources: tuple[torch.dtype, ...],
    of_weight: torch.dtype | None,
    of_bias: torch.dtype | None,
    apart: bool,
    dropped: float,
    eps: float,
    centered: bool,
) -> GradientForm:
    """What `norm_gradient` asks its program for."""
    return GradientForm(
        wide,
        tuple([NAMES[kind] for kind in sources[apart:]]),
        "" if of_weight is None else NAMES[of_weight],
        "" if of_bias is None else NAMES[of_bias],
        NAMES[sources[0]] if apart else "",
        dropped if apart else 0.0,
        eps,
        centered,
    )


def norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    seed: torch.Tensor | None,
    dims: int,
    eps: float,
    centered: bool,
    out: torch.dtype,
    dropped: float,
    saved: bool,
    at: tuple[int, ...],
    how: tuple[Any, ...],
) -> tuple[Any, ...]:
    """The norm over the last `dims` dimensions.

    Calls of `NORM.shortcut` with those of the five tensors that stand `at` these places, and with
    `how`, which is to say all else, do the same from then on.

    With a `seed`, a tensor of one integer, the share `dropped` of x is dropped first.

    Returns the normalized tensor of type `out`, `x + residual` where there is a residual, and,
    where they are to be `saved`, for each row the mean (where it is subtracted) and the reciprocal
    deviation, both of shape (rows, 1).
    """
    shape = x.shape
    total = None if residual is None else torch.promote_types(x.dtype, residual.dtype)
    columns = math.prod(shape[-dims:])
    count = math.prod(shape[:-dims])
    if x.numel() == 0:
        wide = wide_name(x.dtype, out, total)
        wanted = [(shape, kind) for kind in (out, total) if kind is not None]
        wanted += [((count, 1), statistic_type(wide))] * ((1 + centered) * saved)
        return tuple([x.new_empty(size, dtype=kind) for size, kind in wanted])
    of_residual = None if residual is None else residual.dtype
    views = (
        rows_of(x, columns),
        None if residual is None else rows_of(residual, columns),
        None if weight is None else row_of(weight, columns),
        None if bias is None else row_of(bias, columns),
        seed,
        _norm_form(x.dtype, of_residual, eps, centered, out, dropped, saved),
    )
    shapes = (shape,) * (1 if residual is None else 2) + ((count, 1),) * ((1 + centered) * saved)
    given = x, residual, weight, bias, seed
    again = None if saved else eps
    note = norm_note(given, at, dims, dropped, again, centered)
    return NORM((*[given[place] for place in at], how), views, shapes, note, at)


def norm_note(
    given: tuple[torch.Tensor | None, ...],
    at: tuple[int, ...],
    dims: int,
    dropped: float,
    again: float | None,
    centered: bool,
) -> tuple[Any, ...]:
    """What a node of autograd keeps of a norm.

    Args:
        given: the norm's five tensors.
        at: places of those among them that the node has as arguments.
        again: the norm's `eps` where its gradient computes statistics again, None where it saved
            them.
        centered: whether the mean is one of them.

    Returns what the gradient is told, first which of source, mean, scale, weight and seed it reads;
    places of these in the arguments, one more argument and the results; how many of the results
    are the node's; and what is known of gradients, nothing.
    """
    kinds = [None if each is None else each.dtype for each in given[:4]]
    count = 1 if given[1] is None else 2
    behind = len(at) + 1 + count
    places = {0: 0 if count == 1 else behind - 1}
    if again is None:
        places |= {1: behind, 2: behind + 1} if centered else {2: behind}
    places |= {k: at.index(of) for k, of in ((3, 2), (4, 4)) if given[of] is not None}
    told = tuple(places), at, dims, dropped, again, centered, *kinds, given[4] is not None
    return told, tuple(places.values()), count, {}


def norm_gradient(
    dy: torch.Tensor,
    dtotal: torch.Tensor | None,
    source: torch.Tensor,
    mean: torch.Tensor | None,
    scale: torch.Tensor | None,
    weight: torch.Tensor | None,
    seed: torch.Tensor | None,
    dims: int,
    dropped: float,
    again: float | None,
    centered: bool,
    of_x: torch.dtype | None,
    of_residual: torch.dtype | None,
    of_weight: torch.dtype | None,
    of_bias: torch.dtype | None,
) -> list[torch.Tensor]:
    """Gradients of x, the residual, the weight and the bias: those that have a type here.

    Where x and residual have one type, and nothing was dropped (no seed), their gradient is one
    tensor, which is returned once. Without mean and scale these are computed `again`: of this
    `eps`, and as the norm was `centered`.
    """
    tensors = dy, dtotal, source, mean, scale, weight, seed
    at = tuple([place for place, each in enumerate(tensors) if each is not None])
    read = tuple([place - 2 for place in at if place > 1])
    told = read, dims, dropped, again, centered, of_x, of_residual, of_weight, of_bias
    given = *[tensors[place] for place in at], told
    done: Any = NORM_GRADIENT.shortcut.launch(given)
    if done is not NotImplemented:
        return list(done)
    sources = full_results(of_x, of_residual, seed is not None)
    apart = seed is not None and of_x is not None
    sums = [kind for kind in (of_weight, of_bias) if kind is not None]
    shape = source.shape
    row = shape[-dims:]
    columns = math.prod(row)
    wide = wide_name(source.dtype, dy.dtype)
    how = (0.0, False) if again is None else (again, centered)
    if source.numel() == 0:
        own = [source.new_empty(shape, dtype=kind) for kind in sources]
        return [*own, *(source.new_zeros(row, dtype=kind) for kind in sums)]
    views = (
        rows_of(dy, columns),
        None if dtotal is None else rows_of(dtotal, columns),
        rows_of(source, columns),
        mean,
        scale,
        None if weight is None else row_of(weight, columns),
        seed if apart else None,
        _gradient_form(wide, sources, of_weight, of_bias, apart, dropped, *how),
    )
    shapes = (shape,) * len(sources) + (row,) * len(sums)
    return list(NORM_GRADIENT(given, views, shapes, (), at))


def softmax(x: torch.Tensor, form: SoftmaxCall) -> Any:
    """The softmax over a dimension, or its logarithm, of type `out`: x is rounded to it first."""
    done: Any = SOFTMAX.shortcut.launch((x, form))
    if done is not NotImplemented:
        return done
    dim, log, out, _ = form
    if x.numel() == 0:
        return x.new_empty(x.shape, dtype=out)
    narrow = "" if torch.promote_types(x.dtype, out) is out else NAMES[out]
    view, place = around(x, dim)
    how = SoftmaxForm(log, place, narrow, wide_name(x.dtype, out), NAMES[out])
    return SOFTMAX((x, form), (view, how), (x.shape,))[0]


def softmax_gradient(dy: torch.Tensor, y: torch.Tensor, form: SoftmaxCall) -> Any:
    """Gradient of type `source` of what the softmax, or its logarithm, y was made of."""
    given = dy, y, form
    done: Any = SOFTMAX_GRADIENT.shortcut.launch(given)
    if done is not NotImplemented:
        return done
    dim, log, _, out = form
    if y.numel() == 0:
        return y.new_empty(y.shape, dtype=out)
    view, place = around(y, dim)
    how = SoftmaxForm(log, place, "", wide_name(y.dtype, out), NAMES[out])
    return SOFTMAX_GRADIENT(given, (around(dy, dim)[0], view, how), (y.shape,))[0]
