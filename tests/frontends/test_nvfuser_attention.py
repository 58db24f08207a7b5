"""Attention by nvFuser's names."""

from __future__ import annotations

import torch

from warpsmith import knobs
from warpsmith.frontends.nvfuser_direct import FusionDefinition


def test_gradients_of_attention() -> None:
    q, k, v = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    made = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    incoming = torch.randn_like(made)
    wanted = torch.autograd.grad(made, (q, k, v), incoming)
    with FusionDefinition() as fd:
        tg, tq, tk, tv = map(fd.from_pytorch, (incoming, q, k, v))
        out, total, seed, offset = fd.ops.sdpfa_fwd(tq, tk, tv)
        for each in fd.ops.sdpfa_bwd(tg, tq, tk, tv, out, total, 0.0, False, seed, offset):
            fd.add_output(each)
        fd.add_output(seed)
    *found, seeds = fd.execute([incoming, q, k, v])  # gradients of inputs are not asked for
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want)
    assert seeds.shape == (2,)


def test_attention_lies_in_memory_as_its_query() -> None:
    with FusionDefinition() as fd:
        order = [3, 1, 2, 0]
        q, k, v = (fd.define_tensor([-1] * 4, True, stride_order=order) for _ in range(3))
        fd.add_output(fd.ops.sdpfa_fwd(q, k, v)[0])
    given = [torch.randn(2, 5, 3, 4).transpose(1, 2) for _ in range(3)]
    with knobs.scope(device="reference"):
        (result,) = fd.execute(given)
    wanted = torch.nn.functional.scaled_dot_product_attention(*given)
    torch.testing.assert_close(result, wanted)
    assert result.stride() == given[0].stride()
