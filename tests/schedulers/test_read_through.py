"""Reads go past what moves, reads or computes their sources: the same values, by fewer kernels."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.against_torch import defined
from warpsmith import FusionDefinition, fuse, ops
from warpsmith.engine.executable import Executable
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion

F = torch.nn.functional


def rotary(x: Any, cos: Any, sin: Any, cat: Callable[..., Any]) -> Any:
    return x * cos + cat([-x[..., 8:], x[..., :8]], -1) * sin


def turned(x: Any, cat: Callable[..., Any]) -> Any:
    return cat([2 * x[..., 8:], -x[..., :8]], -1)


def halved(x: Any, cos: Callable[[Any], Any]) -> Any:
    for _ in range(4):
        x = cos(x[..., ::2]) * cos(x[..., 1::2])
    return x


def log_softmax(x: Any, dim: int) -> Any:
    x = x - ops.max(x, [dim], keepdim=True)
    return x - ops.log(ops.sum(ops.exp(x), [dim], keepdim=True))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.manual_seed(seed))


X, COS, W = drawn(2, 4, 16), drawn(4, 16, seed=1), drawn(32, 16, seed=2)
LABELS = torch.tensor([3, -100, 15, 0, 16, 7])


def steps(x: Any) -> Any:
    """Some more operations than are computed again."""
    for k in range(12):
        x = x * x + k / 7
        x = x / (abs(x) + 1)
    return x


def joined(x: Any, n: Any) -> Any:
    return n.cat([n.sum(x * x, (1,), keepdim=True), x], 1) / 0.7


def gradient(x: Any, labels: Any) -> Any:
    """That of the sum of losses: of each row, one element at most is chosen."""
    numbers = ops.iota(16, fusion=Fusion.of(x))
    chosen = ops.where(ops.eq(numbers, ops.reshape(labels, (-1, 1))), -1.5, 0.0)
    return chosen - ops.exp(x) * ops.sum(chosen, [1], keepdim=True)


def torch_gradient(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    chosen = torch.where(torch.arange(16) == labels[:, None], -1.5, 0.0)
    return chosen - x.exp() * chosen.sum(1, keepdim=True)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...], int]] = {
    "rotary": (
        lambda x, c: rotary(x, c, c, ops.cat),
        lambda x, c: rotary(x, c, c, torch.cat),
        (X, COS),
        1,
    ),
    "rotary of heads": (
        lambda x, w, c: rotary(
            ops.transpose(ops.reshape(ops.linear(x, w), (*ops.shape(x)[:2], 2, 16)), 1, 2),
            c,
            c,
            ops.cat,
        ),
        lambda x, w, c: rotary(F.linear(x, w).view(2, 4, 2, 16).transpose(1, 2), c, c, torch.cat),
        (X.bfloat16(), W.bfloat16() / 4, COS.bfloat16()),
        2,
    ),
    "the gradient of rotary": (
        lambda x, c: turned(x * c, ops.cat) + x * c,
        lambda x, c: turned(x * c, torch.cat) + x * c,
        (X.bfloat16(), COS.bfloat16()),
        1,
    ),
    "rotary of a part": (
        lambda x, c: ops.cat([rotary(x[..., :16], c, c, ops.cat), x[..., 16:]], -1),
        lambda x, c: torch.cat([rotary(x[..., :16], c, c, torch.cat), x[..., 16:]], -1),
        (drawn(2, 4, 24).bfloat16(), COS.bfloat16()),
        1,
    ),
    "shifted by pads, of what is computed": (
        lambda x: x + ops.pad(ops.pad(ops.exp(x), [1, -1], 3.0) * 2, [2, -2]),
        lambda x: x + F.pad(F.pad(x.exp(), [1, -1], value=3.0) * 2, [2, -2]),
        (X,),
        1,
    ),
    "a part of a join of joins": (
        lambda x: ops.cat([x, 2 * ops.cat([ops.cat([x, -x], 1), ops.exp(x)], 1)], 1)[:, 3:13],
        lambda x: torch.cat([x, 2 * torch.cat([x, -x, x.exp()], 1)], 1)[:, 3:13],
        (X,),
        1,
    ),
    "halves of halves": (lambda x: halved(x, ops.cos), lambda x: halved(x, torch.cos), (X,), 2),
    "a slice of a slice": (
        lambda x: x[1:, ::2][:, 1:, 3:],
        lambda x: x[1:, ::2][:, 1:, 3:],
        (X,),
        1,
    ),
    "a slice of what is padded": (
        lambda x: ops.pad(x, [2, 1], 5)[..., 1:-3],
        lambda x: F.pad(x, [2, 1], value=5)[..., 1:-3],
        (X,),
        1,
    ),
    "padded twice": (
        lambda x: ops.pad(ops.pad(x, [2, 1], 5), [0, 3], 7),
        lambda x: F.pad(F.pad(x, [2, 1], value=5), [0, 3], value=7),
        (X,),
        2,
    ),
    "exponentials, padded": (
        lambda x: ops.pad(ops.exp(x), [1, 2, 1, 0]),
        lambda x: F.pad(x.exp(), [1, 2, 1, 0]),
        (X,),
        1,
    ),
    "an embedding of a scaled table": (
        lambda i, w: ops.embedding(i, w * 2 + 1),
        lambda i, w: F.embedding(i, w * 2 + 1),
        (torch.tensor([3, 1, 31]), W),
        1,
    ),
    "what is a result anyway": (
        lambda x: (ops.exp(x), ops.exp(x)[:, 1:]),
        lambda x: (x.exp(), x.exp()[:, 1:]),
        (X,),
        1,
    ),
    "of a sum": (
        lambda x: ops.flip(ops.sum(x, [2]) * 2, [1]),
        lambda x: (x.sum(2) * 2).flip(1),
        (X,),
        2,
    ),
    "what nothing else needs, however it is made": (
        lambda x: ops.pad(steps(x), [0, 0, 1, 1]),
        lambda x: F.pad(steps(x), [0, 0, 1, 1]),
        (X,),
        1,
    ),
    "what something else needs": (
        lambda x: (ops.pad(steps(x), [0, 0, 1, 1]), ops.sum(steps(x), [0])),
        lambda x: (F.pad(steps(x), [0, 0, 1, 1]), steps(x).sum(0)),
        (X,),
        2,
    ),
    "a loss's gradient, padded": (
        lambda x, i: ops.pad(ops.reshape(gradient(x, i), (2, 3, 16)), [0, 0, 0, 1]),
        lambda x, i: F.pad(torch_gradient(x, i).view(2, 3, 16), [0, 0, 0, 1]),
        (drawn(6, 16), LABELS),
        1,
    ),
    "numbers of elements": (
        lambda x: ops.flip(x + ops.iota(16, 5, 3, fusion=Fusion.of(x)), [2])[..., 2:],
        lambda x: (x + 3 * torch.arange(16) + 5).flip(2)[..., 2:],
        (X,),
        1,
    ),
    "rows of numbers that indices choose": (
        lambda x, i: ops.embedding(i, x * 2 + ops.iota(16, fusion=Fusion.of(x))),
        lambda x, i: F.embedding(i, x * 2 + torch.arange(16)),
        (drawn(32, 16), torch.tensor([3, 1, 31])),
        2,
    ),
    "rows of a join that indices choose": (
        lambda x, i: ops.embedding(i, ops.cat([x * 2, ops.exp(x)], 0)),
        lambda x, i: F.embedding(i, torch.cat([x * 2, x.exp()], 0)),
        (drawn(32, 16), torch.tensor([3, 40, 31])),
        2,
    ),
    "single elements of a log-softmax": (
        lambda x, i: ops.sum(ops.gather(log_softmax(x, 1), ops.reshape(i, (-1, 1)), 1)),
        lambda x, i: x.log_softmax(-1).gather(1, i[:, None]).sum(),
        (drawn(6, 16), LABELS.clamp(0, 15)),
        2,
    ),
    "and of one whose maxima are saved": (
        lambda x, i: (
            ops.max(x, [-1], keepdim=True),
            ops.log(ops.sum(ops.exp(x - ops.max(x, [-1], keepdim=True)), [-1], keepdim=True)),
            ops.sum(ops.gather(log_softmax(x, 1), ops.reshape(i, (-1, 1)), 1)),
        ),
        lambda x, i: (
            x.amax(-1, keepdim=True),
            (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True).log(),
            x.log_softmax(-1).gather(1, i[:, None]).sum(),
        ),
        (drawn(6, 16), LABELS.clamp(0, 15)),
        2,
    ),
    "of each row one logarithm of a softmax": (
        lambda x, i: ops.take_along_axis(log_softmax(x, 1), i[:, None], 1),
        lambda x, i: F.log_softmax(x, -1).gather(1, i[:, None]),
        (W, torch.arange(32) % 16),
        1,
    ),
    "of each row one logarithm of a softmax of a product": (
        lambda x, w, i: ops.take_along_axis(log_softmax(ops.linear(x, w), 1), i[:, None], 1),
        lambda x, w, i: F.log_softmax(F.linear(x, w), 1).gather(1, i[:, None]),
        (X[0].bfloat16(), W.bfloat16(), torch.tensor([3, 1, 31, 0])),
        2,
    ),
    "of each row one logarithm of a softmax of a product and a vector": (
        lambda x, w, v, i: ops.take_along_axis(log_softmax(ops.linear(x, w, v), 1), i[:, None], 1),
        lambda x, w, v, i: F.log_softmax(F.linear(x, w, v), 1).gather(1, i[:, None]),
        (X[0].bfloat16(), W.bfloat16(), W[:, 0].bfloat16(), torch.tensor([3, 1, 31, 0])),
        2,
    ),
    "of each row one logarithm of a softmax of a reshaped product": (
        lambda x, w, i: ops.take_along_axis(
            log_softmax(ops.reshape(ops.linear(x, w), (8, 32)), 1), i[:, None], 1
        ),
        lambda x, w, i: F.log_softmax(F.linear(x, w).view(8, 32), 1).gather(1, i[:, None]),
        (X.bfloat16(), W.bfloat16(), torch.arange(8)),
        2,
    ),
    "a sum of a slice of a product that is widened": (
        lambda x, w: ops.sum(ops.cast(ops.linear(x, w), DataType.Float)[1:, 3:], [1]),
        lambda x, w: F.linear(x, w).float()[1:, 3:].sum(1),
        (X[0].bfloat16(), W.bfloat16()),
        2,
    ),
    "of each column one element of a softmax": (
        lambda x: ops.exp(log_softmax(x, 0))[3],
        lambda x: x.softmax(0)[3],
        (W,),
        1,
    ),
    "one row of a norm, and its mean of squares is that row's": (
        lambda x: (x * ops.rsqrt(ops.mean(x * x, [1], keepdim=True)))[3],
        lambda x: (x * x.square().mean(1, keepdim=True).rsqrt())[3],
        (W,),
        2,
    ),
    "many rows of a norm, which is stored": (
        lambda x, i: ops.embedding(i, x * ops.rsqrt(ops.mean(x * x, [1], keepdim=True))),
        lambda x, i: F.embedding(i, x * x.square().mean(1, keepdim=True).rsqrt()),
        (W, torch.tensor([3, 1, 31])),
        2,
    ),
    "reshaped": (
        lambda x: ops.flip(ops.reshape(x, (8, 16)), [0]),
        lambda x: x.reshape(8, 16).flip(0),
        (X,),
        1,
    ),
    "a part of a stack that is reshaped across": (
        lambda x: ops.select(ops.reshape(ops.stack([x, 2 * x], 1), (4, 2, 16)), -1, 0),
        lambda x: torch.stack([x, 2 * x], 1).reshape(4, 2, 16)[-1],
        (X[0],),
        1,
    ),
    "of each row of a join the element that memory says": (
        lambda x, i: ops.take_along_axis(log_softmax(joined(x, ops), 1), i[:, None], 1),
        lambda x, i: joined(x, torch).log_softmax(1).gather(1, i[:, None]),
        (W, torch.arange(32) % 17),
        2,
    ),
    "rows of a join, counted from its end too": (
        lambda x, i: ops.exp(ops.cat([2 * x, x[:3]], 0))[i],
        lambda x, i: torch.cat([2 * x, x[:3]]).exp()[i],
        (X[0], torch.tensor([-1, 0, 4, -3, 6, -7, 3])),
        1,
    ),
    "reshaped across": (
        lambda x: ops.roll(ops.reshape(x, (4, 4, 8)), 3, 1),
        lambda x: x.reshape(4, 4, 8).roll(3, 1),
        (X,),
        1,
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_fewer_kernels(name: str) -> None:
    ours, theirs, arrays, kernels = CASES[name]
    f = fuse(ours)
    compiled = f.lower(*arrays).compile()
    assert compiled.verify(schedules=2).verdict == "clean"
    assert compiled.explain().split()[0] == str(kernels)
    found, wanted = f(*arrays), theirs(*arrays)
    close = 0.1 if arrays[0].dtype is torch.bfloat16 else 1e-5
    torch.testing.assert_close(found, wanted, rtol=close, atol=close)


def step(choice: random.Random, x: torch.Tensor, values: list[Any]) -> Callable[[Any, Any], Any]:
    """A random operation on a tensor of this shape: of a namespace, `ops` or that of PyTorch."""
    rank, dim = x.ndim, choice.randrange(x.ndim)
    order = choice.sample(range(rank), rank)
    cut = choice.randrange(max(x.shape[dim], 1))
    widths = [choice.randint(-1, 2) if min(x.shape) > 2 else 1 for _ in range(2)]
    kinds: list[Callable[[Any, Any], Any]] = [
        lambda n, t: t[(slice(None),) * dim + (slice(cut, None),)],
        lambda n, t: t[(slice(None),) * dim + (slice(None, None, 2),)],
        lambda n, t: n.flip(t, [dim]),
        lambda n, t: n.roll(t, [cut - 2], [dim]),
        lambda n, t: n.cat([t, n.neg(t)], dim),
        lambda n, t: n.pad(t, widths, 0.5) if n is ops else F.pad(t, widths, value=0.5),
        lambda n, t: n.permute(t, order),
        lambda n, t: n.exp(n.neg(n.mul(t, t))),
        lambda n, t: n.reshape(t, [*x.shape[:dim], 1, *x.shape[dim:]]),
        lambda n, t: n.reshape(t, [-1 if n is torch else x.numel()]),
        lambda n, t: n.add(t, n.flip(t, [dim])),
    ]
    return choice.choice(kinds)


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(10))
def test_random_chains(seed: int) -> None:
    choice = random.Random(seed)
    x = drawn(3, 4, 5, seed=seed)
    steps: list[Callable[[Any, Any], Any]] = []
    value = x
    while len(steps) < 6:
        one = step(choice, value, [])
        after = one(torch, value)
        if 0 < after.numel() < 2000 and after.ndim < 6:
            steps.append(one)
            value = after

    def ours(t: Any) -> Any:
        for one in steps:
            t = one(ops, t)
        return ops.set(t)

    fd = defined(ours, x, static=seed % 2 == 0)
    (found,) = fd.execute([x])
    torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-5)


def padded(x: Any, row: Any) -> Any:
    value = ops.exp(ops.cast(x, DataType.Float) - row)
    return ops.pad(ops.cast(value, DataType.BFloat16), [0, 0, 0, 1])


def test_a_pad_of_16_bits_chooses_among_vectors_and_rounds_once() -> None:
    """What rows have once is no reason to read elements one by one."""
    compiled = fuse(padded).lower(drawn(3, 128).bfloat16(), drawn(3, 1)).compile()
    assert compiled.verify().verdict == "clean"
    cuda = compiled.asm["cuda"].split("__launch_bounds__")[1]
    assert cuda.count("ws_vec<ws_bfloat16, 8> v;") == 2
    assert cuda.count("ws_load_where<") == cuda.count("ws_store(") == 1
    assert cuda.count("(ws_bfloat16)(") == 2  # what is not read, and what is stored


def test_places_that_32_bits_hold_are_compared_in_these() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([3, 128], dtype=DataType.BFloat16)
        fd.add_output(padded(x, fd.define_tensor([3, 1], dtype=DataType.Float)))
    arrays = drawn(3, 128).bfloat16(), drawn(3, 1)
    (launch,) = Executable(fd.fusion).plan_for(arrays).launches
    assert launch is not None
    cuda = launch.compiled.asm["cuda"].split("__launch_bounds__")[1]
    assert "(int)(" in cuda
    assert "long long" not in cuda
    (found,) = fd.execute(arrays)
    wanted = F.pad((arrays[0].float() - arrays[1]).exp(), [0, 0, 0, 1])
    torch.testing.assert_close(found.float(), wanted, rtol=0.01, atol=0)
