"""Tensor maps: every rule of the TMA unit in words, and what the driver is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from cuda.bindings import driver

from tests.support.tiled_maps import ACCEPTED, GOOD
from warpsmith.errors import ArgumentError, DeviceError, WarpsmithError
from warpsmith.runtime import tensor_maps
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.sim.tensor_maps import TensorMap

REFUSED: dict[str, tuple[dict[str, Any], type[WarpsmithError], str]] = {
    "type": (
        {"dtype": "complex64"},
        DeviceError,
        r"WS0604.*T3 are of type complex64.*moves double, float, half.*bool; copy it without tma",
    ),
    "rank 0": (
        {"sizes": (), "strides": (), "box": (), "steps": ()},
        DeviceError,
        r"WS0604.*T3 is mapped with 0 dimensions.*1 to 5; merge",
    ),
    "rank 6": (
        {"sizes": (64,) * 6, "strides": (16,) * 5, "box": (64,) * 6, "steps": (1,) * 6},
        DeviceError,
        r"WS0604.*T3 is mapped with 6 dimensions",
    ),
    "strides": (
        {"strides": (208,)},
        DeviceError,
        r"WS0604.*T3 has 3 sizes, 1 strides, 3 box lengths and 3 steps; give",
    ),
    "swizzle": (
        {"swizzle": 16},
        DeviceError,
        r"WS0604.*T3 is swizzled by 16 bytes; swizzle by 32, 64 or 128 bytes, or by 0",
    ),
    "step 0": (
        {"steps": (1, 0, 1)},
        DeviceError,
        r"WS0604.*T3 takes indices of dimension 1.*at steps of 0.*of 1 to 8; split",
    ),
    "step 9": ({"steps": (1, 1, 9)}, DeviceError, r"WS0604.*dimension 2.*at steps of 9"),
    "step of the fastest": (
        {"steps": (2, 1, 1)},
        DeviceError,
        r"WS0604.*fastest dimension at steps of 2.*takes all of them; copy it without",
    ),
    "box 0": (
        {"box": (64, 0, 1)},
        DeviceError,
        r"WS0604.*T3 has 0 elements along dimension 1.*takes 1 to 256; split",
    ),
    "box 257": ({"box": (64, 257, 1)}, DeviceError, r"WS0604.*257 elements along dimension 1"),
    "span 264": (
        {"box": (64, 1, 88)},
        DeviceError,
        r"WS0604.*88 elements along dimension 2.*at steps of 3, which span 264,",
    ),
    "rows of 24 bytes": (
        {"box": (12, 1, 1), "swizzle": 0},
        DeviceError,
        r"WS0604.*rows of a tile of T3 have 24 bytes \(12 elements\).*multiples of 16.*; make its",
    ),
    "rows longer than the swizzle": (
        {"swizzle": 64},
        DeviceError,
        r"WS0604.*T3 have 128 bytes \(64 elements\).*by 64 bytes allows.*swizzle by more, or do",
    ),
    "rows longer than every swizzle": (
        {"box": (72, 1, 1)},
        DeviceError,
        r"WS0604.*T3 have 144 bytes.*make rows of 128 bytes, or do not swizzle",
    ),
    "size": (
        {"sizes": (100, 2**31 + 1, 6)},
        ArgumentError,
        r"WS0323.*dimension 1.*of T3,.*has 2147483649 elements, and must have 1 to 2\*\*31; pass a",
    ),
    "negative size": ({"sizes": (-1, 70, 6)}, ArgumentError, r"WS0323.*has -1 elements"),
    "stride of 200 bytes": (
        {"strides": (200, 16000)},
        ArgumentError,
        r"WS0323.*stride of dimension 1.*of T3,.*is 200 bytes, and must be a multiple of 16",
    ),
    "stride of 2**40": (
        {"strides": (208, 2**40)},
        ArgumentError,
        r"WS0323.*stride of dimension 2.*is 1099511627776 bytes.*less than 2\*\*40",
    ),
    "negative stride": ({"strides": (-208, 16000)}, ArgumentError, r"WS0323.*is -208 bytes"),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_what_the_unit_takes(change: dict[str, Any]) -> None:
    replace(GOOD, **change).check()


@pytest.mark.parametrize(("change", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_it_refuses(change: dict[str, Any], error: type[WarpsmithError], words: str) -> None:
    with pytest.raises(error, match=words):
        replace(GOOD, **change).check()


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_the_simulator_takes_the_same(change: dict[str, Any]) -> None:
    each = replace(GOOD, **change)
    TensorMap(
        address=0x1000,
        dtype="uint8" if each.dtype == "bool" else NUMPY_DTYPES[each.dtype].name,
        dims=each.sizes,
        strides_bytes=each.strides,
        box=each.spans,
        element_strides=each.steps,
        swizzle=f"{each.swizzle}B" if each.swizzle else "none",
    ).encode()


def test_an_address_must_be_aligned() -> None:
    GOOD.check_address(0x7F0010)
    with pytest.raises(ArgumentError, match=r"WS0324.*of T3 is 0x7f0018.*of 16 bytes; pass an"):
        GOOD.check_address(0x7F0018)
    with pytest.raises(ArgumentError, match="WS0324"):  # before the driver is asked
        GOOD.encode(0x7F0018, 0)


def test_every_type_can_be_mapped() -> None:
    for dtype, numpy_type in NUMPY_DTYPES.items():
        replace(GOOD, dtype=dtype, box=(16 // numpy_type.itemsize, 1, 1)).check()


def test_empty_tensors_have_no_map() -> None:
    empty = replace(GOOD, sizes=(100, 0, 6), strides=(3, 0))
    empty.check()
    assert empty.encode(0, 0) == bytes(128)


class FakeDriver:
    """The bindings' types and names, with an encoder that keeps what it was asked for."""

    def __init__(self, status: driver.CUresult) -> None:
        self.status = status
        self.asked: list[Any] = []
        self.contexts: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(driver, name)

    def cuTensorMapEncodeTiled(self, *asked: Any) -> tuple[Any, ...]:  # noqa: N802  # the driver's
        self.asked = [[int(x) for x in each] if isinstance(each, list) else each for each in asked]
        encoded = driver.CUtensorMap()
        encoded.opaque = [driver.cuuint64_t(0x100 + word) for word in range(16)]
        return self.status, encoded

    @contextmanager
    def in_context(self, ordinal: int) -> Iterator[None]:
        self.contexts.append(ordinal)
        yield


