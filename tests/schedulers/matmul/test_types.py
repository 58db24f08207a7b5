"""Operands of types that tensor cores take, some of them only when they are asked to."""

import warnings
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.matmuls import only
from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.errors import PlanWarning
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.matmul.ways import Ways
from warpsmith.targets import atoms


def rounded(array: np.ndarray) -> np.ndarray:
    """What tensor cores read of floats: 10 bits of the fraction, to which the TMA unit rounds."""
    bits = (array.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [(72, 88, 132), (64, 64, 32), (200, 37, 4), (129, 264, 100)])
def test_floats_are_multiplied_as_tf32_where_that_was_asked_for(
    size: tuple[int, int, int],
) -> None:
    m, n, k = size
    x, weight = values((m, k), 1, np.float32), values((n, k), 2, np.float32)
    (result,) = run([x, weight], lambda ops, a, b: ops.linear(a, b, precision="tf32"))
    assert result.dtype == np.float32
    close(result, rounded(x) @ rounded(weight).T, k)


def test_batches_of_tf32_with_a_narrow_result() -> None:
    a, b = values((3, 70, 36), 3, np.float32), values((3, 80, 36), 4, np.float32)

    def body(ops, x, y):  # type: ignore[no-untyped-def]
        return ops.cast(ops.matmul(x, ops.transpose(y), precision="tf32"), DataType.Half)

    (result,) = run([a, b], body)
    close(result, rounded(a) @ rounded(b).swapaxes(1, 2), 36)


@pytest.mark.parametrize("static", [False, True])
def test_blocks_that_have_parts_of_k_multiply_as_precisely_as_all_of_it(
    monkeypatch: pytest.MonkeyPatch, static: bool
) -> None:
    """Three steps of k, of which two blocks have two and one."""
    offered = heuristic.candidates

    def split(*args: Any, **kinds: Any) -> Ways:
        found = only(offered(*args, **kinds), {"splits": 2}, stages=2, blocks=2)
        return found.at(np.array([len(found) - 1]))

    monkeypatch.setattr(heuristic, "candidates", split)
    x, weight = values((40, 96), 5, np.float32), values((32, 96), 6, np.float32)
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(array, static_sizes=static) for array in (x, weight))
        fd.add_output(fd.ops.linear(a, b, precision="tf32"))
    with knobs.scope(device="sim", verify="all"), warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        (result,) = fd.execute([x, weight])
    close(result, rounded(x) @ rounded(weight).T, 96)


EIGHT = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


@pytest.mark.few(3)
@pytest.mark.parametrize(("first", "other"), [*product(EIGHT, EIGHT), (np.int8, np.int8)])
@pytest.mark.parametrize("size", [(200, 136, 272), (64, 40, 48)])
def test_whole_numbers_of_8_bits_are_exact(
    first: type, other: type, size: tuple[int, int, int]
) -> None:
    """Sums below 2^13 lose nothing, of floats either."""
    m, n, k = size
    random = np.random.default_rng([m, n, k])
    x, weight = (random.integers(-3, 4, s).astype(t) for s, t in (((m, k), first), ((n, k), other)))
    precision = "exact" if first is np.int8 else "fast"
    dtype = DataType.Int32 if first is np.int8 else DataType.Float
    (result,) = run(
        [x, weight], lambda ops, a, b: ops.linear(a, b, dtype=dtype, precision=precision)
    )
    np.testing.assert_array_equal(result, x.astype(np.int64) @ weight.astype(np.int64).T)


@pytest.mark.parametrize("size", [(64, 64, 64), (16, 264, 128)])
def test_integers_of_16_bits_are_stored_by_matrices_and_turned(size: tuple[int, int, int]) -> None:
    m, n, k = size
    x, weight = (
        np.random.default_rng(s).integers(-99, 99, s).astype(np.int8) for s in ((m, k), (n, k))
    )
    (result,) = run([x, weight], lambda ops, a, b: ops.linear(a, b, dtype=DataType.Int16))
    np.testing.assert_array_equal(result, (x.astype(np.int64) @ weight.T).astype(np.int16))


def test_8_bit_floats_lose_bits_of_their_sums_only_where_that_was_asked_for() -> None:
    x, weight = (values((n, 256), n, EIGHT[0]) for n in (72, 40))
    wanted, sizes = (f(wide(x)) @ f(wide(weight)).T for f in (lambda t: t, np.abs))
    (fast,) = run([x, weight], lambda ops, a, b: ops.linear(a, b, precision="fast"))
    (exact,) = run([x, weight], ops_linear, ["matmul_by_threads"])
    assert np.all(np.abs(exact - wanted) <= 2.0**-21 * sizes)
    lost = np.abs(fast - wanted)
    assert 2.0**-21 * sizes.max() < lost.max()
    assert np.all(lost <= 256 / 32 * 33 * 2.0**-13 * sizes)


def ops_linear(ops: Any, a: Any, b: Any) -> Any:
    return ops.linear(a, b)


def test_a_type_has_one_instruction_and_those_that_round_are_asked_for() -> None:
    pairs = [(atom.a, atom.b) for atom in atoms.WGMMA]
    assert len(set(pairs)) == len(pairs)
    asked = {atom.name: atom.precision for atom in atoms.WGMMA if atom.precision}
    assert asked.pop("tf32") == "tf32"
    assert set(asked) == {"e4m3", "e4m3_e5m2", "e5m2_e4m3", "e5m2"}
    assert set(asked.values()) == {atoms.FAST}
    known = {dtype.value: dtype for dtype in DataType}
    for atom in atoms.WGMMA:
        if atom.a in known:
            assert atom.depth * known[atom.a].size == atoms.ROW_BYTES


@pytest.mark.parametrize(("columns", "takes"), [(8, True), (24, True), (40, False), (48, True)])
def test_integers_have_fewer_instructions(columns: int, takes: bool) -> None:
    by_name = {atom.name: atom for atom in atoms.WGMMA}
    assert by_name["int8"].takes(columns) is takes
    assert by_name["bfloat16"].takes(columns)
