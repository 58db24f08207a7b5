"""Prices of products follow from the instruction that computes them."""

import pytest

from warpsmith import DataType, FusionDefinition
from warpsmith.ir.atoms import atom_for, atoms_for
from warpsmith.ir.exprs import Matmul
from warpsmith.schedulers.matmul.model import START_US
from warpsmith.schedulers.matmul_by_threads.model import predicted_us, product_us
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import FMA, HALF_RATE, WGMMA, Atom, Unit
from warpsmith.targets.blackwell import B200
from warpsmith.targets.hopper import H200

TENSOR_CLOCK = 1830
"""Highest clock of tensor cores, in MHz (NVIDIA H100 white paper)."""


def product(dtype: DataType, precision: str = "exact") -> Matmul:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([64, 64], True, dtype) for _ in range(2))
        fd.add_output(fd.ops.linear(a, b, precision=precision))
    return next(op for op in fd.fusion.operations if isinstance(op, Matmul))


def multiplied_us(atom: Atom) -> float:
    return predicted_us((1, 4096, 4096, 4096), H200, atom) - START_US


def test_rates_are_those_of_the_sheet() -> None:
    assert 2 * HALF_RATE * H200.sm_count * TENSOR_CLOCK == pytest.approx(
        H200.rates.tensor, rel=1e-2
    )


def test_time_is_the_inverse_of_an_atoms_rate() -> None:
    by_name = {atom.name: multiplied_us(atom) for atom in WGMMA}
    assert by_name["tf32"] == pytest.approx(2 * by_name["half"])
    assert by_name["int8"] == pytest.approx(by_name["half"] / 2)
    by_threads = {atom.name: multiplied_us(atom) for atom in FMA}
    assert by_threads["double"] == pytest.approx(2 * by_threads["float"])


@pytest.mark.parametrize(
    ("dtype", "precision", "units"),
    [
        (DataType.BFloat16, "exact", [Unit.WGMMA, Unit.MMA, Unit.FMA]),
        (DataType.Float, "tf32", [Unit.WGMMA, Unit.MMA, Unit.FMA]),
        (DataType.Float, "exact", [Unit.FMA]),
        (DataType.Float8_e4m3fn, "exact", [Unit.MMA, Unit.FMA]),
        (DataType.Int8, "exact", [Unit.WGMMA, Unit.MMA, Unit.FMA]),
        (DataType.Double, "exact", [Unit.MMA, Unit.FMA]),
        (DataType.Int, "exact", [Unit.FMA]),
    ],
)
def test_something_computes_every_product(
    dtype: DataType, precision: str, units: list[Unit]
) -> None:
    """The fastest first, and last what threads do, on every target."""
    asked = product(dtype, precision)
    found = atoms_for(asked, H200.family.atoms)
    assert [atom.unit for atom in found] == units
    assert found[-1].sums == asked.output.dtype.value
    assert (atom_for(asked, H200.family.atoms) is not None) == (Unit.WGMMA in units)
    without = [unit for unit in units if unit is not Unit.WGMMA]
    assert [atom.unit for atom in atoms_for(asked, B200.family.atoms)] == without


def test_elements_that_warps_copy_alone_take_time_of_their_own() -> None:
    """7,221 products of 64 x 9 x 9 took 70 us by warps, and 17 copied to tensor cores."""

    def us(k: int) -> float:
        with FusionDefinition() as fd:
            a = fd.define_tensor([7221, 64, k], True, DataType.BFloat16)
            b = fd.define_tensor([7221, k, 16], True, DataType.BFloat16)
            fd.add_output(fd.ops.bmm(a, b))
        operation = next(op for op in fd.fusion.operations if isinstance(op, Matmul))
        return product_us(operation, Problem(values={}, alignment={}, target=H200))

    assert us(9) > 1.5 * us(16) > 30
