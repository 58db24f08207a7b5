"""Attention by nvFuser's names: by PyTorch's kernels of what a call passes, else by products."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from warpsmith import knobs
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition
from warpsmith.frontends.nvfuser_direct.attention_by_torch import is_by_products, laid

BY_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
GRADIENTS = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def _narrow(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.bfloat16)


def _inputs(fd: FusionDefinition, count: int) -> list[Any]:
    return [fd.define_tensor([-1] * 4, True, dtype=DataType.BFloat16) for _ in range(count)]


def test_of_inputs_it_is_torchs_own() -> None:
    """To the last bit, with options that are scalars; one result goes to a kernel, too."""
    with FusionDefinition() as fd:
        q, k, v = _inputs(fd, 3)
        options = [fd.define_scalar(kind) for kind in (DataType.Double, DataType.Bool)]
        scale = fd.define_scalar(DataType.Double)
        made, total, seed, _ = fd.ops.sdpfa_fwd(q, k, v, None, None, *options, scale)
        for each in (made, total, seed, fd.ops.neg(made)):
            fd.add_output(each)
    given = [_narrow(2, 2, 5, 4) for _ in range(3)]
    for is_causal in (True, False):
        found = fd.execute([*given, 0.0, is_causal, 0.3])
        wanted = BY_CPU(*given, 0.0, is_causal, scale=0.3)
        assert torch.equal(found[0], wanted[0])
        assert torch.equal(found[1], wanted[1])
        assert torch.equal(found[3], -wanted[0])
        assert found[2].dtype is torch.uint64
    fd.validate([*given, 0.0, False, 0.3])
    with pytest.raises(AssertionError, match="output 0"):
        fd.validate([*given, 0.0, False, 0.3], [*found[:3], found[0]])
    assert "fd.ops.sdpfa_fwd(tv0, tv1, tv2, dropout_p=" in repr(fd)


def test_numbers_in_the_places_of_bias_and_mask_are_those_behind_them() -> None:
    """As Lightning Thunder calls it: by places, of when there was neither."""
    with FusionDefinition() as fd:
        q, k, v = _inputs(fd, 3)
        numbers = [fd.define_scalar(each) for each in (0.0, True, 0.3)]
        made, *_ = fd.ops.sdpfa_fwd(q, k, v, *numbers)
        fd.add_output(made)
    given = [_narrow(2, 2, 5, 4) for _ in range(3)]
    assert torch.equal(fd.execute(given)[0], BY_CPU(*given, 0.0, True, scale=0.3)[0])


def test_gradients_of_inputs_are_torchs_own() -> None:
    """A fusion of nothing else runs no kernel; another one takes results of the first."""
    state = [torch.tensor([5, 7], dtype=torch.uint64), torch.tensor(3, dtype=torch.uint64)]
    with FusionDefinition() as fd:
        g, q, k, v, made = _inputs(fd, 5)
        total = fd.define_tensor([-1] * 3, True)
        seed, offset = map(fd.from_pytorch, state)
        assert seed.dtype() is DataType.UInt64
        for each in fd.ops.sdpfa_bwd(g, q, k, v, made, total, None, True, seed, offset):
            fd.add_output(each)
    gradient, *given = (_narrow(2, 2, 5, 4) for _ in range(4))
    out, sums = BY_CPU(*given, 0.0, True)
    found = fd.execute([gradient, *given, out, sums, *state])
    wanted = GRADIENTS(gradient, *given, out, sums, 0.0, True)
    assert all(map(torch.equal, found, wanted))
    assert fd.fec.is_compiled([gradient, *given, out, sums, *state])
    state[0] = state[0].view(torch.int64)
    for wrong, said in ((state[0], "dtype uint64, but got .*int64_t"), (3, "at::Tensor but got")):
        with pytest.raises(RuntimeError, match=rf"WS0194.*Expected input 6.*{said}"):
            fd.execute([gradient, *given, out, sums, wrong, state[1]])
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([2], dtype=DataType.UInt64))
    with pytest.raises(RuntimeError, match=r"WS0194.*seed of UInt64, but got .*int64"):
        fd.execute([state[0]])
    (same,) = fd.execute([state[0].view(torch.uint64)])
    assert torch.equal(same.view(torch.int64), state[0])


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [3, 1, 2, 0]])
def test_scores_with_a_bias_and_a_mask(order: list[int]) -> None:
    with FusionDefinition() as fd:
        q, k, v = (
            fd.define_tensor([-1] * 4, True, dtype=DataType.BFloat16, stride_order=order)
            for _ in range(3)
        )
        (bias,) = _inputs(fd, 1)
        mask = fd.define_tensor([-1] * 4, True, dtype=DataType.Bool)
        made, *_ = fd.ops.sdpfa_fwd(q, k, v, bias=bias, mask=mask, is_causal=True)
        fd.add_output(made)
    query, key, value = (laid(_narrow(2, 3, rows, 4), order) for rows in (5, 6, 6))
    added, counts = _narrow(2, 3, 5, 6), torch.rand(2, 3, 5, 6) > 0.3
    counts[..., 0] = True
    (found,) = fd.execute([query, key, value, added, counts])
    counts &= torch.ones(5, 6, dtype=torch.bool).tril()
    masked = added.masked_fill(~counts, -torch.inf)
    torch.testing.assert_close(found, scaled_dot_product_attention(query, key, value, masked))
    assert found.stride() == query.stride()


def test_a_share_of_the_weights_is_dropped() -> None:
    """The seed that is returned says which: weights of the identity show them."""
    with FusionDefinition() as fd:
        g, q, k, v = _inputs(fd, 4)
        made, total, seed, offset = fd.ops.sdpfa_fwd(q, k, v, dropout_p=0.25)
        gradients = fd.ops.sdpfa_bwd(g, q, k, v, made, total, 0.25, False, seed, offset)
        for each in (made, *gradients):
            fd.add_output(each)
    query, key, gradient = _narrow(1, 2, 16, 8), _narrow(1, 2, 64, 8), _narrow(1, 2, 16, 64)
    value = torch.eye(64, dtype=torch.bfloat16).expand(1, 2, 64, 64).contiguous()
    weights, of_query, _, of_value = fd.execute([gradient, query, key, value])
    kept = weights != 0
    assert 0.65 < kept.float().mean() < 0.85
    query.requires_grad_()
    value.requires_grad_()
    scores = query.float() @ key.float().mT / 8**0.5
    again = (scores.softmax(-1) * kept / 0.75) @ value.float()
    torch.testing.assert_close(weights.float(), again, atol=1e-3, rtol=1e-2)
    wanted = torch.autograd.grad(again, (query, value), gradient.float())
    torch.testing.assert_close(of_query, wanted[0], atol=1e-2, rtol=2e-2)
    torch.testing.assert_close(of_value, wanted[1], atol=1e-2, rtol=2e-2)


def test_who_dropped_computes_the_gradients() -> None:
    """The type of the seed tells: products drop by numbers of their own, PyTorch by its own."""
    with FusionDefinition() as fd:
        q, k, v = _inputs(fd, 3)
        made, total, seed, offset = fd.ops.sdpfa_fwd(fd.ops.neg(q), k, v, dropout_p=0.25)
        for each in (made, total, seed, offset):
            fd.add_output(each)
    query, key, gradient = _narrow(1, 2, 8, 8), _narrow(1, 2, 16, 8), _narrow(1, 2, 8, 16)
    value = torch.eye(16, dtype=torch.bfloat16).expand(1, 2, 16, 16).contiguous()
    with knobs.scope(device="reference"):
        weights, *state = fd.execute([query, key, value])
    assert state[1].dtype is torch.int64
    given = [gradient, -query, key, value, weights, *state]
    with FusionDefinition() as fd:
        g, q, k, v, made, total, seed, offset = map(fd.from_pytorch, given)
        passed = [g, q, k, v, made, total]
        for each in fd.ops.sdpfa_bwd(*passed, 0.25, False, seed, offset):
            fd.add_output(each)
        _, _, seed, offset = fd.ops.sdpfa_fwd(q, k, v, dropout_p=0.25)
        passed[0] = fd.ops.neg(g)
        fd.ops.sdpfa_bwd(*passed, 0.0, False, seed, offset)
        with pytest.raises(NotImplementedError, match=r"WS0190.*in another fusion"):
            fd.ops.sdpfa_bwd(*passed, 0.25, False, seed, offset)
    with knobs.scope(device="reference"):
        *_, of_value = fd.execute(given)
    wanted = weights.float().mT @ gradient.float()
    torch.testing.assert_close(of_value.float(), wanted, atol=0.02, rtol=0.02)


def test_of_what_is_computed_it_is_products() -> None:
    with FusionDefinition() as fd:
        q, k, v = _inputs(fd, 3)
        fd.add_output(fd.ops.sdpfa_fwd(fd.ops.relu(q), k, v)[0])
    query, key, value = (_narrow(1, 2, 5, 4) for _ in range(3))
    with knobs.scope(device="reference"):
        (found,) = fd.execute([query, key, value])
    wanted = scaled_dot_product_attention(query.relu(), key, value)
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=0.02)


def test_gradients_of_attention() -> None:
    q, k, v = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    made = scaled_dot_product_attention(q, k, v)
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
    wanted = scaled_dot_product_attention(*given)
    torch.testing.assert_close(result, wanted)
    assert result.stride() == given[0].stride()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "sizes", [(0, 3, 5, 7, 8), (2, 0, 5, 7, 8), (2, 3, 0, 7, 8), (2, 3, 5, 0, 8), (2, 3, 5, 7, 0)]
)
def test_attention_of_nothing(sizes: tuple[int, ...]) -> None:
    """PyTorch's kernels for CPUs divide by numbers of batches and heads."""
    batch, heads, rows, others, columns = sizes
    with FusionDefinition() as fd:
        q, k, v, upstream = _inputs(fd, 4)
        zero, whole = (fd.define_scalar(x, dtype=DataType.Double) for x in (0.0, 1.0))
        no = fd.define_scalar(False, dtype=DataType.Bool)
        made, total, *state = fd.ops.sdpfa_fwd(q, k, v, None, None, zero, no, whole)
        given = upstream, q, k, v, made, total, zero, no, *state, whole
        for each in (made, *fd.ops.sdpfa_bwd(*given)):
            fd.add_output(each)
    query, gradient = (_narrow(batch, heads, rows, n) for n in (columns, 4))
    key, value = (_narrow(batch, heads, others, n) for n in (columns, 4))
    found = fd.execute([query, key, value, gradient])
    leaves = q, k, v = [each.float().requires_grad_() for each in (query, key, value)]
    wanted = (q @ k.mT).softmax(-1) @ v
    wanted = wanted, *torch.autograd.grad(wanted, leaves, gradient.float())
    for each, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(each.float(), other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ((2, 2, 5, 8), "dimension 1 of attention's key is 2, and dimension 1 of its query is 4"),
        ((1, 4, 5, 8), "dimension 0 of attention's key is 1.*expand what is one"),
        ((2, 4, 5, 6), "dimension 3 of attention's key is 6, and dimension 3 of its query is 8"),
        ((2, 4, 3, 8), "dimension 2 of attention's value is 5, and dimension 2 of its key is 3"),
        ((4, 5, 8), "attention's key has 3 dimensions, and must have 4"),
    ],
)
def test_sizes_that_do_not_fit_are_named(key: tuple[int, ...], said: str) -> None:
    """PyTorch's kernels for CPUs do not look, and read what lies beyond."""
    with FusionDefinition() as fd:
        made, *_ = fd.ops.sdpfa_fwd(*_inputs(fd, 3))
        fd.add_output(made)
    with pytest.raises(RuntimeError, match=f"WS0194.*{said}"):
        fd.execute([_narrow(2, 4, 5, 8), _narrow(*key), _narrow(2, 4, 5, 8)])


