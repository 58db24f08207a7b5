"""Memory of a device, and the span of bytes that a strided array covers."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.fake_driver import FakeDriver, install
from warpsmith.runtime.memory import DeviceMemory, span


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns at nearly every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_take_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeDriver())

    def work(number: int) -> None:
        for _ in range(4):
            with DeviceMemory(0) as memory:
                for size in range(1, 121):
                    memory.allocate(size, "a tensor")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert fake.used_bytes == fake.depth == 0


def test_spans() -> None:
    base = np.zeros((4, 6), np.float32)
    assert span(base) == (0, 96)
    assert span(base[1:3, ::2]) == (0, 24 + 16 + 4)
    assert span(base[::-1]) == (-72, 96)
    assert span(base[:, ::-1].T) == (-20, 96)
    assert span(np.broadcast_to(base[0], (9, 6))) == (0, 24)
    assert span(np.zeros((), np.float64)) == (0, 8)
    assert span(np.zeros((0, 3))) == (0, 0)


def test_a_span_holds_every_element() -> None:
    base = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    view = base[::-1, 1:, ::-2]
    low, byte_count = span(view)
    start = view.ctypes.data + low - base.ctypes.data
    covered = base.tobytes()[start : start + byte_count]
    rebuilt = np.ndarray(view.shape, view.dtype, covered, -low, view.strides)
    assert np.array_equal(rebuilt, view)
