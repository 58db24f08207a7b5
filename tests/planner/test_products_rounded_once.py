"""A product with a bias, or what `addmm` adds, is rounded once, wherever its kernels end."""

import pytest
import torch

from warpsmith import DataType, FusionDefinition, knobs


@pytest.mark.parametrize("name", ["linear", "addmm"])
def test_a_cut_behind_the_product_stores_what_is_not_rounded(name: str) -> None:
    """Random numbers are drawn by another kernel than the product's, which adds the bias, too."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(17, 8, generator=generator).bfloat16()
    sums = x.double() @ x.double().T
    b = (-sums[0] if name == "linear" else -sums[0] / 6).bfloat16()  # little is left of row 0
    with FusionDefinition() as fd:
        ops = fd.ops
        t = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        bias = fd.define_tensor([-1], True, DataType.BFloat16)
        if name == "linear":
            made = ops.linear(t, t, bias)
        else:
            made = ops.addmm(bias, t, ops.transpose(t), beta=3.0, alpha=0.5)
        fd.add_output(ops.dropout(made, 0.5, rng_seed=3, rng_offset=2)[0])
    with knobs.scope(device="sim"):
        (got,) = fd.execute([x, b])
    exact = 2 * (sums + b.double() if name == "linear" else 0.5 * sums + 3 * b.double())
    allowed = exact.abs() * 2.0**-8 + 2.0**-16
    kept = (got != 0)[0]  # the others are dropped, or rounded away
    assert int(kept.sum()) > 4
    assert bool(((got.double() - exact).abs() <= allowed)[0][kept].all())


@pytest.mark.parametrize("name", ["matmul", "linear", "einsum"])
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Half])
def test_a_product_that_another_type_was_asked_of_is_not_stored_as_its_operands(
    name: str, dtype: DataType
) -> None:
    """The kernel behind it reads sums, or what keeps 11 of their bits, where bfloat16 keeps 8."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 8, generator=generator).bfloat16()
    with FusionDefinition() as fd:
        ops = fd.ops
        t = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        if name == "einsum":  # its result is moved before it is rounded
            made = ops.einsum("ab,az->zb", t, t, dtype=dtype)
        else:
            made = getattr(ops, name)(t, t, dtype=dtype)
        fd.add_output(ops.cumsum(made, 1, dtype=DataType.Float))
    with knobs.scope(device="sim"):
        (got,) = fd.execute([x])
    wide = x.double()
    product = {"matmul": wide @ wide, "linear": wide @ wide.T, "einsum": wide.T @ wide}[name]
    lost = 2.0**-20 if dtype is DataType.Float else 2.0**-11
    allowed = product.abs().cumsum(1) * lost + 2.0**-16
    assert bool(((got.double() - product.cumsum(1)).abs() <= allowed).all())


def test_a_product_that_is_scaled_is_not_stored_before_that_as_its_operands() -> None:
    """Whoever reads the result at other places has it from memory."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 24, generator=generator).half()
    with FusionDefinition() as fd:
        ops = fd.ops
        t = fd.define_tensor([3, -1], True, DataType.Half)
        bias = fd.define_tensor([3], True, DataType.Half)
        options = {"beta": 0, "alpha": -1.5, "dtype": DataType.Double}
        made = ops.addmm(bias, t, ops.transpose(t), **options)
        fd.add_output(ops.roll(made, [5], [0]))
    with knobs.scope(device="sim"):
        (got,) = fd.execute([x, torch.zeros(3).half()])
    exact = (-1.5 * (x.double() @ x.double().T)).roll(5, 0)
    assert bool(((got - exact).abs() <= exact.abs() * 2.0**-20 + 2.0**-16).all())


@pytest.mark.few(3)
@pytest.mark.parametrize("device", ["reference", "sim"])
@pytest.mark.parametrize("name", ["matmul", "dot", "einsum"])
def test_a_sum_of_doubles_that_is_asked_for_in_float_is_one_for_all(name: str, device: str) -> None:
    """Whoever goes on with it in Double, beside it or at other places, reads what is returned."""
    x = torch.rand(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with FusionDefinition() as fd:
        ops = fd.ops
        t = fd.define_tensor([-1, -1], True, DataType.Double)
        if name == "dot":
            made = ops.dot(ops.sum(t, [0]), ops.sum(t, [1]), dtype=DataType.Float)
        elif name == "einsum":
            made = ops.einsum("ab,az->zb", t, t, dtype=DataType.Float)
        else:
            made = ops.matmul(t, t, dtype=DataType.Float)
        fd.add_output(made)
        fd.add_output(ops.cast(made, DataType.Double))
        fd.add_output(ops.add(made, t))
    with knobs.scope(device=device):
        rounded, wide, beside = fd.execute([x])
    assert rounded.dtype is torch.float32
    assert torch.equal(wide, rounded.double())
    assert torch.equal(beside, rounded.double() + x)