def test_on_a_gpu_what_is_causal_is_counted_from_the_first_row_and_key() -> None:
    """As on the CPU: PyTorch's kernel, asked by itself, counts from the last ones."""

    def on_gpu(rows: int) -> Any:
        return SimpleNamespace(shape=(2, 3, rows, 8), is_cuda=True, numel=lambda: 48 * rows)

    assert is_by_products(0.0, True, on_gpu(4), on_gpu(6), on_gpu(6))
    assert not is_by_products(0.0, True, on_gpu(6), on_gpu(6), on_gpu(6))
    assert not is_by_products(0.1, False, on_gpu(4), on_gpu(6), on_gpu(6))


@pytest.mark.parametrize("rows", [4, 9])
def test_what_is_causal_with_fewer_or_more_rows_than_keys(rows: int) -> None:
    q, k, v = (torch.randn(1, 2, n, 8, dtype=torch.bfloat16) for n in (rows, 6, 6))
    with FusionDefinition() as fd, knobs.scope(device="sim"):
        tensors = [fd.from_pytorch(each) for each in (q, k, v)]
        made, *_ = fd.ops.sdpfa_fwd(*tensors, None, None, None, fd.define_scalar(True), None)
        fd.add_output(made)
        (found,) = fd.execute([q, k, v])
    expected = scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)
