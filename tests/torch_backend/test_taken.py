"""Operations that torch's core set has whole are taken apart, and leave nothing to torch."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own name of it

from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.torch_backend.backend import backend

aten = torch.ops.aten

MODULES: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: nn.BatchNorm2d(8),
    "batch norm for inference": lambda: nn.Sequential(nn.BatchNorm2d(8), nn.ReLU6()).eval(),
    "instance norm": lambda: nn.InstanceNorm2d(8, affine=True),
    "group norm": lambda: nn.Sequential(nn.GroupNorm(4, 8), nn.SiLU()),
    "group norm of rows": lambda: nn.Sequential(nn.Flatten(), nn.GroupNorm(5, 200, affine=False)),
    "activations": lambda: nn.Sequential(nn.ELU(), nn.LeakyReLU(0.2), nn.Hardtanh(-0.5, 2)),
}


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", MODULES)
def test_modules_of_images_give_what_torch_gives(name: str) -> None:
    """Results, gradients and running statistics."""
    module, x = MODULES[name](), torch.randn(3, 8, 5, 5)
    other = deepcopy(module)
    found, wanted = (trained(each, x) for each in (torch.compile(module, backend=backend), other))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(list(module.buffers()), list(other.buffers()))


def trained(function: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    made = function(x)
    (made * torch.linspace(-1, 1, made.numel()).view_as(made)).sum().backward()
    assert x.grad is not None
    weights = [each.grad for each in function.parameters() if each.grad is not None]
    return [made.detach(), x.grad, *weights]


def best(x: Tensor) -> list[Tensor]:
    return [*x.max(-1), *x.min(0, keepdim=True)]


def chosen(x: Tensor) -> list[Tensor]:
    """What is written to one place of each row."""
    place = x.argmax(-1, keepdim=True)
    ones, sums = torch.zeros_like(x).scatter(-1, place, 1.0), x.scatter_add(-1, place, place + 0.5)
    return [ones, sums, x.scatter(1, place, x[:, :1] * 2)]


def lengths(x: Tensor) -> list[Tensor]:
    return [F.normalize(x, dim=0), x.norm(p=1, dim=-1), x.norm()]


def enlarged(x: Tensor) -> list[Tensor]:
    return [F.interpolate(x.reshape(1, 1, *x.shape), scale_factor=2, mode="nearest")]


def rolled(x: Tensor) -> list[Tensor]:
    """All of it as one row, too."""
    return [x.exp().roll((1, -2), (0, 1)) + 1, x.roll(11) * 2, x.roll((2, 1), (0, 0))]


def set_by_steps(x: Tensor) -> list[Tensor]:
    """In a tensor, and in zeros, to which the last step does not reach, or by far."""
    zeros = torch.zeros_like(x)
    return [
        aten.slice_scatter(x * 2, x[:, :3], 1, 1, 8, 3),
        aten.slice_scatter(zeros, x[:2] + 1, 0, 2, 6, 3),
        aten.slice_scatter(zeros, x[:1] + 1, 0, 4, 9, 3),
    ]


def diagonals(x: Tensor) -> list[Tensor]:
    """Of more rows than 8 bits count, for which torch asks for 16 without a sign."""
    return [torch.eye(300, 9) + x.sum(0), torch.eye(6, dtype=torch.bool) & (x[:, :6] > 0)]


FUNCTIONS = [best, chosen, lengths, enlarged, rolled, set_by_steps, diagonals]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_one_region(function: Callable[[Tensor], list[Tensor]]) -> None:
    x = torch.randn(6, 9)
    x[2, 3] = x[2, 7] = 9.0  # of equal ones the first
    made = compiled(function, x)
    assert not made.regions.reasons
    torch.testing.assert_close(list(made.run([x])), function(x))


def test_what_is_written_to_several_places_is_left_to_torch() -> None:
    places = torch.randint(9, (6, 2))

    def several(x: Tensor, places: Tensor) -> list[Tensor]:
        return [torch.zeros_like(x).scatter_add(-1, places, x) + 1]

    x = torch.randn(6, 9)
    made = compiled(several, x, places)
    assert list(made.regions.reasons.values()) == ["it writes to other than one place of each row"]
    torch.testing.assert_close(list(made.run([x, places])), several(x, places))


def kinds(x: Tensor) -> list[Tensor]:
    wide = x * x * 100
    return [torch.where(wide.isinf(), 5, wide), wide.isfinite().all(), wide == wide.amax()]


def ties(x: Tensor) -> list[Tensor]:
    a, b = x * 1.001, x * 1.002
    return [a == b, a < b, (a > 0.1), (x * 1e-8) == 0]


def numbers(x: Tensor) -> list[Tensor]:
    """What meets halves is one: a number, or a tensor without dimensions, but of no integers."""
    tenth, whole = torch.tensor(0.1, dtype=torch.double), torch.arange(2040, 2051).int()
    compared = [f(x, b) for f in (torch.eq, torch.ge, torch.lt) for b in (0.1, tenth, 1e6)]
    left = [f(x, b) for f in (torch.remainder, torch.fmod) for b in (0.1, tenth, x.flip(0))]
    return [*compared, *left, whole == torch.tensor(2048.0, dtype=x.dtype), x == x.float() * 1.0001]


@pytest.mark.parametrize("function", [kinds, ties, numbers])
def test_halves_are_compared_as_they_are_rounded(
    function: Callable[[Tensor], list[Tensor]],
) -> None:
    x = torch.linspace(0, 60, 99, dtype=torch.half).reshape(9, 11)
    x[0, 0], x[1, 1] = 0.1, torch.inf
    made = compiled(function, x)
    assert not made.regions.reasons
    torch.testing.assert_close(list(made.run([x])), function(x), equal_nan=True)


def in_common_types(x: Tensor) -> list[Tensor]:
    """Of bytes and what is wider: products are of the wider type, too."""
    wide, one = x.short(), torch.tensor(3, dtype=torch.uint8)
    sums = [
        torch.add(wide, x, alpha=2),
        torch.sub(wide, one, alpha=100),
        torch.rsub(x, wide, alpha=9),
    ]
    shares = (x.half() / 8).trunc(), torch.div(x.half(), (x % 7).half() / 10, rounding_mode="trunc")
    return [*sums, torch.addcmul(wide, x, x, value=3), *shares]


def test_operands_are_multiplied_in_the_type_of_the_result() -> None:
    x = torch.arange(256, dtype=torch.uint8).view(16, 16)
    made = compiled(in_common_types, x)
    assert not made.regions.reasons
    torch.testing.assert_close(list(made.run([x])), in_common_types(x), equal_nan=True)


def limited(x: Tensor) -> list[Tensor]:
    """Floats of an integer's threshold are integers to torch."""
    numbers = ((2**53 + 1, 2**60 + 3), (2.0**53, 2**53 + 1), (3, 7.5), (-7.5, -3))
    return [F.threshold(x, limit, value) for limit, value in numbers]


