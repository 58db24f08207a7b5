"""`sdpfa_fwd` and `sdpfa_bwd`: by PyTorch's kernels, or by products.

PyTorch's are for what a call passes: tensors of 16 bits with four dimensions. What is computed
before is multiplied by warpsmith's kernels. Which numbers decided what was dropped, the type of the
seed tells: UInt64 of PyTorch's, Int of warpsmith's.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct import attention_by_torch as by_torch
from warpsmith.frontends.nvfuser_direct.arguments import given
from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.operation import operation
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.tensor import TensorView

__all__ = ["sdpfa_bwd", "sdpfa_fwd"]


@operation
def sdpfa_fwd(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    dropout_p: Any = None,
    is_causal: Any = None,
    scale: Any = None,
    *,
    fusion: Fusion,
) -> Any:
    """(Attention, the logarithm of each row's sum, seed and offset of what was dropped).

    Attention lies in memory as the query does.
    The seed is a tensor of two numbers; the offset one without dimensions.

    Numbers in the places of bias and mask are the next three arguments: older nvFusers had neither,
    and Lightning Thunder calls by their places.
    """
    if any(not isinstance(each, TensorView | None) for each in (bias, mask)):
        bias, mask, dropout_p, is_causal, scale = None, None, bias, mask, dropout_p
    dropped, causal = given(dropout_p, 0.0), given(is_causal, False)
    order, is_plain = query.stride_order, bias is None and mask is None
    operands = [query, key, value, bias, mask, dropped, causal, scale]
    outside = _is_narrow(query, key, value) and fusion.hidden.can_be_outside(operands)
    if outside and is_plain:
        kinds = [(4, query.dtype, order), (3, Type.Float, None), *_STATE]
        rest = [query, key, value, dropped, causal, scale]
        made, total, *state = fusion.hidden.outside(partial(by_torch.forward, order), rest, kinds)
        return made, total, *map(fusion.seed, state)
    seed, offset = (0, 0) if dropped == 0.0 else fusion.hidden.drawn()
    made, total = own.attention(
        query,
        key,
        value,
        bias,
        mask,
        is_causal=causal,
        scale=scale,
        dropped=dropped,
        drawn=(seed, offset),
    )
    if outside and dropped == 0.0:
        rest = [query, key, value, bias, mask, causal, scale]
        kinds = [(4, query.dtype, order)]
        (made,) = fusion.hidden.outside(partial(by_torch.with_scores, order), rest, kinds)
    elif order is not None:
        made = own.stride_order(made, order)
    state = [own.full(n, x, Type.Int, fusion=fusion.ours) for n, x in (([2], seed), ([], offset))]
    return made, total, *(state if dropped != 0.0 else map(fusion.seed, state))


_STATE = [(1, Type.Int, None), (0, Type.Int, None)]


@operation
def sdpfa_bwd(
    grad_output: Any,
    query: Any,
    key: Any,
    value: Any,
    output: Any,
    logsumexp: Any,
    dropout_p: Any = None,
    is_causal: Any = None,
    philox_seed: Any = None,
    philox_offset: Any = None,
    scale: Any = None,
    *,
    fusion: Fusion,
) -> Any:
    """Gradients of query, key and value, from the results of `sdpfa_fwd`."""
    dropped, causal = given(dropout_p, 0.0), given(is_causal, False)
    tensors = [grad_output, query, key, value, output]
    operands = [*tensors, logsumexp, dropped, causal, philox_seed, philox_offset, scale]
    outside = _is_narrow(*tensors) and fusion.hidden.can_be_outside(operands)
    if dropped != 0.0 and fusion.is_seed(philox_seed) and not outside:
        raise unsupported(
            "ops.sdpfa_bwd with dropout",
            "PyTorch knows what it dropped, and runs before the kernels of a call",
            "compute what it takes in another fusion",
        )
    if outside and (dropped == 0.0 or fusion.is_seed(philox_seed)):
        orders = [each.stride_order for each in (query, key, value)]
        kinds = [(4, query.dtype, order) for order in orders]
        return fusion.hidden.outside(partial(by_torch.backward, orders), operands, kinds)
    seed, offset = (0, 0) if dropped == 0.0 else (own.select(philox_seed, 0, 0), philox_offset)
    return own.attention_backward(
        grad_output,
        query,
        key,
        value,
        output,
        logsumexp,
        is_causal=causal,
        scale=scale,
        dropped=dropped,
        drawn=(seed, offset),
    )


def _is_narrow(*tensors: Any) -> bool:
    """Whether PyTorch's kernels are for such tensors."""
    first = tensors[0].dtype
    is_one = all(each.dtype is first and each.rank == 4 for each in tensors)
    return is_one and first in (Type.Half, Type.BFloat16)
