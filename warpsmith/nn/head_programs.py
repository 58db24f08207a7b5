"""The fused programs of what stands between products: gated units, rotations of heads, embeddings.

All compute in float, or in double, and round each result once. What a program turns, it reads at
two places of memory: nothing that it computes is read elsewhere, so each is one kernel.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from warpsmith import ops
from warpsmith.frontends.fuse import fuse
from warpsmith.ir.dtypes import DataType

ROOT_2, ROOT_2_OVER_PI = math.sqrt(2), math.sqrt(2 / math.pi)

CUBIC = 0.044715
"""Of the tanh form of GELU."""


class GateForm(NamedTuple):
    """Which gated unit, "silu", "gelu" or "gelu_tanh", and the type that it is computed in."""

    unit: str
    wide: str


class TurnForm(NamedTuple):
    """How heads are turned.

    Attributes:
        interleaved: the elements of a pair are neighbours; else one of each half.
        half: angles are one for each pair; else one for each element.
        wide: type in which it is computed.
        out: type of the result, of heads.
        weight: type of the gradient of a weight; empty where none is wanted.
        eps: what is added to the mean square of heads that are normalized first.
    """

    interleaved: bool
    half: bool
    wide: str
    out: str
    weight: str = ""
    eps: float = 0.0


class EmbeddingForm(NamedTuple):
    """How many rows there are, and which of them has no gradient: -1 for none."""

    rows: int
    padding: int


def _unit(a: Any, unit: str) -> tuple[Any, Any]:
    """The unit of a, and its slope."""
    if unit == "silu":
        share = ops.sigmoid(a)
        return a * share, share * (1 + a * (1 - share))
    if unit == "gelu":
        share = 0.5 * (1 + ops.erf(a * (1 / ROOT_2)))
        density = ops.exp(a * a * -0.5) * (1 / math.sqrt(2 * math.pi))
        return a * share, share + a * density
    bent = ops.tanh(ROOT_2_OVER_PI * (a + CUBIC * a * a * a))
    share = 0.5 * (1 + bent)
    inner = ROOT_2_OVER_PI * (1 + 3 * CUBIC * a * a)
    return a * share, share + 0.5 * a * (1 - bent * bent) * inner


@fuse
def gated(gate: Any, up: Any, form: GateForm) -> Any:
    """The unit of the gate, times `up`."""
    wide = DataType(form.wide)
    value, _ = _unit(gate.to(wide), form.unit)
    return (value * up.to(wide)).to(gate.dtype)


@fuse
def gated_gradient(dy: Any, gate: Any, up: Any, form: GateForm) -> Any:
    """Gradients of both."""
    wide = DataType(form.wide)
    given = dy.to(wide)
    value, slope = _unit(gate.to(wide), form.unit)
    return (given * up.to(wide) * slope).to(gate.dtype), (given * value).to(up.dtype)


def _pairs(x: Any, interleaved: bool) -> tuple[Any, Any]:
    """The first and the second elements of all pairs."""
    size = ops.size(x, -1)
    if not interleaved:
        return x[..., : size // 2], x[..., size // 2 :]
    pairs: Any = ops.reshape(x, [*ops.shape(x)[:-1], size // 2, 2])
    return pairs[..., 0], pairs[..., 1]


def _joined(first: Any, second: Any, interleaved: bool) -> Any:
    """The elements of pairs as they lie in a head."""
    if not interleaved:
        return ops.cat([first, second], -1)
    size = ops.size(first, -1)
    return ops.reshape(ops.stack([first, second], -1), [*ops.shape(first)[:-1], size * 2])


def _turned(x: Any, form: TurnForm) -> Any:
    """Each pair, turned by a right angle."""
    first, second = _pairs(x, form.interleaved)
    return _joined(-second, first, form.interleaved).to(DataType(form.wide))


def _swapped(x: Any, form: TurnForm) -> Any:
    first, second = _pairs(x, form.interleaved)
    return _joined(second, first, form.interleaved).to(DataType(form.wide))


def _of_elements(angles: Any, form: TurnForm) -> Any:
    """What there is for each pair, for each element."""
    full = _joined(angles, angles, form.interleaved) if form.half else angles
    return full.to(DataType(form.wide))


def _turned_back(dy: Any, cos: Any, sin: Any, form: TurnForm) -> Any:
    """The gradient of what was turned."""
    across = _of_elements(sin, form) if form.half else _swapped(sin, form)
    return dy.to(DataType(form.wide)) * _of_elements(cos, form) - _turned(dy, form) * across


@fuse
def rotary(x: Any, cos: Any, sin: Any, form: TurnForm) -> Any:
    """Pairs of elements of each head, turned by angles."""
    straight = x.to(DataType(form.wide)) * _of_elements(cos, form)
    found = straight + _turned(x, form) * _of_elements(sin, form)
    return found.to(DataType(form.out))


@fuse
def rotary_gradient(dy: Any, cos: Any, sin: Any, form: TurnForm) -> Any:
    """The gradient of the heads."""
    return _turned_back(dy, cos, sin, form).to(DataType(form.out))


@fuse
def norm_rotary(x: Any, weight: Any, cos: Any, sin: Any, form: TurnForm) -> Any:
    """Heads that are normalized and then turned, and the reciprocal deviation of each."""
    wide = DataType(form.wide)
    given = x.to(wide)
    scale = ops.rsqrt(ops.add(ops.mean(given * given, [-1], keepdim=True), form.eps))
    straight, across = given, _turned(x, form)
    if weight is not None:
        straight, across = straight * weight.to(wide), across * _swapped(weight, form)
    found = straight * _of_elements(cos, form) + across * _of_elements(sin, form)
    return (found * scale).to(DataType(form.out)), scale


@fuse
def norm_rotary_gradient(
    dy: Any, x: Any, weight: Any, cos: Any, sin: Any, scale: Any, form: TurnForm
) -> Any:
    """Gradients of the heads, and of the weight where it has a type."""
    wide = DataType(form.wide)
    dz = _turned_back(dy, cos, sin, form)
    normal = x.to(wide) * scale
    weighted = dz if weight is None else dz * weight.to(wide)
    dx = (weighted - normal * ops.mean(weighted * normal, [-1], keepdim=True)) * scale
    if not form.weight:
        return dx.to(DataType(form.out))
    summed: Any = ops.sum(dz * normal, list(range(len(ops.shape(dy)) - 1)))
    return dx.to(DataType(form.out)), summed.to(DataType(form.weight))


@fuse
def embedding(index: Any, weight: Any, form: EmbeddingForm) -> Any:
    """Rows of the weight."""
    return ops.embedding(index, weight)
