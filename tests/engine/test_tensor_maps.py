"""Tensor maps of launches, and a kernel that copies by them, run on the simulator."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import mapped_kernel, simulating
from tests.support.fake_driver import no_kernels_loaded
from tests.support.simulating import Contents, simulated
from warpsmith import knobs
from warpsmith.engine import loaded as loading
from warpsmith.engine.launches import formats_of
from warpsmith.engine.loaded import Loaded
from warpsmith.engine.simulated import Simulated, encoded
from warpsmith.engine.tensor_maps import tiled_maps
from warpsmith.errors import ArgumentError, DeviceError, SimulationError
from warpsmith.kernel.tiles import TensorMap
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.tensor_maps import TiledMap

POISON = np.frombuffer(b"\xff" * 4, np.float32)[0]


def values(rows: int, columns: int, stride: int) -> dict[str, int]:
    sizes = {"T0_size0": rows, "T0_size1": columns, "T1_size0": rows}
    return {**sizes, "T0_stride0": stride, "T0_stride1": 1}


def padded(rows: int, columns: int, stride: int) -> np.ndarray:
    """Rows that lie `stride` elements apart, in memory that starts at a multiple of 64 bytes."""
    raw = np.zeros(rows * stride + 16, np.float32)
    lead = -raw.ctypes.data % 64 // 4
    whole = raw[lead : lead + rows * stride].reshape(rows, stride)
    whole[...] = np.random.default_rng(3).standard_normal(whole.shape)
    return whole[:, :columns]


def called(x: np.ndarray, factor: float, folder: Path) -> np.ndarray:
    fusion = mapped_kernel.fusion()
    sizes = values(*x.shape, x.strides[0] // 4)
    (result,) = Simulated(fusion, mapped_kernel.call_plan(fusion, sizes, folder))([x, factor])
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.parametrize("shape", [(8, 32, 32), (19, 72, 80), (3, 4, 4), (1, 40, 44)])
def test_a_kernel_copies_by_the_maps_of_its_launch(
    shape: tuple[int, int, int], tmp_path: Path
) -> None:
    x = padded(*shape)
    np.testing.assert_array_equal(called(x, -1.5, tmp_path), x * np.float32(-1.5))


def test_nothing_is_launched_for_no_elements(tmp_path: Path) -> None:
    fusion = mapped_kernel.fusion()
    assert mapped_kernel.call_plan(fusion, values(0, 32, 32), tmp_path).launches == ()
    assert called(np.zeros((0, 32), np.float32), 2.0, tmp_path).shape == (0, 32)


def test_a_launch_has_maps_between_pointers_and_scalars(tmp_path: Path) -> None:
    call = mapped_kernel.call_plan(mapped_kernel.fusion(), values(19, 72, 80), tmp_path)
    (launch,) = call.launches
    assert launch.pointers == ("T0", "T1")
    assert launch.formats == formats_of(launch.compiled.kernel) == "PPTTif"
    assert launch.constants == (19, None)
    of_x = TiledMap(
        tensor="T0",
        dtype="float",
        sizes=(72, 19),
        strides=(320,),
        box=(32, 8),
        steps=(1, 1),
    )
    assert launch.maps == (of_x, replace(of_x, tensor="T1", strides=(288,)))


def test_steps_skip_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The box counts elements that are copied, not those that are passed over."""
    kernel = mapped_kernel.kernel(step=3)
    assert [each.spans for each in tiled_maps(kernel, values(40, 36, 36))] == [(32, 24), (32, 8)]
    monkeypatch.setattr(simulating, "cuda_text", lambda *_: mapped_kernel.text(step=3))
    x = padded(40, 36, 36).ravel()
    empty = np.full(14 * 36, POISON)
    memory = {
        "T0": Contents(x, np.ones(x.shape, bool)),
        "T1": Contents(empty, np.zeros(empty.shape, bool)),
    }
    numbers = {**values(40, 36, 36), "T1_size0": 14, "factor": 2.0}
    results = simulated(kernel, numbers, memory)
    np.testing.assert_array_equal(results["T1"].reshape(14, 36), 2 * x.reshape(40, 36)[::3])