def test_thresholds_of_integers_are_integers() -> None:
    x = torch.tensor([2**53, 2**53 + 1, 2**53 + 2, 2**60 + 1, 3, -7])
    made = compiled(limited, x)
    assert not made.regions.reasons
    torch.testing.assert_close(list(made.run([x])), limited(x))


def by_rows(x: Tensor) -> list[Tensor]:
    wide = x.view(x.shape[0], -1, 8).float()
    scale = wide.abs().amax(-1, keepdim=True) / 448
    return [(wide / scale).to(torch.float8_e4m3fn).view(x.shape), scale]


def other_types(x: Tensor) -> list[Tensor]:
    narrow = x.to(torch.float8_e5m2)
    a, b = narrow.chunk(2, -1)
    return [a.float() * 2, b.contiguous(), narrow.t().contiguous()]


@pytest.mark.parametrize("device", ["reference", "sim"])
@pytest.mark.parametrize("function", [by_rows, other_types])
def test_eight_bit_floats_are_converted(
    function: Callable[[Tensor], list[Tensor]], device: str
) -> None:
    """Beyond the largest, too, and as bits."""
    x = torch.cat((torch.randn(5, 16), torch.full((1, 16), 1e5))).bfloat16()
    made = compiled(function, x, device=device)
    assert not made.regions.reasons
    with knobs.scope(device=device):
        found = made.run([x])
    for mine, theirs in zip(found, function(x), strict=True):
        assert mine.dtype is theirs.dtype
        assert torch.equal(mine.float(), theirs.float())


@pytest.mark.parametrize("dim", [-1, 0])
def test_cross_products_are_one_kernel(dim: int) -> None:
    def crossed(a: Tensor, b: Tensor) -> list[Tensor]:
        return [torch.linalg.cross(a, torch.linalg.cross(a, b, dim=dim), dim=dim) + b]

    a, b = torch.randn(3, 4, 3), torch.randn(3, 1, 3)
    made = compiled(crossed, a, b, device="sim")
    assert len(made.programs) == 1
    torch.testing.assert_close(list(made.run([a, b])), crossed(a, b))
    (program,) = made.programs
    assert program is not None
    assert len(program.executable_for([a, b]).plan_for([a, b]).segments) == 1


def test_areas_and_their_gradients_are_no_scans() -> None:
    """Of the product of a row torch gives gradients by products of what is before and behind."""

    def shares(a: Tensor, b: Tensor) -> Tensor:
        sides = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(0)
        areas = [(x[:, 2:] - x[:, :2]).prod(1) for x in (a, b)]
        return sides.prod(1) / (areas[0] + areas[1] - sides.prod(1))

    def gradient(a: Tensor, b: Tensor) -> list[Tensor]:
        made, pull = torch.func.vjp(shares, a, b)
        return [made, *pull(torch.ones_like(made))]

    begin = torch.rand(9, 2)
    a, b = (torch.cat([begin + k / 9, begin + 1 + k / 9], 1) for k in (0, 1))
    b[0, 2] = b[0, 0]  # its area is 0
    made = compiled(torch.func.functionalize(gradient), a, b, device="sim")
    assert len(made.programs) == 1
    assert not any("cum" in str(node.target) for node in made.regions.kinds)
    torch.testing.assert_close(list(made.run([a, b])), gradient(a, b))


def test_nothing_is_computed_of_eight_bit_floats() -> None:
    x = torch.randn(4, 4).to(torch.float8_e4m3fn)
    made = compiled(lambda x: [x == x.t().contiguous()], x)
    assert list(made.regions.reasons.values()) == ["type float8_e4m3fn"]


def test_places_are_filled_whatever_the_order_in_memory() -> None:
    """Torch's parts copied what is turned into an empty tensor, in some versions in place."""

    def filled(x: Tensor, places: Tensor) -> list[Tensor]:
        return [x.t().index_fill(-1, places, 2), x.index_fill(0, places - 1, x.sum())]

    x, places = torch.randn(4, 6), torch.tensor([0, 3])
    made = compiled(filled, x, places)
    assert not any("copy" in str(node.target) for node in made.regions.kinds)
    torch.testing.assert_close(list(made.run([x, places])), filled(x, places))
