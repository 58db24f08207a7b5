"""What stands in for a compiled kernel where NVRTC is not asked, and what is noted where it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from warpsmith.runtime import cache
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Binary, Source

if TYPE_CHECKING:
    import pytest

UNCOMPILED = Binary(
    cubin=b"",
    ptx="",
    log="",
    registers=32,
    spill_bytes=0,
    stack_bytes=0,
    static_shared_bytes=0,
)


@contextmanager
def uncompiled() -> Iterator[list[str]]:
    """Kernels are lowered and printed into the list, in any order, and NVRTC is not asked."""
    found: list[str] = []

    def printed(self: CubinCache, source: Source, **told: object) -> Binary:
        found.append(source.text)
        return UNCOMPILED

    with mock.patch.object(CubinCache, "get_or_compile", printed):
        yield found


def compiled_sources(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """The sources that NVRTC is asked to compile from now on, in any order."""
    seen: list[Source] = []

    def counted(source: Source) -> Binary:
        seen.append(source)
        return compile_source(source)

    monkeypatch.setattr(cache, "compile_source", counted)
    return seen
