"""Gradients of embeddings in a graph of AOTAutograd's."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith.nn.embeddings import SUMMED
from warpsmith.torch_backend.embeddings import sum_embeddings


@pytest.mark.parametrize(
    ("device", "by_frequency", "ours"),
    [("cuda", False, True), ("cuda", True, False), ("cpu", False, False)],
)
def test_those_on_a_gpu_are_summed_by_ours(device: str, by_frequency: bool, ours: bool) -> None:
    def program(dy: Tensor, words: Tensor) -> Tensor:
        return torch.ops.aten.embedding_dense_backward(dy, words, 8, 3, by_frequency) + 1

    with FakeTensorMode():
        dy = torch.empty(2, 6, 4, dtype=torch.bfloat16, device=device)
        words = torch.empty(2, 6, dtype=torch.int64, device=device)
        module = make_fx(program)(dy, words)
    sum_embeddings(module.graph)
    module.graph.lint()
    kinds = SUMMED, torch.ops.aten.embedding_dense_backward.default
    (node,) = (n for n in module.graph.nodes if n.target in kinds)
    assert (node.target is SUMMED) == ours
    assert node.args[2:4] == (8, 3)
    made = node.meta["val"]
    assert (made.shape, made.dtype, made.device.type) == ((8, 4), torch.bfloat16, device)
    assert len(node.users) == 1
