"""Blocks of models: their forward and backward mean what PyTorch says, and are planned."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.programs.judge import plan_only
from tests.programs.models import peers
from tests.programs.models.catalog import SMALL, Block, assert_means, defined
from warpsmith import knobs
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.evaluate import evaluate

PEERS: dict[str, Callable[..., torch.Tensor]] = {
    "gpt2": partial(peers.gpt2, 2),
    "llama": partial(peers.llama, 4, 2),
    "qwen": partial(peers.llama, 4, 2),
    "bert": partial(peers.bert, 2),
    "vit": partial(peers.vit, 2),
    "t5": partial(peers.t5, 2),
    "dlrm": peers.dlrm,
}


def wanted(
    name: str, block: Block, arrays: list[np.ndarray]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Arguments as float64 tensors, with gradients where they have some, and the result."""
    given = [torch.from_numpy(a if a.dtype == bool else a.astype(np.float64)) for a in arrays]
    for position in block.with_gradients:
        given[position].requires_grad_()
    return PEERS[name](*given), given


@pytest.mark.parametrize("name", SMALL)
def test_forward_is_pytorchs(name: str) -> None:
    block = SMALL[name]()
    arrays = block.drawn(DataType.Float)
    expected, _ = wanted(name, block, arrays)
    (got,) = evaluate(defined(block.forward, arrays).fusion, arrays, precise=True)
    assert got.shape == block.result
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", SMALL)
def test_backward_is_autograds(name: str) -> None:
    block = SMALL[name]()
    arrays, dy = block.drawn(DataType.Float), block.gradient(DataType.Float)
    expected, given = wanted(name, block, arrays)
    expected.backward(torch.from_numpy(dy.astype(np.float64)))
    fusion = defined(block.backward, [dy, *arrays]).fusion
    gradients = evaluate(fusion, [dy, *arrays], precise=True)
    assert len(gradients) == len(block.with_gradients)
    for position, got in zip(block.with_gradients, gradients, strict=True):
        peer = given[position].grad
        assert peer is not None
        np.testing.assert_allclose(got, peer.numpy(), rtol=1e-6, atol=1e-9, err_msg=str(position))


def program(name: str, way: str, dtype: DataType) -> tuple[Any, list[np.ndarray]]:
    block = SMALL[name]()
    arrays = block.drawn(dtype)
    if way == "backward":
        arrays = [block.gradient(dtype), *arrays]
    return defined(getattr(block, way), arrays), arrays


PLANNED = [name for name in SMALL if name != "qwen"]
"""But one whose backward takes four seconds to plan."""


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("name", [*PLANNED, pytest.param("qwen", marks=pytest.mark.slow)])
def test_all_are_planned(name: str, way: str) -> None:
    fd, arrays = program(name, way, DataType.BFloat16)
    assert plan_only(fd, arrays).launches


@pytest.mark.slow
@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("name", SMALL)
def test_all_are_right_on_the_simulator(name: str, way: str) -> None:
    fd, arrays = program(name, way, DataType.Float)
    with knobs.scope(device="sim"):
        assert_means(fd, arrays, fd.execute(arrays))
