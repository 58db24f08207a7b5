"""Packing kernel arguments."""

import ctypes
import threading

import pytest

from tests.support.threads import in_threads
from warpsmith.errors import ArgumentError, InternalError
from warpsmith.runtime.arguments import ArgumentBuffer


def read(buffer: ArgumentBuffer, index: int, kind: type[ctypes._SimpleCData]) -> object:
    """What a kernel would read as argument `index`: through the list of addresses."""
    addresses = (ctypes.c_void_p * len(buffer.formats)).from_address(buffer.address)
    address = addresses[index]
    assert address is not None
    assert address % 8 == 0
    return kind.from_address(address).value


def test_each_value_is_read_back_through_its_address() -> None:
    buffer = ArgumentBuffer("Piqfd?I")
    buffer.set((0x7F00_0000_1000, -5, -(2**40), 1.5, 0.1, True, 2**32 - 1))
    assert read(buffer, 0, ctypes.c_uint64) == 0x7F00_0000_1000
    assert read(buffer, 1, ctypes.c_int32) == -5
    assert read(buffer, 2, ctypes.c_int64) == -(2**40)
    assert read(buffer, 3, ctypes.c_float) == 1.5
    assert read(buffer, 4, ctypes.c_double) == 0.1
    assert read(buffer, 5, ctypes.c_bool) is True
    assert read(buffer, 6, ctypes.c_uint32) == 2**32 - 1


def test_values_can_be_set_again() -> None:
    buffer = ArgumentBuffer("qi")
    address = buffer.address
    for value in (1, 2):
        buffer.set((value, value))
        assert buffer.bytes() == bytes([value, 0, 0, 0, 0, 0, 0, 0]) * 2
    assert buffer.address == address


def test_no_arguments_at_all() -> None:
    buffer = ArgumentBuffer("")
    buffer.set(())
    assert buffer.bytes() == b""
    assert buffer.address


MAPS = tuple(bytes(range(start, start + 128)) for start in (0, 64, 128))


@pytest.mark.parametrize("formats", ["T", "PT", "PPPTTi", "PTqTf", "TTT", "P" * 9 + "T?"])
def test_tensor_maps_lie_at_multiples_of_64_bytes(formats: str) -> None:
    buffers = [ArgumentBuffer(formats) for _ in range(5)]  # the storage of each lies elsewhere
    values = [MAPS[i % 3] if code == "T" else i for i, code in enumerate(formats)]
    for buffer in buffers:
        buffer.set(tuple(values))
    for buffer in buffers:
        addresses = (ctypes.c_void_p * len(formats)).from_address(buffer.address)
        for i, code in enumerate(formats):
            if code == "T":
                assert (addresses[i] or 0) % 64 == 0
                assert ctypes.string_at(addresses[i] or 0, 128) == values[i]
        if formats == "PPPTTi":
            assert [read(buffer, i, ctypes.c_uint64) for i in range(3)] == [0, 1, 2]
            assert read(buffer, 5, ctypes.c_int32) == 5
            packed = bytes(8) + b"".join(n.to_bytes(8, "little") for n in (1, 2))
            assert buffer.bytes() == packed + bytes(40) + MAPS[0] + MAPS[1] + b"\5" + bytes(7)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1, b"short", 2), r"kernel argument 1 is a tensor map of 128 bytes, not b'short'"),
        ((1, bytes(129), 2), r"kernel argument 1 is a tensor map of 128 bytes, not b'\\x00"),
        ((1, 128, 2), r"kernel argument 1 is a tensor map of 128 bytes, not 128"),
        ((1, None, 2), r"kernel argument 1 is a tensor map of 128 bytes, not None"),
        ((1, MAPS[0], 0.5), r"kernel argument 2 is a 32-bit integer, not 0.5"),
        ((1,), r"the kernel takes 3 arguments, not 1"),
        ((1, MAPS[0], 2, 3), r"the kernel takes 3 arguments, not 4"),
    ],
)
def test_a_map_that_is_not_whole_is_named(values: tuple[object, ...], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        ArgumentBuffer("PTi").set(values)


def test_each_thread_has_maps_at_multiples_of_64_bytes() -> None:
    buffer = ArgumentBuffer("PT")
    places = []

    def other(_: int) -> None:
        buffer.set((1, MAPS[1]))
        places.append((ctypes.c_void_p * 2).from_address(buffer.address)[1])

    in_threads(other, range(4))
    assert len(places) == 4
    assert all(place and place % 64 == 0 for place in places)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1, 2**31, 0.0), r"kernel argument 1 is a 32-bit integer, not 2147483648"),
        ((1, 2, "x"), r"kernel argument 2 is a float, not 'x'"),
        ((1, 2), r"the kernel takes 3 arguments, not 2"),
        ((1, 2, 3.0, 4), r"the kernel takes 3 arguments, not 4"),
    ],
)
def test_a_value_that_does_not_fit_is_named(values: tuple[object, ...], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        ArgumentBuffer("qif").set(values)


def test_an_unknown_format_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="no argument format 'z'"):
        ArgumentBuffer("Pz")


def test_threads_do_not_see_each_others_values() -> None:
    buffer = ArgumentBuffer("q")
    buffer.set((1,))
    addresses = []

    def other() -> None:
        buffer.set((2,))
        addresses.append(buffer.address)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert read(buffer, 0, ctypes.c_int64) == 1
    assert addresses[0] != buffer.address
