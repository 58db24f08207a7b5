"""Every operation of nvFuser that has a peer in PyTorch, with operands that show what it does."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

Peer = Callable[..., Any]
Shape = tuple[int, ...]

SHAPE = (4, 6)


@dataclass(frozen=True)
class Operand:
    """A tensor of an operation.

    Attributes:
        shape: none of its extents is the empty layout's 0 already.
        kind: `x` of the case's type, `unit` within [-1, 1], `above` from 1 on, `positive`; `bool`;
            `order` an order of each column's rows; `index` rows of 4.
    """

    shape: Shape = SHAPE
    kind: str = "x"


@dataclass(frozen=True)
class Operation:
    """One call of an operation.

    Attributes:
        call: of the module of operations and the operands.
        peer: the same by PyTorch, of the operands.
        label: tells calls of one operation apart.
        fixed: extents that stay in the empty layout, which has 0 in all first dimensions else.
    """

    name: str
    call: Callable[..., Any]
    peer: Peer
    operands: tuple[Operand, ...] = (Operand(),)
    label: str = ""
    fixed: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


_KINDS = {
    "acos": "unit",
    "acosh": "above",
    "asin": "unit",
    "atanh": "unit",
    "erfcinv": "positive",
    "erfinv": "unit",
    "lgamma": "positive",
    "log": "positive",
    "log10": "positive",
    "log1p": "positive",
    "log2": "positive",
    "rsqrt": "positive",
    "sqrt": "positive",
}
_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc erfinv exp exp2 expm1 "
    "floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 "
    "logical_not neg reciprocal relu round rsqrt sigmoid sign signbit sin sinh sqrt tan tanh trunc"
)
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor eq fmod "
    "gcd ge gt le logical_and logical_or lt maximum minimum mul ne nextafter remainder sub"
)


def _erfcinv(x: torch.Tensor) -> torch.Tensor:
    if x.is_complex():
        raise TypeError("of reals")
    wide = x.double() if x.dtype is not torch.double else x
    return torch.erfinv(1 - wide).to(x.dtype if x.is_floating_point() else torch.float32)


def _divided(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _integers_only(function: Peer) -> Peer:
    def peer(*operands: torch.Tensor) -> Any:
        if operands[0].is_floating_point() or operands[0].dtype is torch.bool:
            raise TypeError("of integers")
        return function(*operands)

    return peer


def _right_shift(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    bits = torch.iinfo(a.dtype).bits
    count = b.clamp(0, bits - 1)
    shifted = (a >> count) & ~((-1 << (bits - count).clamp(max=bits - 1)) * (count > 0))
    return torch.where((b < 0) | (b >= bits), 0, shifted)


def _moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of floats, in the type that they are computed in."""
    if not x.is_floating_point():
        raise TypeError("of floats")
    wide = x if x.dtype is torch.float64 else x.float()
    return wide.mean(1), torch.var(wide, 1, correction=0) * x.shape[1]


def _by_name(name: str, *rest: Any, **words: Any) -> Callable[..., Any]:
    """The call of an operation with arguments behind the operands."""
    return lambda ops, *operands: getattr(ops, name)(*operands, *rest, **words)


def _op(name: str, peer: Peer, *rest: Any, label: str = "", **words: Any) -> Operation:
    given = words.pop("operands", (Operand(),))
    fixed = words.pop("fixed", False)
    return Operation(name, _by_name(name, *rest, **words), peer, given, label, fixed)


_TWO = (Operand(), Operand())
_THREE = (Operand(), Operand(), Operand())
_INDEXED = (Operand(), Operand(SHAPE, "index"))

