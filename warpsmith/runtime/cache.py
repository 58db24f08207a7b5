"""Compiled kernels kept on disk between processes.

One file an entry, named by the hash of what decides its content. Each is written aside and renamed
into place, so a reader sees a whole entry or none, however many processes write; two that compile
the same kernel at once write the same entry, and the last one stays. Nothing is locked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

from warpsmith.runtime.disk import Limited, mark_used
from warpsmith.runtime.nvrtc import compile_source, nvrtc_version
from warpsmith.runtime.source import Binary, Source

# First line of an entry. A new layout gets a new number, and older entries become misses.
_MAGIC = b"warpsmith cubin 1\n"

_UNLIMITED = 1 << 62


class CubinCache:
    """The compiled kernels under one directory, which is made on the first store.

    A damaged entry counts as missing. A directory that cannot be written is warned of once, and
    kernels are then compiled anew in each process. Safe to share between threads.

    Args:
        directory: where they are.
        limit_bytes: of its files; beyond, those that were not used for longest are removed.
    """

    def __init__(self, directory: Path, limit_bytes: int = _UNLIMITED) -> None:
        self.directory = directory
        self._limited = Limited(directory, limit_bytes)
        self._warned = False

    def load(self, source: Source) -> Binary | None:
        """The stored result of compiling `source`, or None where there is none that is whole."""
        path = self._path(source)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        mark_used(path)
        return _unpack(content)

    def store(self, source: Source, binary: Binary) -> None:
        """Keep `binary` as the result of compiling `source`, in place of what was there."""
        path, content = self._path(source), _pack(binary)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as failure:
            self._warn(failure)
            return
        self._limited.added(len(content))

    def get_or_compile(self, source: Source, *, always_compile: bool = False) -> Binary:
        """Load `source`'s kernel, or compile and store it; `always_compile` skips the load.

        Raises CompileError as `compile_source` does; a source that fails leaves no entry.
        """
        if not always_compile and (found := self.load(source)) is not None:
            return found
        binary = compile_source(source)
        self.store(source, binary)
        return binary

    def _path(self, source: Source) -> Path:
        return self.directory / f"{key(source, nvrtc_version())}.cubin"

    def _warn(self, failure: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"warpsmith cannot keep compiled kernels in {self.directory}: {failure}; each "
                "process compiles them anew. Set WARPSMITH_CACHE_DIR to a directory that can be "
                "written.",
                RuntimeWarning,
                stacklevel=4,
            )


@lru_cache(maxsize=64)
def cubin_cache(directory: Path, limit_mib: int) -> CubinCache:
    """The one cache of a directory, which warns once and knows how much it wrote there."""
    return CubinCache(directory, limit_mib << 20)


def key(source: Source, version: tuple[int, int]) -> str:
    """Hex digest of all that decides the machine code: the source and the NVRTC `version`."""
    # JSON keeps the parts apart: no two different lists have one text.
    parts = [source.text, source.entry, source.arch, source.options, version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _pack(binary: Binary) -> bytes:
    """Magic, one line of JSON, the PTX, the cubin. The JSON holds lengths and a checksum."""
    ptx = binary.ptx.encode()
    facts = {
        "ptx_bytes": len(ptx),
        "log": binary.log,
        "registers": binary.registers,
        "spill_bytes": binary.spill_bytes,
        "stack_bytes": binary.stack_bytes,
        "static_shared_bytes": binary.static_shared_bytes,
    }
    body = json.dumps(facts).encode() + b"\n" + ptx + binary.cubin
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(content: bytes) -> Binary | None:
    """The inverse of `_pack`; None for anything that `_pack` did not write."""
    start = len(_MAGIC) + hashlib.sha256().digest_size
    body = content[start:]
    if content[:start] != _MAGIC + hashlib.sha256(body).digest():
        return None
    line, _, code = body.partition(b"\n")
    facts = json.loads(line)
    ptx_bytes = facts.pop("ptx_bytes")
    return Binary(ptx=code[:ptx_bytes].decode(), cubin=code[ptx_bytes:], **facts)
