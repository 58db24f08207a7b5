"""CUDA C++ to machine code with NVRTC, in this process and without a GPU."""

from __future__ import annotations

import re
from typing import Any

from warpsmith.errors import CompileError, InternalError, KernelRefusal
from warpsmith.runtime.source import Binary, Source
from warpsmith.values import dataclass

# `-v` makes ptxas report registers, spills, stack and shared memory in the log. NVRTC's own cache
# is off, since a program that it holds already comes without that report.
_FLAGS = ("--std=c++17", "--minimal", "--ptxas-options=-v", "--no-cache")


def compile_source(source: Source) -> Binary:
    """Compile one kernel.

    Raises KernelRefusal with NVRTC's log and the lines that it complains about when the source is
    refused, and CompileError when NVRTC is missing or fails.
    """
    nvrtc = _nvrtc()
    options = [f"--gpu-architecture={source.arch}", *_FLAGS, *source.options]
    program = _value(
        nvrtc,
        nvrtc.nvrtcCreateProgram(
            source.text.encode(), f"{source.entry}.cu".encode(), 0, None, None
        ),
    )
    try:
        encoded = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _text(nvrtc, program, "ProgramLog").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            own = status == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION
            kind = KernelRefusal if own else CompileError
            raise kind(_refusal(source, f"{status.name}\n{log}"))
        usage = resources(log, source.entry)
        return Binary(
            cubin=_bytes(nvrtc, program, "CUBIN"),
            ptx=_text(nvrtc, program, "PTX"),
            log=log,
            registers=usage.registers,
            spill_bytes=usage.spill_bytes,
            stack_bytes=usage.stack_bytes,
            static_shared_bytes=usage.static_shared_bytes,
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


_SETMAXNREG = {
    "C7504": "do not compile with -rdc=true",
    "C7505": "do not compile with -G",
    "C7507": "inline every function that the kernel calls",
    "C7508": "bind the launch with __launch_bounds__(threads, blocks), both of them",
}
"""Why ptxas ignores `setmaxnreg`, and what helps."""

_WGMMA = {
    "C7511": "give the role that multiplies more registers, or smaller tiles",
    "C7515": "define the accumulators by wgmma alone: let the first one not add (scale-d 0)",
    "C7517": "await the group of the wgmma before its accumulators are used",
    "C7519": "put wgmma.fence before the first wgmma of every group",
}
"""Remarks on wgmma whose reason is known, and what helps."""

_REMARK = re.compile(r"^.*\((C75(?:0[4-9]|1[0-9]))\) *(.*)$", re.MULTILINE)


_MESSAGE = re.compile(r"\S+\(\d+\): |ptxas |nvrtc: |Remark: |\d+ (catastrophic )?errors? ")
"""What a message of NVRTC or ptxas begins with; lines that begin otherwise go on with one."""

_ERROR = re.compile(
    r"\S+\(\d+\): (catastrophic )?error|(ptxas .*|nvrtc: )(error|fatal) *:(?!.*aborted due to)"
)


def check_remarks(log: str, entry: str) -> None:
    """Refuse a kernel of which ptxas says that it ignores `setmaxnreg` or serializes wgmma.

    These are remarks C7504 to C7519; ptxas succeeds with them. A kernel that relies on register
    budgets then spills, or waits for registers for ever; serialized products are several times
    slower.

    Raises KernelRefusal WS0510 for `setmaxnreg`, WS0511 for wgmma, quoting every remark.
    """
    remarks = {match[0].strip(): match for match in _REMARK.finditer(log)}
    if not remarks:
        return
    first = next(iter(remarks.values()))
    ignored = "setmaxnreg" in first[2]
    known = _SETMAXNREG if ignored else _WGMMA
    raise KernelRefusal(
        f"ptxas says of kernel `{entry}`: " + "\n".join(remarks),
        code="WS0510" if ignored else "WS0511",
        remedy=known.get(first[1], "compile without what the remark names"),
    )


def serialized(log: str) -> bool:
    """Whether ptxas says that it serializes wgmma, as it does where registers are few."""
    return any("setmaxnreg" not in match[2] for match in _REMARK.finditer(log))


def nvrtc_version() -> tuple[int, int]:
    """Major and minor version of the NVRTC in use. Raises CompileError when there is none."""
    nvrtc = _nvrtc()
    major, minor = _value(nvrtc, nvrtc.nvrtcVersion())
    return major, minor


_STACK = re.compile(
    r"\D*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one entry function uses: registers and bytes a thread, shared bytes a block."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    static_shared_bytes: int


def resources(log: str, entry: str) -> Resources:
    """Read ptxas's report about `entry` out of a log.

    Raises CompileError when the log knows no such entry function. The report reads, for each one:

        ptxas info    : Compiling entry function 'add' for 'sm_90a'
        ptxas info    : Function properties for add
        ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
        ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem
    """
    _, found, report = log.partition(f"Compiling entry function '{entry}'")
    if not found:
        entries = re.findall(r"Compiling entry function '([^']+)'", log)
        raise CompileError(
            f"the source holds no kernel named `{entry}`, only {', '.join(entries) or 'none'}",
            remedy='declare it `extern "C" __global__` under that name',
        )
    _, _, properties = log.partition(f"Function properties for {entry}\n")
    stack = _STACK.match(properties)
    used = _USED.search(report)
    if stack is None or used is None:
        raise InternalError(f"ptxas's report about `{entry}` reads otherwise than known:\n{log}")
    return Resources(
        registers=int(used[1]),
        spill_bytes=int(stack[2]) + int(stack[3]),
        stack_bytes=int(stack[1]),
        static_shared_bytes=int(used[2] or 0),
    )


def _refusal(source: Source, log: str) -> str:
    """The errors of a log, each followed by the line of source that it names; all of a log that
    has none. Remarks and warnings, of which a text may have dozens, refuse nothing.
    """
    status, *messages = log.splitlines()
    errors, kept = list[str](), False
    for line in messages:
        if _MESSAGE.match(line):
            kept = _ERROR.match(line) is not None
        if kept and line.strip():
            errors.append(line)
    lines, quoted = source.text.splitlines(), [status]
    for message in errors or messages:
        quoted.append(message)
        place = re.match(rf"{re.escape(source.entry)}\.cu\((\d+)\): ", message)
        if place and 0 < int(place[1]) <= len(lines):
            quoted.append(f"  {place[1]} | {lines[int(place[1]) - 1]}")
    return f"NVRTC refused kernel `{source.entry}`: " + "\n".join(quoted)


def _nvrtc() -> Any:
    """The bindings, imported late: they take tens of milliseconds to import."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # the library itself is looked up at the first call
    except (ImportError, RuntimeError) as missing:
        raise CompileError(
            f"NVRTC cannot be loaded: {missing}",
            remedy="install it with `pip install cuda-bindings nvidia-cuda-nvrtc`",
        ) from missing
    return nvrtc


def _value(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC failed with {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


def _bytes(nvrtc: Any, program: Any, product: str) -> bytes:
    """One product of a compiled program: `CUBIN`, `PTX` or `ProgramLog`."""
    size = _value(nvrtc, getattr(nvrtc, f"nvrtcGet{product}Size")(program))
    content = bytes(size)  # the bindings write through the object they are given
    _value(nvrtc, getattr(nvrtc, f"nvrtcGet{product}")(program, content))
    return content


def _text(nvrtc: Any, program: Any, product: str) -> str:
    return _bytes(nvrtc, program, product).rstrip(b"\0").decode(errors="replace")
