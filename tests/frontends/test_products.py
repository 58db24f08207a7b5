"""Matrix products through the doors: `@`, `fd.ops`, traced functions, printed text, NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

import warpsmith
from tests.frontends.test_printer import defined, rebuilt, renumbered
from tests.support.against_torch import check, random
from warpsmith import ops
from warpsmith.errors import ArgumentError, DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType

HALF, BFLOAT, FLOAT = DataType.Half, DataType.BFloat16, DataType.Float


def test_operators_and_methods() -> None:
    a, b = random((3, 5), FLOAT), random((5, 4), FLOAT, 1)
    check(lambda x, y: x @ y, torch.matmul, a, b)
    check(lambda x, y: x.matmul(y), torch.matmul, a, b)
    check(lambda x, y: (x > 0).to(FLOAT) @ y, lambda x, y: (x > 0).float() @ y, a, b)


def test_arrays_are_no_operands() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
    for array in (np.ones((3, 3)), torch.ones(3, 3)):
        for product in (lambda a: x @ a, lambda a: a @ x):
            with pytest.raises((DefinitionError, TypeError)):
                product(array)


def layer(fd: FusionDefinition) -> Any:
    x = fd.define_tensor([-1, -1, -1], contiguity=True, dtype=HALF)
    weight = fd.define_tensor([-1, -1], contiguity=True, dtype=HALF)
    bias = fd.define_tensor([-1], contiguity=True, dtype=HALF)
    plain, rounded = fd.ops.linear(x, weight), fd.ops.cast(fd.ops.linear(x, weight), FLOAT)
    return plain, fd.ops.silu(fd.ops.linear(x, weight, bias)), rounded


def matrices(fd: FusionDefinition) -> Any:
    a = fd.define_tensor([-1, -1, -1], contiguity=True, dtype=BFLOAT)
    b = fd.define_tensor([-1, -1], contiguity=True, dtype=BFLOAT)
    x = fd.define_tensor([-1], contiguity=True, dtype=BFLOAT)
    batched, square = fd.ops.matmul(a, b), fd.ops.matmul(b, b)
    return batched, square, fd.ops.matmul(b, x), fd.ops.matmul(batched, square), (a @ b).sum(0)


def names(fd: FusionDefinition) -> Any:
    a, b = (fd.define_tensor([-1, -1, -1], contiguity=True, dtype=FLOAT) for _ in range(2))
    m = fd.define_tensor([-1, -1], contiguity=True, dtype=FLOAT)
    x = fd.define_tensor([-1], contiguity=True, dtype=FLOAT)
    ops = fd.ops
    return (
        ops.bmm(a, b, precision="tf32"),
        ops.addmm(x, m, m, 2, alpha=0.5),
        ops.baddbmm(m, a, b, dtype=HALF, precision="tf32"),
        ops.linear(a, m, x, precision="tf32"),
        *(ops.dot(x, x), ops.mv(m, x), ops.outer(x, x)),
    )


def contractions(fd: FusionDefinition) -> Any:
    q, k, v = (fd.define_tensor([-1, -1, -1], contiguity=True, dtype=HALF) for _ in range(3))
    scores = fd.ops.einsum("ihd,jhd->hij", q, k, dtype=FLOAT)
    return (
        *(scores, fd.ops.einsum("hij,jhd->ihd", fd.ops.cast(scores, HALF), v)),
        fd.ops.einsum("...i,...j->ij", q, k),
        fd.ops.einsum("ijk->j", v),
    )


def narrow(fd: FusionDefinition) -> Any:
    a = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Float8_e4m3fn)
    b = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Float8_e5m2)
    c = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Int8)
    return (
        *(a @ b, fd.ops.matmul(b, a, dtype=BFLOAT), fd.ops.linear(a, b, dtype=a.dtype)),
        *(c @ c, fd.ops.matmul(c, c, dtype=DataType.Int8), fd.ops.einsum("ij,jk->ki", c, c)),
    )


CUBES = [random((3, 4, 4), FLOAT, seed) for seed in range(3)]
PROGRAMS = {
    "names": (names, [*CUBES[:2], random((4, 4), FLOAT, 2), random((4,), FLOAT, 3)]),
    "contractions": (contractions, [cube.half() for cube in CUBES]),
    "narrow": (
        narrow,
        [
            *(random((4, 4), DataType.Float8_e4m3fn), random((4, 4), DataType.Float8_e5m2, 1)),
            random((4, 4), DataType.Int8, 2),
        ],
    ),
    "layer": (layer, [random((2, 3, 5), HALF), random((4, 5), HALF, 1), random((4,), HALF, 2)]),
    "matrices": (
        matrices,
        [random((2, 3, 4), BFLOAT), random((4, 4), BFLOAT), random((4,), BFLOAT)],
    ),
}


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("name", PROGRAMS)
def test_text_defines_the_same_products(name: str) -> None:
    body, inputs = PROGRAMS[name]
    first = defined(body)
    second = rebuilt(repr(first))
    assert renumbered(repr(first)) == renumbered(repr(second))
    for a, b in zip(first.execute(inputs), second.execute(inputs), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a.double(), b.double())


def test_text() -> None:
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, 8], contiguity=True, dtype=BFLOAT) for _ in range(2))
        fd.add_output(fd.ops.linear(x, w))
        fd.add_output(x @ w.transpose(0, 1))
    assert repr(fd).splitlines()[3:] == [
        "    tv2 = fd.ops.linear(tv0, tv1, dtype=DataType.Float)",
        "    tv3 = fd.ops.cast(tv2, dtype=DataType.BFloat16)",
        "    tv4 = fd.ops.permute(tv1, dims=[1, 0])",
        "    tv5 = fd.ops.matmul(tv0, tv4, dtype=DataType.Float)",
        "    tv6 = fd.ops.cast(tv5, dtype=DataType.BFloat16)",
        "    fd.add_output(tv3)",
        "    fd.add_output(tv6)",
    ]


@pytest.mark.usefixtures("on_numpy")
def test_traced_functions() -> None:
    @warpsmith.fuse
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.transpose(1, 2)).to(FLOAT)
        weights = ops.exp(scores - ops.max(scores, [-1], keepdim=True))
        return (weights / ops.sum(weights, [-1], keepdim=True)).to(HALF) @ v

    q, k, v = (random((2, 6, 4), HALF, seed) / 4 for seed in range(3))
    wanted = torch.softmax(q.float() @ k.float().mT, -1) @ v.float()
    torch.testing.assert_close(attention(q, k, v).float(), wanted, rtol=2e-3, atol=2e-3)
    with pytest.raises(ArgumentError, match="must be equal: a matrix product reads both"):
        attention(q, k, v[:, :5])


@pytest.mark.usefixtures("on_numpy")
def test_validation_knows_how_long_the_sums_are() -> None:
    with FusionDefinition() as fd:
        a, b = fd.define_tensor([-1, -1], dtype=FLOAT), fd.define_tensor([-1, -1], dtype=FLOAT)
        fd.add_output(a @ b)
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((8, 4096), (4096, 8)))
    fd.validate([x, y])
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    # Terms that are summed one after the other, far off what one rounding allows.
    fd.validate([x, y], [wanted + 16 * 2.0**-24 * np.abs(wanted).max()])
    with pytest.raises(AssertionError, match="elements"):
        fd.validate([x, y], [wanted + 1e-2])


def test_text_tells_types_precisions_and_contractions() -> None:
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, 8], contiguity=True, dtype=FLOAT) for _ in range(2))
        fd.add_output(fd.ops.linear(x, w, precision="tf32"))
        fd.add_output(fd.ops.einsum("ki,kj->ij", x, w))
    assert repr(fd).splitlines()[3:5] == [
        '    tv2 = fd.ops.linear(tv0, tv1, precision="tf32")',
        '    tv3 = fd.ops.einsum("ca,cb->ab", tv0, tv1)',
    ]


@pytest.mark.usefixtures("on_numpy")
def test_validation_of_products_in_narrow_types() -> None:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], dtype=DataType.Float8_e4m3fn) for _ in range(2))
        c = fd.define_tensor([-1, -1], dtype=DataType.Int8)
        fd.add_output(fd.ops.linear(a, b))
        fd.add_output(fd.ops.linear(a, b, dtype=DataType.Float8_e5m2))
        fd.add_output(c @ c)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(s, 64, generator=generator).to(torch.float8_e4m3fn) for s in (16, 24))
    fd.validate([x, y, random((8, 8), DataType.Int8)])


def test_a_product_over_vectors_runs_without_tensor_cores() -> None:
    x, w = random((6, 40), HALF), random((40,), HALF, 1)
    torch.testing.assert_close(warpsmith.fuse(lambda x, w: x @ w)(x, w), x @ w)


def test_what_tensor_cores_do_not_take_threads_multiply() -> None:
    x, y = random((4, 6), FLOAT), random((6, 4), FLOAT)
    product = warpsmith.fuse(lambda x, y: x @ y)
    torch.testing.assert_close(product(x, y), x @ y)
    words = product.lower(x, y).compile().explain()
    assert "scheduler   matmul_by_threads" in words
    for name in ("pointwise", "reduction", "inner_persistent"):
        assert f"not {name}: it has a matrix product" in words
    assert "not matmul: T0, an operand of its product, is float" in words
