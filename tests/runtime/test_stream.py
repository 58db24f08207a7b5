"""The stream of work on a machine whose PyTorch has none."""

import sys
from types import SimpleNamespace

import pytest

from warpsmith.runtime.stream import current_stream


def test_default_stream_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert current_stream(0) == 0


def test_default_stream_with_a_torch_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=SimpleNamespace()))  # type: ignore[arg-type]
    assert current_stream(0) == 0


def test_asks_torch_for_the_stream_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 100 + ordinal)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=bindings))  # type: ignore[arg-type]
    assert current_stream(3) == 103
