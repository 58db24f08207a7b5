"""Tensor copies and matrix products give the bytes that an H200 gave: h200_tensor_mma.npz."""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.sim.support import product_cases, tensor_cases
from tests.sim.support.fragments import TABLES, accumulator, to_registers
from tests.sim.support.native_parts import Parts, Wgmma
from tests.sim.support.product_cases import MMA, WGMMA, WIDTH
from tests.sim.support.random_bits import Bits, Words
from tests.sim.support.tensor_cases import DUMP_BYTES, POOL_BYTES, UNTOUCHED, TensorCase

RECORD = Path(__file__).with_name("h200_tensor_mma.npz")
STYLES = (0, 2, 3, 5, 6, 7, 8)  # the cases of an mma.sync that are kept
LOAD_START, STORE_START = 2048, 1024  # where dynamic shared memory began
CASES = {
    "load": tensor_cases.loads(),
    "far": tensor_cases.far_loads(),
    "special": tensor_cases.special_loads(),
    "store": tensor_cases.stores(),
}


@cache
def record() -> dict[str, npt.NDArray[np.generic]]:
    with np.load(RECORD) as file:
        return dict(file)


@cache
def pool() -> npt.NDArray[np.uint8]:
    return Bits(7).bytes(POOL_BYTES)


# ---- tensor copies ------------------------------------------------------------------------------

KINDS = [kind for kind in CASES if f"{kind} done" in record()]


def refused(parts: Parts, case: TensorCase, store: bool) -> bool:
    assert parts.error(case.map()) is None
    return parts.copy_error(case.map(), case.coordinates, case.base, store) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_copies_are_illegal(parts: Parts, kind: str) -> None:
    done, illegal = record()[f"{kind} done"], record()[f"{kind} illegal"]
    assert not any(refused(parts, CASES[kind][i], kind == "store") for i in done)
    assert all(refused(parts, CASES[kind][i], kind == "store") for i in illegal)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "store"])
def test_loads(parts: Parts, kind: str) -> None:
    memory = tensor_cases.special_pool() if kind == "special" else pool()
    for i, want in zip(record()[f"{kind} done"], record()[f"{kind} shared"], strict=True):
        case = CASES[kind][i]
        start = LOAD_START + case.base
        got = parts.load(case.map(), case.coordinates, start, memory)
        shared = np.full(DUMP_BYTES, UNTOUCHED, np.uint8)
        shared[case.base :] = got[: DUMP_BYTES - case.base]
        np.testing.assert_array_equal(shared, want, str(case))


def test_stores(parts: Parts) -> None:
    shared = Bits(8).bytes(DUMP_BYTES)
    for i in record()["store done"]:
        case = CASES["store"][i]
        want, got = pool().copy(), pool().copy()
        want[record()[f"store at {i}"]] = record()[f"store values {i}"]
        start = STORE_START + case.base
        parts.store(case.map(), case.coordinates, start, shared[case.base :], got)
        np.testing.assert_array_equal(got, want, str(case))


# ---- matrix products ----------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(len(MMA)), ids=[form.name for form in MMA])
def test_mma(parts: Parts, index: int) -> None:
    form = MMA[index]
    a, b, c = product_cases.mma_inputs(index, STYLES[-1] + 1)
    for style, want in zip(STYLES, record()[f"mma {form.name}"], strict=True):
        got = parts.mma(form.product, a[style], b[style], c[style])
        assert got is not None
        np.testing.assert_array_equal(got[0], want.astype(np.uint64))


def run(parts: Parts, what: Wgmma, image: npt.NDArray[np.uint8], d: Words) -> Words:
    """The image lies at the start of shared memory as kernels see it, which is not address 0."""
    memory = np.zeros(1 << 18, np.uint8)
    memory[STORE_START : STORE_START + len(image)] = image
    assert parts.wgmma(what, memory, d) is not None
    return d


def moved(descriptor: int) -> int:
    return descriptor + (STORE_START >> 4)


def one_warp(rows: Words, case: int) -> Words:
    return rows[:, 32 * (case % 4) : 32 * (case % 4 + 1)]


@pytest.mark.parametrize("index", range(len(WGMMA)), ids=[form.name for form in WGMMA])
def test_wgmma_layouts(parts: Parts, index: int) -> None:
    form = WGMMA[index]
    image, descriptors, registers = product_cases.layout_cases(index)
    for case, want in enumerate(record()[f"layout {form.name}"]):
        what = Wgmma(
            product=form.product,
            a=registers if form.a_registers else moved(descriptors[case][0]),
            b=moved(descriptors[case][1]),
            a_transposed=form.a_transposed,
            b_transposed=form.b_transposed,
            scale_a=form.scale_a,
            scale_b=form.scale_b,
        )
        d = run(parts, what, image, np.zeros((len(want), 128), np.uint64))
        bits = want.astype(np.float32).view(np.uint32) if want.dtype == np.int16 else want
        np.testing.assert_array_equal(one_warp(d, case), bits.astype(np.uint64))


NUMBERS = [i for i, form in enumerate(WGMMA) if f"numbers {form.name}" in record()]


@pytest.mark.parametrize("index", NUMBERS, ids=[WGMMA[i].name for i in NUMBERS])
def test_wgmma_numbers(parts: Parts, index: int) -> None:
    form = WGMMA[index]
    wanted = record()[f"numbers {form.name}"]
    a_table, (c_count, c_place) = TABLES[WIDTH[form.a], 16, form.k], accumulator(16, form.n)
    cases = product_cases.number_cases(index, len(wanted))
    for i, (case, want) in enumerate(zip(cases, wanted, strict=True)):
        bands = [slice(16 * q, 16 * q + 16) for q in range(4)]
        a = case.a.astype(f"u{WIDTH[form.a] // 8}")
        c = case.c.astype(f"u{WIDTH[form.d] // 8}")
        registers = [to_registers(a[band], a_table.a, a_table.a_count) for band in bands]
        what = Wgmma(
            product=form.product,
            a=np.hstack(registers) if form.a_registers else moved(product_cases.A_PLAIN),
            b=moved(product_cases.B_PLAIN),
            scale_d=case.add,
            scale_a=form.scale_a,
            scale_b=form.scale_b,
        )
        d = np.hstack([to_registers(c[band], c_place, c_count) for band in bands])
        got = one_warp(run(parts, what, case.image, d), i)
        np.testing.assert_array_equal(got, want.astype(np.uint64))
