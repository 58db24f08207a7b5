"""nvFuser's module on a GPU."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tests.support.nvfuser_schedules import centred, transposed
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition, ParallelType
from warpsmith.testing import assert_close


def _drawn(*, with_seed: bool) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True])
        words: dict[str, Any] = {}
        if with_seed:
            words = {
                "rng_seed": fd.define_scalar(DataType.Int),
                "rng_offset": fd.define_scalar(DataType.Int),
            }
        fd.add_output(fd.ops.mul(x, fd.ops.uniform(0.0, 1.0, x.shape(), **words)))
    return fd


def test_seed_and_offset_are_those_of_the_device() -> None:
    x = torch.ones(1000, device="cuda")
    free, fixed = _drawn(with_seed=False), _drawn(with_seed=True)
    torch.manual_seed(5)
    for offset in range(3):
        assert torch.equal(free.execute([x])[0], fixed.execute([x, 5, offset])[0])


def test_tensors_of_the_cpu() -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.ones(4, device="cuda"))
        factor = fd.from_pytorch(torch.tensor(2.5))
        with pytest.raises(ValueError, match="only scalar CPU or CUDA tensors"):
            fd.from_pytorch(torch.ones(2))
        fd.add_output(fd.ops.mul(x, factor))
        fd.add_output(fd.ops.full([2], 3.0, DataType.Float))
    product, three = fd.execute([torch.ones(4, device="cuda"), torch.tensor(2.5)], device=0)
    assert torch.equal(product, torch.full((4,), 2.5, device="cuda"))
    assert three.device.type == "cuda"


@pytest.mark.parametrize(
    ("dropped", "is_causal", "scale", "columns"),
    [(0.0, False, None, 8), (0.2, True, 1e-3, 8), (0.2, False, None, 8), (0.0, True, None, 5)],
)
def test_attention_is_torchs_own(
    dropped: float, is_causal: bool, scale: float | None, columns: int
) -> None:
    """Forward, and backward in a fusion of its own and in the same one, with what is dropped."""
    q, k, v, g = (
        torch.randn(4, 8, 16, columns, dtype=torch.bfloat16, device="cuda", requires_grad=n < 3)
        for n in range(4)
    )
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        torch.manual_seed(0)
        out = scaled_dot_product_attention(
            q, k, v, dropout_p=dropped, is_causal=is_causal, scale=scale
        )
        wanted = [out, *torch.autograd.grad(out, (q, k, v), g)]
    options = {"dropout_p": dropped, "is_causal": is_causal, "scale": scale}
    with FusionDefinition() as both:
        tq, tk, tv, tg = map(both.from_pytorch, (q, k, v, g))
        made, total, seed, offset = both.ops.sdpfa_fwd(tq, tk, tv, **options)
        state = {"philox_seed": seed, "philox_offset": offset, **options}
        gradients = both.ops.sdpfa_bwd(tg, tq, tk, tv, made, total, **state)
        for each in (made, *gradients, total, seed, offset):
            both.add_output(each)
    torch.manual_seed(0)
    *found, sums, kept, place = both.execute([q, k, v, g])
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want.detach())
    given = [g, q, k, v, found[0], sums, kept, place]
    with FusionDefinition() as backward:
        *tensors, seed, offset = map(backward.from_pytorch, given)
        state = {"philox_seed": seed, "philox_offset": offset, **options}
        for each in backward.ops.sdpfa_bwd(*tensors, **state):
            backward.add_output(each)
    for got, want in zip(backward.execute(given), wanted[1:], strict=True):
        torch.testing.assert_close(got, want)


def test_products_in_pieces_on_streams() -> None:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        made = fd.ops.matmul(a, b)
        fd.add_output(made)
        made.outer_split(1, 3)
        made.axis(1).parallelize(ParallelType.stream)
    left, right = torch.randn(512, 256, device="cuda"), torch.randn(256, 700, device="cuda")
    exact = left.double() @ right.double()
    assert_close(left @ right, exact, reduction_length=256)  # the bound holds for torch's own, too
    for _ in range(3):
        (found,) = fd.execute([left, right])
        assert_close(found, exact, reduction_length=256)


def test_a_transposition_by_swizzled_tiles() -> None:
    with FusionDefinition() as fd:
        transposed(fd, True)
    given = torch.randn(10000, 10000, device="cuda")
    (found,) = fd.manual_execute([given])
    assert torch.equal(found, given.T)


def test_rows_that_are_centred_in_shared_memory() -> None:
    with FusionDefinition() as fd:
        centred(fd, 256)
    given = torch.randn(1024, 4096, device="cuda")
    (found,) = fd.manual_execute([given])
    torch.testing.assert_close(found, given.mean(1, keepdim=True) - given, atol=1e-5, rtol=1e-5)
