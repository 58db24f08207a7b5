"""Runs a few lines of PTX on the machine.

Registers that a body finds set: `%tid`, `%lane`, `%warp`, `%cta`, `%x` and `%out` (global
addresses of the two buffers), `%o` (of this thread's word of `out`). `%p0` to `%p9`, `%r0` to
`%r39`, `%d0` to `%d19`, `%f0` to `%f9`, `%h0` to `%h9`, `%e0` to `%e4` (double), `%q0` to `%q3`
(128 bits) are free. `sm` is shared memory of 4 KiB, aligned to 1024; its address is 1024.
"""

import re
from typing import Any

import numpy as np

from warpsmith.sim.ptx import read
from warpsmith.sim.report import Finding, Report
from warpsmith.sim.simulate import simulate
from warpsmith.sim.spec import prepare

PROLOGUE = """
mov.u32 %tid, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %lane, %laneid; shr.u32 %warp, %tid, 5;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out];
mov.u32 %own, %ntid.x; mad.lo.u32 %own, %own, %cta, %tid; mad.wide.u32 %o, %own, 4, %out;
"""
REGISTERS = """
.reg .pred %p<10>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .f32 %f<10>; .reg .b16 %h<10>;
.reg .f64 %e<5>; .reg .b128 %q<4>; .reg .b32 %tid, %cta, %lane, %warp, %own; .reg .b64 %x, %out, %o;
"""
WORDS = 1024
STORE = "st.global.u32 [%o], %r0;"
LEADER = "setp.eq.u32 %p0, %tid, 0;"
MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"


def barrier(count: int = 1) -> str:
    """An mbarrier at sm + 2048, ready for all."""
    return f"""{LEADER} @%p0 mbarrier.init.shared::cta.b64 [sm+2048], {count};
    @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;"""


def wait(parity: int, label: str = "W", place: str = "sm+2048") -> str:
    return f"""{label}: mbarrier.try_wait.parity.shared::cta.b64 %p9, [{place}], {parity};
    @!%p9 bra {label};"""


def text_of(body: str, *, cluster: int = 1, module: str = "", bound: str = "") -> str:
    clusters = f".explicitcluster .reqnctapercluster {cluster}" if cluster > 1 else ""
    return (
        ".version 8.8\n.target sm_90a\n.address_size 64\n"
        f".shared .align 1024 .b8 sm[4096];\n{module}\n"
        f".visible .entry k(.param .u64 x, .param .u64 out) {clusters} {bound} {{\n"
        f"{REGISTERS}{PROLOGUE}\n{body}\nDONE: ret;\n}}\n"
    )


def run(
    body: str,
    *,
    threads: int = 32,
    grid: int = 1,
    cluster: int = 1,
    x: Any = None,
    init: str = "zeros",
    dtype: str = "uint32",
    count: int = 4,
    budget: int = 200_000,
    module: str = "",
    bound: str = "",
    registers: int = 32,
    shared: int = 0,
    given: int = WORDS,
    is_open: bool = False,
    together: bool = False,
) -> Report:
    """Run a body. `x` has as many words as are `given`, which count up where nothing is said of
    them, and `out` 1024.
    """
    words = np.arange(given) if x is None else np.resize(np.asarray(x), given)
    spec = {
        "grid": [grid, 1, 1],
        "block": [threads, 1, 1],
        "cluster": [cluster, 1, 1],
        "registers": registers,
        "shared_bytes": shared,
        "together": together,
        "buffers": {
            "x": {"dtype": dtype, "shape": [given], "init": "zeros", "open": is_open},
            "out": {"dtype": dtype, "shape": [WORDS], "init": init},
        },
        "params": [{"ptr": "x"}, {"ptr": "out"}],
        "outputs": ["out"],
    }
    program = read(text_of(body, cluster=cluster, module=module, bound=bound))
    job = prepare(program, spec, arrays={"x": words.astype(dtype)})
    return simulate(job.launch, count=count, budget=budget)


def values(body: str, *, threads: int = 32, grid: int = 1, **options: Any) -> list[int]:
    """What each thread stored at `%o`; the run must be clean."""
    report = run(body, threads=threads, grid=grid, **options)
    assert report.verdict == "clean", str(report)
    return [int(value) for value in report.arrays["out"][: threads * grid]]


def found(body: str, **options: Any) -> set[str]:
    """The kinds of what is found, which is something."""
    report = run(body, **options)
    assert report.verdict == "findings", str(report)
    return {finding.kind for finding in report.findings}


def clean(body: str, **options: Any) -> None:
    report = run(body, **options)
    assert report.verdict == "clean", str(report)


def finding(body: str, kind: str, **options: Any) -> Finding:
    """The only finding of a kind."""
    report = run(body, **options)
    of_kind = [one for one in report.findings if one.kind == kind]
    assert len(of_kind) == 1, str(report)
    return of_kind[0]


def at(line: Finding, opcode: str) -> bool:
    """Is the finding at an instruction of this opcode?"""
    return re.match(rf"(@!?%\w+ )?{re.escape(opcode)}", line.site.text) is not None
