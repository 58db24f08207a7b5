"""The cache of compiled kernels: hits, misses, damage, and several processes."""

import multiprocessing
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.binaries import compiled_sources
from warpsmith.errors import CompileError, ProtocolError
from warpsmith.runtime import cache as cache_module
from warpsmith.runtime.cache import CubinCache, Entries, key
from warpsmith.runtime.source import Binary, Source

SOURCE = Source(
    text='extern "C" __global__ void one(int* x) { *x = 1; }', entry="one", arch="sm_90a"
)
BINARY = Binary(
    cubin=bytes(range(256)) * 64,
    ptx="// with a \n line and ü\n",
    log="remark",
    registers=10,
    spill_bytes=8,
    stack_bytes=16,
    static_shared_bytes=256,
)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """The sources that were compiled, in order."""
    return compiled_sources(monkeypatch)


def entry_of(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    CubinCache(tmp_path / "new" / "directory").store(SOURCE, BINARY)
    assert CubinCache(tmp_path / "new" / "directory").load(SOURCE) == BINARY


def test_the_second_time_nothing_is_compiled(tmp_path: Path, compiles: list[Source]) -> None:
    first = CubinCache(tmp_path).get_or_compile(SOURCE)
    assert CubinCache(tmp_path).get_or_compile(SOURCE) == first
    assert compiles == [SOURCE]


def test_always_compile_compiles_and_stores(tmp_path: Path, compiles: list[Source]) -> None:
    cache = CubinCache(tmp_path)
    cache.store(SOURCE, BINARY)
    compiled = cache.get_or_compile(SOURCE, always_compile=True)
    assert compiles == [SOURCE]
    assert cache.load(SOURCE) == compiled != BINARY


def test_what_is_to_be_done_meanwhile_is_done_while_nvrtc_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)

    def compiled(source: Source) -> Binary:
        both.wait()
        return BINARY

    monkeypatch.setattr(cache_module, "compile_source", compiled)
    cache = CubinCache(tmp_path)
    assert cache.get_or_compile(SOURCE, meanwhile=both.wait) == BINARY
    assert cache.get_or_compile(SOURCE, meanwhile=both.wait) == BINARY, "nothing is compiled"


def test_nobody_waits_for_memory_that_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(cache_module, "compile_source", lambda source: BINARY)
    monkeypatch.setattr(cache_module, "give_back", both.wait)
    assert CubinCache(tmp_path).get_or_compile(SOURCE) == BINARY
    both.wait()


def test_what_fails_meanwhile_is_raised_and_nothing_is_kept(
    tmp_path: Path, compiles: list[Source]
) -> None:
    def fails() -> None:
        raise ProtocolError("it hangs", code="WS0900", rule="test")

    cache = CubinCache(tmp_path)
    with pytest.raises(ProtocolError, match="it hangs"):
        cache.get_or_compile(SOURCE, meanwhile=fails)
    assert cache.load(SOURCE) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(SOURCE, text=SOURCE.text + " "),
        replace(SOURCE, entry="two"),
        replace(SOURCE, arch="sm_100a"),
        replace(SOURCE, options=("--use_fast_math",)),
    ],
)
def test_every_part_of_the_source_is_in_the_key(other: Source) -> None:
    assert key(other, (13, 0)) != key(SOURCE, (13, 0))


def test_the_compiler_version_is_in_the_key() -> None:
    assert key(SOURCE, (13, 0)) != key(SOURCE, (13, 1))


@pytest.mark.parametrize("kept", [0, 5, 18, 40, 60, 300, -1])
def test_a_truncated_entry_is_compiled_anew(
    tmp_path: Path, compiles: list[Source], kept: int
) -> None:
    cache = CubinCache(tmp_path)
    whole = cache.get_or_compile(SOURCE)
    content = entry_of(tmp_path).read_bytes()
    entry_of(tmp_path).write_bytes(content[:kept])
    assert cache.load(SOURCE) is None
    assert cache.get_or_compile(SOURCE).cubin == whole.cubin
    assert len(compiles) == 2
    assert cache.load(SOURCE) is not None


@pytest.mark.parametrize("place", [0, 20, 55, 2000, -1])
def test_an_altered_entry_is_a_miss(tmp_path: Path, place: int) -> None:
    cache = CubinCache(tmp_path)
    cache.store(SOURCE, BINARY)
    content = bytearray(entry_of(tmp_path).read_bytes())
    content[place] ^= 1
    entry_of(tmp_path).write_bytes(content)
    assert cache.load(SOURCE) is None


def test_an_entry_in_the_place_of_another_is_a_miss(tmp_path: Path) -> None:
    entries = Entries(tmp_path, "bytes", b"test\n", 1 << 20)
    entries.store("a", b"of a")
    entries.store("b", b"of b")
    entries.path("b").write_bytes(entries.path("a").read_bytes())
    assert entries.load("a") == b"of a"
    assert entries.load("b") is None


def test_a_refused_source_leaves_no_entry(tmp_path: Path) -> None:
    with pytest.raises(CompileError):
        CubinCache(tmp_path).get_or_compile(replace(SOURCE, text="nonsense"))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_warned_of_once(
    tmp_path: Path, compiles: list[Source]
) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = CubinCache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="cannot keep compiled kernels in .*WARPSMITH_CACHE_D"):
        assert cache.get_or_compile(SOURCE).cubin
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get_or_compile(SOURCE).cubin
    assert len(compiles) == 2


def store_often(directory: Path, start: threading.Barrier, fill: int) -> None:
    cache = CubinCache(directory)
    mine = replace(BINARY, cubin=bytes([fill]) * 200_000)
    start.wait()
    for _ in range(100):
        cache.store(SOURCE, mine)
        found = cache.load(SOURCE)
        assert found is not None
        assert set(found.cubin) in ({1}, {2})


def test_processes_that_write_one_entry_never_show_a_part_of_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    writers = [context.Process(target=store_often, args=(tmp_path, start, fill)) for fill in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert entry_of(tmp_path).suffix == ".cubin"


def test_loading_takes_about_a_millisecond(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path)
    cache.store(SOURCE, BINARY)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        cache.load(SOURCE)
        times.append(time.perf_counter() - begin)
    assert min(times) < 2e-3
