"""What keeps attention from torch's fused kernels."""

from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.torch_backend.attention import lay_masks_dense
from warpsmith.torch_backend.backend import backend


def masked(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Attention with a mask of keys, expanded as `transformers` does."""
    mask = keys[:, None, None].expand(-1, 1, -1, x.shape[-2])
    return attention(x, x, x, attn_mask=mask.transpose(-1, -2)[..., :1].expand(-1, 1, -1, 16))


def placed(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return attention(x, x, x, keys[:, None, :, None].expand(-1, 1, -1, 16))


def dense(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return attention(x, x, x, attn_mask=keys[:, None, None].expand(-1, 1, 16, -1))


def bare(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return attention(x, x, x) * keys[:, None, :, None]


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    keys = torch.ones(2, 16, dtype=torch.bool)
    keys[:, 12:] = False
    keys[:, 0] = True
    return torch.randn(2, 4, 16, 8, generator=torch.manual_seed(0)), keys


@pytest.mark.parametrize(("program", "copies"), [(masked, 1), (placed, 1), (dense, 0), (bare, 0)])
def test_masks_step_by_one_element(program: Any, copies: int) -> None:
    graphs: list[GraphModule] = []

    def seen(module: GraphModule, inputs: Any) -> Any:
        lay_masks_dense(module)
        graphs.append(module)
        return module

    x, keys = operands()
    torch._dynamo.reset()
    found = torch.compile(program, backend=seen)(x, keys)
    (module,) = graphs
    assert len(module.graph.find_nodes(op="call_method", target="contiguous")) == copies
    torch.testing.assert_close(found, program(x, keys))


def test_a_model_with_such_a_mask_is_right() -> None:
    x, keys = operands()
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(placed, backend=backend)(x, keys), placed(x, keys))