def faked(monkeypatch: pytest.MonkeyPatch, status: int = 0) -> FakeDriver:
    fake = FakeDriver(driver.CUresult(status))
    monkeypatch.setattr(tensor_maps, "initialized", lambda: fake)
    monkeypatch.setattr(tensor_maps, "in_context", fake.in_context)
    return fake


def test_the_driver_gets_what_the_map_says(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = faked(monkeypatch)
    encoded = GOOD.encode(0x7F0010, 2)
    assert encoded == b"".join((0x100 + word).to_bytes(8, "little") for word in range(16))
    assert fake.contexts == [2]
    assert fake.asked == [
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        3,
        0x7F0010,
        [100, 70, 6],
        [208, 16000],
        [64, 16, 6],  # two elements at steps of three
        [1, 1, 3],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("swizzle", [0, 32, 64])
def test_names_are_the_drivers(dtype: str, swizzle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = faked(monkeypatch)
    replace(GOOD, dtype=dtype, swizzle=swizzle).encode(16, 0)
    names = {"double": "FLOAT64", "float": "FLOAT32", "half": "FLOAT16", "int16": "UINT16"}
    wanted = "UINT8" if NUMPY_DTYPES[dtype].itemsize == 1 else names.get(dtype, dtype.upper())
    assert fake.asked[0].name.rpartition("_")[2] == wanted
    assert fake.asked[8].name.rpartition("_")[2] == (f"{swizzle}B" if swizzle else "NONE")


def test_a_line_has_a_stride_for_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = faked(monkeypatch)
    replace(GOOD, **ACCEPTED["a line"]).encode(16, 0)
    assert fake.asked[1:6] == [1, 16, [9], [16], [64]]


def test_a_refusal_of_the_driver_shows_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, status=1)
    words = r"WS0605.*no tensor map of T3 at 0x10 .*sizes=\(100, 70, 6\).*CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DeviceError, match=words):
        GOOD.encode(16, 0)
