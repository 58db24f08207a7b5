"""What keeps attention from torch's fused kernels, and which of it is taken."""

from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith import knobs, report
from warpsmith.torch_backend.attention import lay_dense, take_few_rows
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


def turned(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Of heads as a convolution gives them, values behind pixels; keys are one with queries."""
    heads = x.sin().reshape(2, 4, 8, 16).transpose(-1, -2)
    return attention(heads, heads, value=heads.cos(), attn_mask=keys[:, None, None, :])


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    keys = torch.ones(2, 16, dtype=torch.bool)
    keys[:, 12:] = False
    keys[:, 0] = True
    return torch.randn(2, 4, 16, 8, generator=torch.manual_seed(0)), keys


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("program", "copies"), [(masked, 1), (placed, 1), (turned, 2), (dense, 0), (bare, 0)]
)
def test_what_attention_reads_steps_by_one_element(program: Any, copies: int) -> None:
    graphs: list[GraphModule] = []

    def seen(module: GraphModule, inputs: Any) -> Any:
        lay_dense(module)
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


class Following(torch.nn.Module):
    """A word's heads attend to keys that are kept, behind its own."""

    def __init__(self, heads: int = 4, groups: int = 2, room: int = 150) -> None:
        super().__init__()
        self.groups, self.heads = groups, heads
        self.project = torch.nn.Linear(64, (heads + 2 * groups) * 64, bias=False)
        self.out = torch.nn.Linear(heads * 64, 64, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(2, groups, room, 64))

    def forward(self, x: torch.Tensor, place: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        parts = self.project(x).view(2, 1, -1, 64).transpose(1, 2)
        q, k, v = parts.split([self.heads, self.groups, self.groups], 1)
        self.keys.index_copy_(2, place, k.sin())
        self.values.index_copy_(2, place, v.sin())
        y = attention(q.cos(), self.keys, self.values, mask, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


def masks() -> dict[str, torch.Tensor]:
    keys = torch.rand(2, 1, 1, 150) < 0.5
    keys[..., 3] = True
    return {
        "bool": keys,
        "float": torch.randn(2, 1, 1, 150).bfloat16(),
        "of each head": torch.randn(2, 4, 1, 150).bfloat16(),
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["bool", "float", "of each head"])
def test_a_word_attends_in_a_kernel_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And both caches are written where keys and values are computed."""
    ours = partial(take_few_rows, devices=("cpu",), least=0)
    monkeypatch.setattr("warpsmith.torch_backend.backend.take_few_rows", ours)
    torch._dynamo.reset()
    with torch.no_grad(), knobs.scope(device="sim"):
        model = Following().bfloat16()
        exact = deepcopy(model).float()
        x, place, mask = torch.randn(2, 1, 64).bfloat16(), torch.tensor([33]), masks()[name]
        fast = torch.compile(model, backend=backend, fullgraph=True)
        found = fast(x, place, mask)
        wide = mask.float() if mask.dtype.is_floating_point else mask
        expected = exact(x.float(), place, wide)
    torch.testing.assert_close(found.float(), expected, rtol=0.03, atol=0.02)
    torch.testing.assert_close(model.keys.float(), exact.keys, rtol=0.02, atol=0.02)
    (graph,) = report(fast).graphs
    assert not graph.reasons
    assert "kernel attention" in str(report(fast))


def of_rows(q: torch.Tensor, k: torch.Tensor, **how: Any) -> torch.Tensor:
    return attention(q, k, k, enable_gqa=True, **how)


@pytest.mark.parametrize(
    ("shape", "how", "taken"),
    [
        ((2, 4, 1, 64), {}, 1),
        ((2, 4, 2, 64), {}, 0),
        ((2, 4, 1, 96), {}, 0),
        ((1, 4, 1, 64), {}, 0),
        ((2, 2, 1, 64), {}, 0),
        ((2, 4, 1, 64), {"is_causal": True}, 0),
        ((2, 4, 1, 64), {"dtype": torch.float32}, 0),
        ((2, 4, 1, 64), {"grad": True}, 0),
        ((2, 4, 1, 64), {"scale": 0.5}, 1),
        ((2, 4, 1, 64), {"attn_mask": torch.zeros(1, 1, 1, 130, requires_grad=True)}, 0),
        ((2, 0, 1, 64), {}, 0),
        ((2, 4, 1, 64), {"dynamic": True}, 0),
        ((2, 4, 1, 64), {"autocast": torch.float16}, 0),
        ((2, 4, 1, 64), {"autocast": torch.bfloat16}, 1),
        ((2, 4, 1, 64), {"keys": 128}, 0),
        ((2, 4, 1, 64), {"least": 133121}, 0),
        ((2, 4, 1, 64), {"attn_mask": torch.ones(1, 130, dtype=torch.bool)}, 0),
    ],
)
def test_which_attention_is_taken(shape: tuple[int, ...], how: dict[str, Any], taken: int) -> None:
    graphs: list[GraphModule] = []

    def seen(module: GraphModule, inputs: Any) -> Any:
        take_few_rows(module, ("cpu",), least)
        graphs.append(module)
        return module

    how = dict(how)
    dtype, grad = how.pop("dtype", torch.bfloat16), how.pop("grad", False)
    least, keys = how.pop("least", 0), how.pop("keys", 130)
    q = torch.randn(shape, dtype=dtype, requires_grad=grad)
    k = torch.randn(shape[0], min(2, shape[1]), keys, shape[-1], dtype=dtype)
    dynamic = how.pop("dynamic", None)  # of heads and widths, too
    cast = how.pop("autocast", None)
    torch._dynamo.reset()
    with torch.autocast("cpu", cast, enabled=cast is not None):
        found = torch.compile(of_rows, backend=seen, dynamic=dynamic)(q, k, **how)
        expected = of_rows(q, k, **how)
    (module,) = graphs
    operator = torch.ops.warpsmith.attention_of_rows.default
    assert len(module.graph.find_nodes(op="call_function", target=operator)) == taken
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.01)
