"""What is compiled, and what comes of it."""

from __future__ import annotations

from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One kernel in CUDA C++.

    `entry` is the unmangled name of the kernel (`extern "C"`), `arch` what it is compiled for, such
    as `sm_90a`, `options` are further flags of NVRTC such as `--use_fast_math`. Equal sources give
    equal kernels under one NVRTC.
    """

    text: str
    entry: str
    arch: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A compiled kernel, and what ptxas said about its entry function.

    `spill_bytes` counts spill stores and spill loads of one thread, `stack_bytes` its stack frame;
    `static_shared_bytes` are those of one block. `log` is everything that NVRTC printed.
    """

    cubin: bytes
    ptx: str
    log: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    static_shared_bytes: int