def test_what_the_maps_kernel_does_wrong_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator reads the maps that it was given: one that is too large reaches too far."""
    larger = mapped_kernel.kernel()
    x_map, y_map = larger.tensor_maps
    rows = x_map.sizes[1]
    wrong = replace(larger, tensor_maps=(replace(x_map, sizes=(x_map.sizes[0], rows + 9)), y_map))
    monkeypatch.setattr(mapped_kernel, "kernel", lambda: wrong)
    with pytest.raises(SimulationError, match="out-of-bounds"):
        called(padded(3, 32, 32), 2.0, tmp_path)


def test_strides_of_single_elements_do_not_count() -> None:
    (of_x, _) = tiled_maps(mapped_kernel.kernel(), values(1, 32, 33))
    assert of_x.strides == (16,)
    with pytest.raises(ArgumentError, match=r"WS0323.*dimension 1.*of T0.*is 132 bytes"):
        tiled_maps(mapped_kernel.kernel(), values(2, 32, 33))


def test_a_map_that_no_unit_takes_is_refused_when_the_launch_is_planned() -> None:
    kernel = mapped_kernel.kernel()
    x_map: TensorMap = replace(kernel.tensor_maps[0], box=(3, 8))
    with pytest.raises(DeviceError, match=r"WS0604.*rows of a tile of T0 have 12 bytes"):
        tiled_maps(replace(kernel, tensor_maps=(x_map,)), values(2, 32, 32))


def test_the_simulators_maps() -> None:
    (each, _) = tiled_maps(mapped_kernel.kernel(), values(4, 32, 32))
    assert len(encoded(each, 1 << 33)) == 128
    assert encoded(each, 1 << 33) != encoded(each, 1 << 34)
    assert encoded(replace(each, sizes=(0, 4)), 0) == bytes(128)
    with pytest.raises(ArgumentError, match=r"WS0324.*0x200000004"):
        encoded(each, (1 << 33) + 4)


class Recorder:
    """A loaded kernel that keeps the arguments of its launches."""

    def __init__(self, *_: object, **__: object) -> None:
        self.seen: list[bytes] = []

    def launch(self, *arguments: Any) -> None:
        assert isinstance(arguments[-1], ArgumentBuffer)
        self.seen.append(arguments[-1].bytes())


def test_a_launch_on_the_gpu_encodes_once_for_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int, int]] = []

    def encode(each: TiledMap, address: int, ordinal: int) -> bytes:
        asked.append((each.tensor, address, ordinal))
        return f"{each.tensor} at {address:x}".encode().ljust(128, b".")

    monkeypatch.setattr(TiledMap, "encode", encode)
    monkeypatch.setattr("warpsmith.engine.watched.LoadedKernel", Recorder)
    (launch,) = mapped_kernel.call_plan(
        mapped_kernel.fusion(), values(19, 72, 80), tmp_path
    ).launches
    no_kernels_loaded(monkeypatch)
    loaded = Loaded(launch, 3)
    kernel: Any = loading._KERNELS.get(loaded._key)
    for x, y in ((0x1000, 0x2000), (0x1000, 0x3000), (0x1000, 0x2000)):
        loaded.start({"T0": x, "T1": y}, {"factor": 1.5}, 0)
    assert asked == [("T0", 0x1000, 3), ("T1", 0x2000, 3), ("T1", 0x3000, 3)]
    first, second, third = kernel.seen
    assert first == third != second
    words = [m.decode() for m in re.findall(rb"T\d at [0-9a-f]+", second)]
    assert words == ["T0 at 1000", "T1 at 3000"]
    with knobs.scope(kept_maps=256):
        for call in range(1000):
            loaded.start({"T0": 0x1000, "T1": call}, {"factor": 1.5}, 0)
    ((_, of_x), (_, of_y)) = loaded._maps
    assert len(of_x) == 1
    assert len(of_y) <= 255
