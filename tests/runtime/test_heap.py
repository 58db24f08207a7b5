"""Memory of compiles: taken by no more threads than there are cores, and given back."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.resident import own_bytes
from tests.runtime.test_cache import BINARY, SOURCE
from warpsmith.engine.compiled import compile_fusion
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.knobs import Knobs
from warpsmith.runtime import cache as cache_module
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.heap import give_back, trim
from warpsmith.runtime.source import Binary, Source
from warpsmith.runtime.turns import compilers
from warpsmith.targets.hopper import H200

MIB = 1 << 20

PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
"""The environment of a process whose heaps keep what glibc has them keep: `make test` says more."""


def fill(mib: int) -> None:
    """Take so much of this thread's heap, in pieces, and free it again."""
    libc = ctypes.PyDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.restype, libc.free.argtypes = None, (ctypes.c_void_p,)
    # A large block that is freed raises the threshold up to which glibc keeps what is free.
    libc.free(libc.malloc(30 * MIB))
    pieces = [libc.malloc(100_000) for _ in range(mib * 10)]
    for piece in pieces:
        ctypes.memset(piece, 1, 100_000)
    for piece in pieces:
        libc.free(piece)


def in_thread(*steps: object) -> list[int]:
    """Bytes that are resident after each step, all done by one new thread."""
    found: list[int] = []

    def work() -> None:
        for step in steps:
            assert callable(step)
            step()
            found.append(own_bytes())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found


def test_what_a_thread_freed_is_given_back() -> None:
    before, kept, after = in_thread(lambda: None, lambda: fill(40), give_back)
    assert kept - before > 30 * MIB, "glibc keeps it"
    assert after - before < 8 * MIB


def nvrtc_frees() -> None:
    kept: list[int] = []

    def compiled(source: Source) -> Binary:
        fill(40)
        kept.append(own_bytes())
        return BINARY

    cache_module.compile_source = compiled
    with TemporaryDirectory() as folder:
        # Whoever waits for a kernel goes on while its thread gives memory back.
        _, after = in_thread(
            lambda: CubinCache(Path(folder)).get_or_compile(SOURCE), compilers().shutdown
        )
    assert kept[0] - after > 30 * MIB


def lowering_frees() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.exp(x))
    kept: list[int] = []

    def scheduled() -> Fusion:
        fill(40)
        kept.append(own_bytes())
        return fd.fusion

    with TemporaryDirectory() as folder:
        knobs = Knobs(cache_dir=Path(folder))

        def compile_() -> None:
            compile_fusion(scheduled, "k", DataType.Int32, knobs, target=H200)

        after = in_thread(compile_, compile_, compile_)  # the first of them imports, too
    for full, left in zip(kept[1:], after[1:], strict=True):
        assert full - left > 25 * MIB


@pytest.mark.parametrize("name", [nvrtc_frees.__name__, lowering_frees.__name__])
def test_what_compiles_freed_is_given_back(name: str) -> None:
    """In a process of its own: heaps have holes of other tests, which take and give less."""
    code = f"from tests.runtime.test_heap import {name}; {name}()"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env=PLAIN)


def test_nvrtc_has_a_thread_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[int] = []
    most: list[int] = []

    def compiled(source: Source) -> Binary:
        now.append(1)
        most.append(len(now))
        time.sleep(0.01)
        now.pop()
        return BINARY

    monkeypatch.setattr(cache_module, "compile_source", compiled)
    cores = len(os.sched_getaffinity(0))
    kernels = [replace(SOURCE, text=f"{number}") for number in range(8 * cores)]
    with ThreadPoolExecutor(8 * cores) as callers:
        assert len(list(callers.map(CubinCache(tmp_path).get_or_compile, kernels))) == len(kernels)
    assert max(most) <= cores


FORKED = """
import os, sys
from warpsmith.runtime.turns import compilers
assert compilers().submit(int, "1").result() == 1
child = os.fork()
if child == 0:
    os._exit(compilers().submit(int, "7").result(timeout=20))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_compiles() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], timeout=60).returncode == 7


def test_free_pages_between_what_lives_are_given_back() -> None:
    """As kernels that are forgotten lie between others that are kept."""
    libc = ctypes.PyDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.restype, libc.free.argtypes = None, (ctypes.c_void_p,)
    kept: list[int] = []

    def scattered() -> None:
        pieces = [libc.malloc(100_000) for _ in range(320)]
        for piece in pieces:
            ctypes.memset(piece, 1, 100_000)
        kept.extend(pieces[::8])
        for piece in pieces:
            if piece not in kept:
                libc.free(piece)

    before, after = in_thread(scattered, trim)
    for piece in kept:
        libc.free(piece)
    assert before - after > 20 * MIB


SMALL = """
from warpsmith.runtime import heap

real = heap._glibc()
taken = []


class Watched:
    def malloc(self, size):
        taken.append(size)
        return real.malloc(size)

    def __getattr__(self, name):
        return getattr(real, name)


heap._glibc = Watched
heap.give_back()
print(sum(taken))
"""


def test_no_more_is_taken_than_is_free() -> None:
    """A heap would grow for it, by a call of the system for each piece."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL], env=PLAIN, capture_output=True, timeout=60, check=True
    )
    assert int(done.stdout) < 8 * MIB
