"""What is kept on disk between processes, compiled kernels first of all.

One file an entry, named by the hash of what decides its content. Each is written aside and renamed
into place, so a reader sees a whole entry or none, however many processes write; two that compile
the same kernel at once write the same entry, and the last one stays. Nothing is locked.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

from warpsmith.runtime.disk import limited, mark_used
from warpsmith.runtime.heap import give_back
from warpsmith.runtime.nvrtc import compile_source, nvrtc_version
from warpsmith.runtime.source import Binary, Source
from warpsmith.runtime.turns import compilers, given_up

_UNLIMITED = 1 << 62


class Entries:
    """Files of one kind under one directory, which is made on the first store.

    An entry that is not as it was stored, or not where, counts as missing. Safe to share between
    threads.

    Args:
        directory: where they are.
        suffix: of their names.
        magic: first line of each. A new layout gets a new one, and older entries become misses.
        limit_bytes: of the directory; beyond, files that were not used for longest are removed.
    """

    def __init__(self, directory: Path, suffix: str, magic: bytes, limit_bytes: int) -> None:
        self.directory = directory
        self._suffix = suffix
        self._magic = magic
        self._limited = limited(directory, limit_bytes)

    def path(self, name: str) -> Path:
        """Where the entry of this name is, if it is."""
        return self.directory / f"{name}.{self._suffix}"

    def load(self, name: str) -> bytes | None:
        """What was stored under the name, or None where there is nothing that is whole."""
        path = self.path(name)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        mark_used(path)
        start = len(self._magic) + hashlib.sha256().digest_size
        body = content[start:]
        return body if content[:start] == self._head(name, body) else None

    def store(self, name: str, body: bytes) -> OSError | None:
        """Keep this under the name, in place of what was there, or say why that cannot be."""
        path, content = self.path(name), self._head(name, body) + body
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".writing-{os.urandom(8).hex()}")
            try:
                aside.write_bytes(content)
                os.replace(aside, path)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
        except OSError as failure:
            return failure
        self._limited.added(len(content))
        return None

    def _head(self, name: str, body: bytes) -> bytes:
        """By the name, too: a file that was moved to another one's place is not that entry."""
        return self._magic + hashlib.sha256(name.encode() + b"\n" + body).digest()


class CubinCache:
    """The compiled kernels under one directory.

    Where it cannot be written, that is warned of once, and kernels are compiled anew in each
    process. Safe to share between threads.

    Args:
        directory: where they are.
        limit_bytes: of its files; beyond, those that were not used for longest are removed.
    """

    def __init__(self, directory: Path, limit_bytes: int = _UNLIMITED) -> None:
        self.directory = directory
        self._entries = Entries(directory, "cubin", b"warpsmith cubin 2\n", limit_bytes)
        self._warned = False

    def load(self, source: Source) -> Binary | None:
        """The stored result of compiling `source`, or None where there is none that is whole."""
        body = self._entries.load(_name(source))
        return None if body is None else _unpacked(body)

    def store(self, source: Source, binary: Binary) -> None:
        """Keep `binary` as the result of compiling `source`, in place of what was there."""
        failure = self._entries.store(_name(source), _packed(binary))
        if failure is not None:
            self._warn(failure)

    def get_or_compile(
        self,
        source: Source,
        *,
        always_compile: bool = False,
        meanwhile: Callable[[], object] | None = None,
    ) -> Binary:
        """Load `source`'s kernel, or compile and store it.

        Args:
            always_compile: skips the load.
            meanwhile: is called while NVRTC compiles, which lets other threads go on; not where
                nothing is compiled. What it raises is raised.

        Raises CompileError as `compile_source` does; a source that fails leaves no entry.
        """
        if not always_compile and (found := self.load(source)) is not None:
            return found
        made = Future[Binary]()
        compilers().submit(_compile, source, made)
        with given_up():
            if meanwhile is not None:
                meanwhile()
            binary = made.result()
        self.store(source, binary)
        return binary

    def _warn(self, failure: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"warpsmith cannot keep compiled kernels in {self.directory}: {failure}; "
                "each process compiles them anew. Set WARPSMITH_CACHE_DIR to a directory that can "
                "be written.",
                RuntimeWarning,
                stacklevel=4,
            )


@lru_cache(maxsize=64)
def cubin_cache(directory: Path, limit_mib: int) -> CubinCache:
    """The one cache of a directory, which warns once and knows how much it wrote there."""
    return CubinCache(directory, limit_mib << 20)


def _compile(source: Source, made: Future[Binary]) -> None:
    """Whoever waits for it goes on while memory is given back."""
    try:
        made.set_result(compile_source(source))
    except BaseException as failure:
        made.set_exception(failure)
    give_back()


def key(source: Source, version: tuple[int, int]) -> str:
    """Hex digest of all that decides the machine code: the source and the NVRTC `version`."""
    # JSON keeps the parts apart: no two different lists have one text.
    parts = [source.text, source.entry, source.arch, source.options, version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _name(source: Source) -> str:
    return key(source, nvrtc_version())


def _packed(binary: Binary) -> bytes:
    """One line of JSON, which holds lengths, the PTX, the cubin."""
    ptx = binary.ptx.encode()
    facts = {
        "ptx_bytes": len(ptx),
        "log": binary.log,
        "registers": binary.registers,
        "spill_bytes": binary.spill_bytes,
        "stack_bytes": binary.stack_bytes,
        "static_shared_bytes": binary.static_shared_bytes,
    }
    return json.dumps(facts).encode() + b"\n" + ptx + binary.cubin


def _unpacked(body: bytes) -> Binary:
    """The inverse of `_packed`."""
    line, _, code = body.partition(b"\n")
    facts = json.loads(line)
    ptx_bytes = facts.pop("ptx_bytes")
    return Binary(ptx=code[:ptx_bytes].decode(), cubin=code[ptx_bytes:], **facts)
