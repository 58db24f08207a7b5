"""What stands in for a compiled kernel where NVRTC is not asked."""

from __future__ import annotations

from warpsmith.runtime.source import Binary

UNCOMPILED = Binary(
    cubin=b"",
    ptx="",
    log="",
    registers=32,
    spill_bytes=0,
    stack_bytes=0,
    static_shared_bytes=0,
)