POINTWISE = (
    *(
        _op(name, getattr(torch, name), operands=(Operand(SHAPE, _KINDS.get(name, "x")),))
        for name in _UNARY.split()
    ),
    _op("erfcinv", _erfcinv, operands=(Operand(SHAPE, "positive"),)),
    _op("silu", functional.silu),
    _op("set", torch.clone),
    _op("segment_set", torch.clone),
    _op("real", lambda x: torch.real(x).clone()),
    *(_op(name, getattr(torch, name), operands=_TWO) for name in _BINARY.split()),
    _op("div", _divided, operands=_TWO),
    _op("truediv", torch.true_divide, operands=_TWO),
    _op("pow", torch.pow, operands=(Operand(SHAPE, "positive"), Operand(SHAPE, "positive"))),
    _op("mod", _integers_only(torch.fmod), operands=_TWO),
    _op("logical_right_shift", _integers_only(_right_shift), operands=_TWO),
    _op("where", torch.where, operands=(Operand(SHAPE, "bool"), Operand(), Operand())),
    _op("lerp", torch.lerp, operands=_THREE),
    _op("clamp", partial(torch.clamp, min=-1, max=2), -1, 2),
    _op("threshold", lambda x: functional.threshold(x, 1, 3), 1, 3),
    _op("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=2), 2, operands=_THREE),
)

_REDUCED: tuple[tuple[str, Peer], ...] = (
    ("sum", torch.sum),
    ("prod", torch.prod),
    ("max", torch.amax),
    ("min", torch.amin),
)

REDUCTIONS = (
    *(
        _op(name, partial(peer, dim=dim), [dim], label=f"dim{dim}")
        for name, peer in _REDUCED
        for dim in (0, 1)
    ),
    *(
        _op(name, partial(peer, dim=1, keepdim=True), 1, True, label="kept")
        for name, peer in _REDUCED
    ),
    *(_op(name, peer, label="all") for name, peer in _REDUCED),
    _op("var", lambda x: torch.var(x, 1), [1]),
    _op("var_mean", lambda x: torch.var_mean(x, 1, correction=0), [1], 0),
    Operation(
        "welford",
        lambda ops, x: ops.welford(x, [1])[:2],
        _moments,
    ),
    _op("cumsum", partial(torch.cumsum, dim=1), 1),
    _op("cumprod", partial(torch.cumprod, dim=0), 0),
    _op("cummax", lambda x: torch.cummax(x, 1)[0], 1),
    _op("cummin", lambda x: torch.cummin(x, 0)[0], 0),
)

SHAPES = (
    _op("broadcast", lambda x: x[:, None], [False, True, False]),
    _op(
        "broadcast_in_dim",
        lambda x: x[:, None].expand(x.shape[0], 3, 6),
        operands=(Operand(),),
        fixed=True,
        shape=[4, 3, 6],
        broadcast_dims=[0, 2],
    ),
    _op("reshape", lambda x: x.reshape(3, 8), [3, 8], fixed=True),
    _op("permute", lambda x: x.permute(1, 0), [1, 0]),
    _op("expand", lambda x: x.expand(5, 6), [5, 6], operands=(Operand((1, 6)),), fixed=True),
    _op("squeeze", lambda x: x.squeeze(1), [1], operands=(Operand((4, 1, 6)),)),
    _op("slice", lambda x: x[1:3, 1:6], [1, 1], [3, 6], [1, 1], fixed=True),
    _op("stride_order", torch.clone, [0, 1]),
    _op("pad", lambda x: functional.pad(x, (1, 2, 0, 1), value=3), [1, 2, 0, 1], 3),
    Operation("cat", lambda ops, a, b: ops.cat([a, b], 1), lambda a, b: torch.cat([a, b], 1), _TWO),
    _op("triu", lambda x: torch.triu(x, 1), 1),
)

READS = (
    _op(
        "index_select",
        lambda x, i: x.index_select(0, i),
        0,
        operands=(Operand(), Operand((5,), "index")),
        fixed=True,
    ),
    _op("select", lambda x: x.select(1, 2), 2, 1),
    _op("gather", lambda x, i: x.gather(0, i), 0, operands=_INDEXED, fixed=True),
    _op("take_along_axis", lambda x, i: x.gather(0, i), 0, operands=_INDEXED, fixed=True),
    _op(
        "scatter",
        lambda x, i, s: x.scatter(0, i, s),
        operands=(Operand(), Operand(SHAPE, "order"), Operand()),
        fixed=True,
        dim=0,
    ),
    _op(
        "embedding_fwd",
        lambda i, w: functional.embedding(i, w),
        operands=(Operand((3, 2), "index"), Operand()),
        fixed=True,
    ),
    _op(
        "topk", lambda x: torch.topk(x, 2, 1), 2, 1, True, True, operands=(Operand(SHAPE, "apart"),)
    ),
    _op(
        "argsort",
        lambda x: torch.argsort(x, 1, stable=True),
        dim=1,
        descending=False,
        stable=True,
        operands=(Operand(SHAPE, "apart"),),
    ),
)

_HEADS = (Operand((2, 3, 4)), Operand((2, 5, 4)), Operand((2, 5, 4)))

PRODUCTS = (
    _op("matmul", torch.matmul, operands=(Operand((4, 6)), Operand((6, 5)))),
    _op("linear", functional.linear, operands=(Operand((4, 6)), Operand((5, 6)), Operand((5,)))),
    Operation(
        "sdpfa_fwd",
        lambda ops, q, k, v: ops.sdpfa_fwd(q, k, v, is_causal=True)[0],
        partial(functional.scaled_dot_product_attention, is_causal=True),
        _HEADS,
    ),
)

TYPES = {
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int": torch.int64,
    "int32": torch.int32,
    "bool": torch.bool,
    "complex_double": torch.complex128,
    "complex_float": torch.complex64,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}
"""Types by name; what has a peer in PyTorch for one is computed for it."""

CASTS = tuple(
    Operation(
        "cast",
        lambda ops, x, to=to: ops.cast(x, _named(to)),
        lambda x, to=to: x.to(to),
        label=name,
    )
    for name, to in TYPES.items()
)


def _named(dtype: torch.dtype) -> Any:
    from warpsmith.frontends.nvfuser_direct.dtypes import torch_dtype_to_nvfuser_dtype

    return torch_dtype_to_nvfuser_dtype(dtype)


FACTORIES = (
    Operation(
        "full",
        lambda ops, x: ops.mul(x, ops.full([4, 6], 3, _named(torch.int32))),
        lambda x: x * torch.full((4, 6), 3, dtype=torch.int32),
        fixed=True,
    ),
    Operation(
        "iota",
        lambda ops, x: ops.add(x, ops.iota(6, 2, 3, _named(torch.int32))),
        lambda x: x + torch.arange(2, 20, 3, dtype=torch.int32),
    ),
)

OPERATIONS = (*POINTWISE, *REDUCTIONS, *SHAPES, *READS, *PRODUCTS, *CASTS, *FACTORIES)
