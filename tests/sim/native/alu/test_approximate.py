"""The approximate functions against double precision, within the bounds that PTX states."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tests.sim.support.alu import Alu
from tests.sim.support.forms.pools import pool
from warpsmith.sim.isa import Flag, Op, Type

Doubles = npt.NDArray[np.float64]
INF, NAN = float("inf"), float("nan")

# The function, and the relative error that is allowed.
FUNCTIONS: dict[Op, tuple[Callable[[Doubles], Doubles], float]] = {
    Op.RCP: (lambda x: 1 / x, 2.0**-23),
    Op.SQRT: (np.sqrt, 2.0**-23),
    Op.RSQRT: (lambda x: 1 / np.sqrt(x), 2.0**-22.9),
    Op.EX2: (np.exp2, 2.0**-22),
    Op.TANH: (np.tanh, 2.0**-11),
}


def floats(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    return bits.astype(np.uint32).view(np.float32)


def doubles(bits: npt.NDArray[np.uint64]) -> Doubles:
    with np.errstate(invalid="ignore"):
        return floats(bits).astype(np.float64)


def apply(alu: Alu, op: Op, values: list[float], flags: Flag = Flag.APPROX) -> list[float]:
    bits = np.array(values, np.float32).view(np.uint32)
    return doubles(alu.run(op, Type.F32, bits, flags=flags).d).tolist()


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_relative_errors(alu: Alu, op: Op) -> None:
    function, bound = FUNCTIONS[op]
    bits = pool("f32", 0)
    found = doubles(alu.run(op, Type.F32, bits, flags=Flag.APPROX).d)
    with np.errstate(all="ignore"):
        exact = function(doubles(bits))
        error = np.abs(found - exact)
    normal = np.isfinite(exact) & (np.abs(exact) >= 2.0**-126) & (np.abs(exact) < 2.0**127.9)
    assert (error[normal] <= bound * np.abs(exact[normal])).all()
    assert (np.isnan(found) == np.isnan(exact)).all()


@pytest.mark.parametrize("op", [Op.SIN, Op.COS], ids=lambda op: op.name)
def test_sines_are_near_within_a_turn(alu: Alu, op: Op) -> None:
    values = np.linspace(-2 * np.pi, 2 * np.pi, 5001).astype(np.float32)
    exact = (np.sin if op is Op.SIN else np.cos)(values.astype(np.float64))
    found = floats(alu.run(op, Type.F32, values.view(np.uint32), flags=Flag.APPROX).d)
    assert np.abs(found - exact).max() <= 2.0**-20.5


def test_logarithms(alu: Alu) -> None:
    bits = pool("f32", 0) & np.uint64(0x7FFFFFFF)
    values = doubles(bits)
    positive = np.isfinite(values) & (values > 0)
    bits, values = bits[positive], values[positive]
    exact = np.log2(values)
    error = np.abs(floats(alu.run(Op.LG2, Type.F32, bits, flags=Flag.APPROX).d) - exact)
    assert (error <= np.maximum(2.0**-22.6, 2.0**-22 * np.abs(exact))).all()


ZEROS = (0.0, -0.0)
SPECIAL = {
    Op.RCP: ((*ZEROS, INF, -INF, NAN), (INF, -INF, 0.0, -0.0, NAN)),
    Op.SQRT: ((*ZEROS, INF, -INF, -1.0), (0.0, -0.0, INF, NAN, NAN)),
    Op.RSQRT: ((*ZEROS, INF, -INF, -2.0), (INF, -INF, 0.0, NAN, NAN)),
    Op.SIN: ((*ZEROS, INF, -INF, NAN), (0.0, -0.0, NAN, NAN, NAN)),
    Op.COS: ((*ZEROS, INF, -INF, NAN), (1.0, 1.0, NAN, NAN, NAN)),
    Op.LG2: ((*ZEROS, 1.0, INF, -INF, -1.0), (-INF, -INF, 0.0, INF, NAN, NAN)),
    Op.EX2: ((*ZEROS, INF, -INF, NAN, 200.0), (1.0, 1.0, INF, 0.0, NAN, INF)),
    Op.TANH: ((*ZEROS, INF, -INF, NAN), (0.0, -0.0, 1.0, -1.0, NAN)),
}


@pytest.mark.parametrize("op", SPECIAL, ids=lambda op: op.name)
def test_special_values(alu: Alu, op: Op) -> None:
    values, results = SPECIAL[op]
    found, wanted = np.array(apply(alu, op, list(values))), np.array(results)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_ftz(alu: Alu) -> None:
    flags = Flag.APPROX | Flag.FTZ
    assert apply(alu, Op.EX2, [-127.0, -126.0], flags) == [0.0, 2.0**-126]
    assert apply(alu, Op.EX2, [-127.0]) == [2.0**-127]
    assert apply(alu, Op.RSQRT, [1e-40], flags) == [INF]
    assert apply(alu, Op.LG2, [1e-40], flags) == [-INF]
    assert apply(alu, Op.RCP, [-1e-40], flags) == [-INF]


def test_div_approx_loses_large_divisors_and_div_full_does_not(alu: Alu) -> None:
    row = np.array([3.0, INF, -3.0], np.float32).view(np.uint32)
    large = np.array([2.0**127], np.float32).view(np.uint32)
    near = floats(alu.run(Op.DIV, Type.F32, row, large, flags=Flag.APPROX).d)
    full = floats(alu.run(Op.DIV, Type.F32, row, large, flags=Flag.FULL).d)
    assert near[0] == 0
    assert np.isnan(near[1])
    assert np.signbit(near[2])
    assert full.tolist() == [3.0 * 2.0**-127, INF, -3.0 * 2.0**-127]


def test_seeds_of_f64_have_a_short_fraction(alu: Alu) -> None:
    values = np.array([3.0, -7.0, 1e300, 0.0, INF], np.float64)
    flags = Flag.APPROX | Flag.FTZ
    found = alu.run(Op.RCP, Type.F64, values.view(np.uint64), flags=flags).d
    assert (found & np.uint64(0xFFFFFFFF) == 0).all()
    with np.errstate(divide="ignore"):
        assert np.allclose(found.view(np.float64), 1 / values, rtol=2.0**-20)
