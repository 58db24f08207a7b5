"""Complex numbers are computed by parts, and lie in memory as torch has them."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith import knobs
from warpsmith.torch_backend.complexes import compute_parts
from warpsmith.torch_backend.decompositions import decompositions
from warpsmith.torch_backend.graph import compile_graph


def rotary(x: Tensor, h: Tensor, turns: Tensor) -> list[Tensor]:
    pairs = torch.view_as_complex(x.reshape(3, 4, 8, 2))
    return [torch.view_as_real(pairs * turns[None]).flatten(2), turns[None]]


def convolution(x: Tensor, h: Tensor, turns: Tensor) -> list[Tensor]:
    return [torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(h))]


def its_gradient(x: Tensor, h: Tensor, turns: Tensor) -> list[Tensor]:
    a, b = torch.fft.rfft(x), torch.fft.rfft(h)
    product = a * b.conj()
    return [torch.fft.irfft(product), product.sum(0), (a * 2.5 - b).real, b.conj().imag]


def others(x: Tensor, h: Tensor, turns: Tensor) -> list[Tensor]:
    made = torch.polar(h.abs(), h) + torch.complex(h, -h)
    chosen = torch.where(h > 0, made / 2, -made)
    return [chosen, (made * h)[:, ::2].mT * 3, made.view(2, 2, 16).mean(1).abs()]


def lengths(x: Tensor, h: Tensor, turns: Tensor) -> list[Tensor]:
    far = torch.complex(x * 2e38, x.flip(0) * 2e38)
    ends = torch.complex(h * 0, torch.where(h > 1, float("inf"), 0.0))
    near = torch.fft.rfft(x)
    slope = near / near.abs()
    return [far.abs(), ends.abs(), near.mT.abs(), torch.where(near.abs() > 0, slope, 0)]


def of_memory(x: Tensor, h: Tensor, turns: Tensor) -> list[Tensor]:
    return [turns.exp() * 2j, turns[1:], turns * turns.exp(), turns.mT.exp().mT * turns]


@pytest.mark.parametrize(
    ("program", "products"),
    [(rotary, 0), (convolution, 0), (its_gradient, 0), (lengths, 0), (others, 1), (of_memory, 1)],
)
def test_parts_are_computed(program: Any, products: int) -> None:
    draw = torch.Generator().manual_seed(0)
    x, h = torch.randn(3, 4, 16, generator=draw), torch.randn(4, 16, generator=draw)
    given = x, h, torch.polar(h[:, ::2].abs(), h[:, 1::2])
    module = make_fx(program, dict(decompositions()), tracing_mode="fake")(*given)
    expected = module(*given)
    compute_parts(module.graph)
    module.graph.lint()
    module.recompile()
    multiplied = module.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    assert sum(node.meta["val"].dtype.is_complex for node in multiplied) == products
    found = module(*given)
    torch.testing.assert_close(found, expected)
    assert [each.is_contiguous() for each in found] == [each.is_contiguous() for each in expected]


def test_a_rotary_is_one_kernel_and_its_turns_are_read_as_they_lie() -> None:
    x = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(0))
    given = [x, torch.polar(x[0, :, ::2].abs(), x[1, :, ::2])]
    module = make_fx(lambda x, turns: rotary(x, x, turns)[:1], tracing_mode="fake")(*given)
    compute_parts(module.graph)
    made = compile_graph(
        module, knobs.current().replace(device="reference"), precision="exact", products=True
    )
    assert len(made.programs) == 1
    torch.testing.assert_close([*made.run([*given])], rotary(x, *given)[:1])
