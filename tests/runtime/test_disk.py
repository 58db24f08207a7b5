"""The limit of a cache directory: what goes first, and what other processes do."""

import os
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.binaries import UNCOMPILED
from warpsmith.runtime import cache as cache_module
from warpsmith.runtime.cache import CubinCache, cubin_cache
from warpsmith.runtime.disk import Limited, entries
from warpsmith.runtime.source import Source

SOURCE = Source(text="", entry="one", arch="sm_90a")
BINARY = replace(UNCOMPILED, cubin=bytes(1000))


def write(folder: Path, number: int, size: int, used_s: float) -> Path:
    path = folder / f"{number}.cubin"
    path.write_bytes(bytes(size))
    os.utime(path, (used_s, used_s))
    return path


def names(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.cubin"))


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path, number, 100, used_s=1000.0 + (number + 3) % 8)
    Limited(tmp_path, 799).added(100)
    assert names(tmp_path) == [0, 1, 2, 3, 4, 6, 7]  # 5 was used first of all
    Limited(tmp_path, 500).added(0)
    assert names(tmp_path) == [1, 2, 3, 4]


def test_within_the_limit_nothing_goes(tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path, number, 100, used_s=1000.0 + number)
    Limited(tmp_path, 800).added(100)
    assert len(names(tmp_path)) == 8


def test_what_others_write_is_noticed(tmp_path: Path) -> None:
    limited = Limited(tmp_path, 1600)
    limited.added(0)
    for number in range(20):  # another process
        write(tmp_path, number, 100, used_s=1000.0 + number)
    for _ in range(3):
        limited.added(50)
    assert len(names(tmp_path)) == 14


def test_the_simulator_and_leftovers_count_and_other_files_stay(tmp_path: Path) -> None:
    for name in ("machine-1.so", ".writing-1", "mine.txt"):
        (tmp_path / name).write_bytes(bytes(100))
    assert {entry.path.name for entry in entries(tmp_path)} == {"machine-1.so", ".writing-1"}
    Limited(tmp_path, 10).added(1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_stream_of_kernels_stays_within_the_limit(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path, limit_bytes=20_000)
    first = replace(SOURCE, text="first")
    cache.store(first, BINARY)
    for number in range(60):
        os.utime(cache._entries.path(cache_module._name(first)), (1, 1))
        assert cache.load(first) is not None, "it is used all the time"
        cache.store(replace(SOURCE, text=str(number)), BINARY)
        assert sum(entry.size_bytes for entry in entries(tmp_path)) <= 20_000 + 1_500
    assert len(entries(tmp_path)) > 10


def test_a_kernel_that_is_loaded_was_used(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path)
    cache.store(SOURCE, BINARY)
    (path,) = tmp_path.iterdir()
    os.utime(path, (1, 1))
    cache.load(SOURCE)
    assert path.stat().st_mtime > 1e9


def test_one_warning_for_all_who_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "compile_source", lambda source: BINARY)
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="cannot keep compiled kernels"):
        assert cubin_cache(tmp_path / "file", 16).get_or_compile(SOURCE) is BINARY
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cubin_cache(tmp_path / "file", 16).get_or_compile(SOURCE) is BINARY
