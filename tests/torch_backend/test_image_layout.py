"""Convolutions read and give channels last, and what leaves a graph lies as before."""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.binaries import uncompiled
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.graph import compile_graph
from warpsmith.torch_backend.program import Program

pytestmark = pytest.mark.usefixtures("fresh")

HALF = torch.bfloat16


class Convolved(TorchDispatchMode):  # type: ignore[misc]  # torch is not analysed
    """Images that convolutions are given as they run."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "convolution" in str(func):
            self.images += [each for each in args if isinstance(each, Tensor)]
        return func(*args, **(kwargs or {}))


@pytest.fixture
def convolutions(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Those of all graphs that are compiled."""
    found: list[Node] = []

    def noted(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
        found.extend(node for node in module.graph.nodes if "convolution" in str(node.target))
        return compile_graph(module, *args, **kwargs)

    monkeypatch.setattr("warpsmith.torch_backend.compilers.compile_graph", noted)
    return found


def images(nodes: Iterable[Node]) -> list[Tensor]:
    """What convolutions are to be given."""
    return [each.meta["val"] for node in nodes for each in node.all_input_nodes]


def all_last(tensors: Sequence[Tensor]) -> bool:
    assert tensors
    return all(each.is_contiguous(memory_format=torch.channels_last) for each in tensors)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.second = nn.Conv2d(16, 8, 3, padding=1)
        self.head = nn.Linear(8 * 6 * 6, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.first(x).relu()
        y = self.second(nn.functional.silu(self.norm(h.contiguous()))) + x[:, :8]
        return self.head(y.flatten(1)), y


class Upwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(4, 8, 3, 2, 1)
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.grouped(self.down(x)).tanh()) * x


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Conv2d(8, 24, 1)
        self.out = nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).flatten(2).unflatten(1, (3, 2, 4)).transpose(-1, -2).unbind(1)
        h = scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous())
        return self.out(h.transpose(-1, -2).reshape(x.shape)) + x


MODELS = [
    (Block, (2, 16, 6, 6)),
    (Upwards, (2, 4, 6, 6)),
    (Attends, (2, 8, 4, 4)),
]


def lies(tensor: Tensor) -> list[int]:
    """Strides that count."""
    return [s for s, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]


def trained(call: Callable[..., Any], x: Tensor) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Results, and what flows back to x; and what convolutions were given behind the results."""
    x = x.detach().requires_grad_()
    results = call(x)
    several = results if isinstance(results, tuple) else (results,)
    total = sum((each.float() * each.float().detach().cos()).sum() for each in several)
    with Convolved() as seen:
        total.backward()
    assert x.grad is not None
    return (*(each.detach() for each in several), x.grad), seen.images


@pytest.mark.few(3)
@pytest.mark.parametrize(("model", "shape"), MODELS)
@pytest.mark.parametrize("last", [False, True], ids=["rows", "channels last"])
def test_images_have_channels_last_and_results_lie_as_before(
    model: type[nn.Module], shape: tuple[int, ...], last: bool, convolutions: list[Node]
) -> None:
    ours = model().to(HALF)
    x = torch.randn(shape).to(HALF)
    if last:
        x = x.to(memory_format=torch.channels_last)
    theirs, exact = deepcopy(ours), deepcopy(ours).float()
    compiled = torch.compile(ours, backend=backend)
    (wanted, _), (right, _) = trained(theirs, x), trained(exact, x.float())
    found, given_back = trained(compiled, x)
    given = [tuple(p.grad for p in m.parameters()) for m in (ours, theirs, exact)]
    assert all_last(images(convolutions))
    assert all_last(given_back)
    for a, b, c in zip(found, wanted, right, strict=True):
        assert lies(a) == lies(b)
        assert float((a.float() - c).norm()) < 0.03 * float(c.norm())
    for a, b, c in zip(*given, strict=True):
        assert lies(a) == lies(b)
        assert float((a.float() - c).norm()) < 0.04 * float(c.norm())
    with torch.no_grad():
        several = compiled(x)
    several = several if isinstance(several, tuple) else (several,)
    for a, b in zip(several, wanted[:-1], strict=True):
        assert lies(a) == lies(b)
        assert float((a - b).float().norm()) < 0.03 * float(b.norm())


def test_random_numbers_are_drawn_in_torchs_order() -> None:
    """What is drawn for each element in memory is for the same one as before."""
    convolution = nn.Conv2d(4, 4, 1).to(HALF)

    def program(x: Tensor) -> Tensor:
        return dropout(convolution(x).relu(), 0.5)

    x = torch.randn(2, 4, 5, 5).to(HALF)
    torch.manual_seed(1)
    wanted = program(x)
    torch.manual_seed(1)
    found = torch.compile(program, backend=backend)(x)
    assert torch.equal(found == 0, wanted == 0)


@pytest.mark.parametrize("tf32", [False, True])
def test_float32_has_channels_last_with_tf32_alone(
    tf32: bool, monkeypatch: pytest.MonkeyPatch, convolutions: list[Node]
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", tf32)
    with torch.no_grad():
        torch.compile(nn.Conv2d(8, 8, 3), backend=backend)(torch.randn(2, 8, 5, 5))
    assert all_last(images(convolutions)) is tf32


def test_a_bias_and_its_gradient_are_no_work_of_convolutions(convolutions: list[Node]) -> None:
    x = torch.randn(2, 4, 5, 5).to(HALF).requires_grad_()
    torch.compile(nn.Conv2d(4, 4, 1).to(HALF), backend=backend)(x).sum().backward()
    forward, backward = convolutions
    assert forward.args[2] is None
    assert backward.args[-1] == [True, True, False]


def test_norms_of_channels_last_are_priced_as_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each channel was priced as a sector of its own, and norms were sums and what follows."""
    found: list[str] = []

    def planned(self: Program, values: list[Any]) -> list[torch.Tensor]:
        with uncompiled():
            segments = self.executable_for(values).plan_for(values).segments
        found.extend(each.candidate.scheduler for each in segments if each.candidate)
        return [torch.empty_like(node.meta["val"], device="cpu") for node in self.recipe.results]

    monkeypatch.setattr(Program, "__call__", planned)
    torch._dynamo.reset()
    x = torch.empty(11, 64, 64, 128, dtype=torch.bfloat16).permute(0, 3, 1, 2)
    with torch.no_grad():
        torch.compile(torch.nn.GroupNorm(32, 128).bfloat16(), backend=backend)(x)
    assert found == ["parts"]
