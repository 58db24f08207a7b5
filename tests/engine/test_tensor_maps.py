"""Tensor maps of launches, and a kernel that copies by them, run on the simulator."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.by_maps import padded, planned, scaled, values
from tests.support.fake_driver import no_kernels_loaded
from tests.support.lowering import lowered
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


@pytest.mark.parametrize("shape", [(8, 32, 32), (19, 72, 80), (3, 4, 4), (1, 40, 44), (0, 32, 32)])
def test_a_kernel_copies_by_the_maps_of_its_launch(shape: tuple[int, int, int]) -> None:
    x = padded(*shape)
    with knobs.scope(device="sim"):
        (result,) = scaled().manual_execute([x, -1.5])
    np.testing.assert_array_equal(result, x * np.float32(-1.5))


def test_nothing_is_launched_for_no_elements() -> None:
    _, call = planned(0, 32, 32)
    assert call.launches == ()


def test_a_launch_has_maps_between_pointers_and_scalars() -> None:
    _, call = planned(19, 72, 80)
    (launch,) = call.launches
    assert launch.pointers == ("T0", "T1")
    assert launch.formats == formats_of(launch.compiled.kernel) == "PPTTiiiif"
    assert launch.constants == (3, 19, 80, 72, None)
    of_x = TiledMap(
        tensor="T0",
        dtype="float",
        sizes=(72, 19),
        strides=(320,),
        box=(32, 8),
        steps=(1, 1),
    )
    assert launch.maps == (of_x, replace(of_x, tensor="T1", strides=(288,)))


def test_what_a_kernel_with_maps_does_wrong_is_found() -> None:
    """The simulator reads the maps that it was given: one that is too large reaches too far."""
    fusion, call = planned(3, 32, 32)
    (launch,) = call.launches
    of_x, of_y = launch.maps
    wrong = replace(launch, maps=(replace(of_x, sizes=(32, 12)), of_y))
    with pytest.raises(SimulationError, match="out-of-bounds"):
        Simulated(fusion, replace(call, launches=(wrong,)))([padded(3, 32, 32), 2.0])


def test_strides_of_single_elements_do_not_count() -> None:
    (of_x, _) = tiled_maps(lowered(scaled()), values(1, 32, 33))
    assert of_x.strides == (16,)
    with pytest.raises(ArgumentError, match=r"WS0323.*dimension 1.*of T0.*is 132 bytes"):
        tiled_maps(lowered(scaled()), values(2, 32, 33))


def test_a_map_that_no_unit_takes_is_refused_when_the_launch_is_planned() -> None:
    kernel = lowered(scaled())
    x_map: TensorMap = replace(kernel.tensor_maps[0], box=(3, 8))
    with pytest.raises(DeviceError, match=r"WS0604.*rows of a tile of T0 have 12 bytes"):
        tiled_maps(replace(kernel, tensor_maps=(x_map,)), values(2, 32, 32))


def test_the_simulators_maps() -> None:
    (each, _) = tiled_maps(lowered(scaled()), values(4, 32, 32))
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


def test_a_launch_on_the_gpu_encodes_once_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []

    def encode(each: TiledMap, address: int, ordinal: int) -> bytes:
        asked.append((each.tensor, address, ordinal))
        return f"{each.tensor} at {address:x}".encode().ljust(128, b".")

    monkeypatch.setattr(TiledMap, "encode", encode)
    monkeypatch.setattr("warpsmith.engine.watched.LoadedKernel", Recorder)
    (launch,) = planned(19, 72, 80)[1].launches
    no_kernels_loaded(monkeypatch)
    loaded = Loaded(launch, 3)
    kernel: Any = loading._KERNELS.get(loaded._key)
    for x, y in ((0x1000, 0x2000), (0x1000, 0x3000), (0x1000, 0x2000)):
        loaded.start({"T0": x, "T1": y}, {"S0": 1.5}, 0)
    assert asked == [("T0", 0x1000, 3), ("T1", 0x2000, 3), ("T1", 0x3000, 3)]
    first, second, third = kernel.seen
    assert first == third != second
    words = [m.decode() for m in re.findall(rb"T\d at [0-9a-f]+", second)]
    assert words == ["T0 at 1000", "T1 at 3000"]
    with knobs.scope(kept_maps=256):
        for call in range(1000):
            loaded.start({"T0": 0x1000, "T1": call}, {"S0": 1.5}, 0)
    ((_, of_x), (_, of_y)) = loaded._maps
    assert len(of_x) == 1
    assert len(of_y) <= 255
