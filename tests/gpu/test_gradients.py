"""Fused programs carry no gradients, so tensors that require one are refused."""

import pytest
import torch

import warpsmith


def test_a_gradient_is_refused_and_no_grad_is_not():
    kernel = warpsmith.fuse(lambda t: t * 2.0)
    x = torch.randn(64, device="cuda")
    expected = kernel(x)
    x.requires_grad_()
    with pytest.raises(warpsmith.errors.ArgumentError, match="argument 0 requires a gradient"):
        kernel(x)
    with torch.no_grad():
        assert torch.equal(kernel(x), expected)
