"""Compiling CUDA C++: what comes out, what ptxas reports, and how refusals read."""

import re

import pytest

from tests.support.role_sources import product, two_budgets
from warpsmith.errors import CompileError, InternalError
from warpsmith.protocol.registers import entry_registers
from warpsmith.runtime.nvrtc import check_remarks, compile_source, nvrtc_version, resources
from warpsmith.runtime.source import Source
from warpsmith.targets.hopper import SM90A

SCALE = """
extern "C" __global__ void scale(const float* x, float* y, float factor) {
    __shared__ float staged[64];
    staged[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = staged[63 - threadIdx.x] * factor;
}
"""

# Keeps 64 values alive, more than 24 registers hold.
GREEDY = """
extern "C" __global__ void greedy(const float* x, float* y, int n) {
    float kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = x[i * n];
    for (int i = 0; i < 64; ++i) y[i] = kept[i] * kept[63 - i] + kept[(i * 7) & 63];
}
"""


def test_compiles_for_hopper_and_reports_resources() -> None:
    binary = compile_source(Source(text=SCALE, entry="scale", arch="sm_90a"))
    assert binary.cubin.startswith(b"\x7fELF")
    assert ".target sm_90a" in binary.ptx
    assert ".entry scale(" in binary.ptx
    assert not binary.ptx.endswith("\0")
    assert 0 < binary.registers <= 32
    assert (binary.spill_bytes, binary.stack_bytes) == (0, 0)
    assert binary.static_shared_bytes == 256


def test_spills_are_counted() -> None:
    free = compile_source(Source(text=GREEDY, entry="greedy", arch="sm_90a"))
    tight = compile_source(
        Source(text=GREEDY, entry="greedy", options=("--maxrregcount=24",), arch="sm_90a")
    )
    assert free.registers > 64
    assert free.spill_bytes == 0
    assert tight.registers == 24
    assert tight.spill_bytes > 64
    assert tight.stack_bytes > 0


def test_resources_are_those_of_the_entry() -> None:
    binary = compile_source(Source(text=SCALE + GREEDY, entry="scale", arch="sm_90a"))
    assert binary.registers <= 32
    assert binary.static_shared_bytes == 256
    assert (
        compile_source(
            Source(text=SCALE + GREEDY, entry="greedy", arch="sm_90a")
        ).static_shared_bytes
        == 0
    )


def test_a_refusal_quotes_the_log_and_the_line() -> None:
    text = 'extern "C" __global__ void broken(float* x) {\n    x[0] = undeclared + 1;\n}\n'
    with pytest.raises(CompileError) as caught:
        compile_source(Source(text=text, entry="broken", arch="sm_90a"))
    message = str(caught.value)
    assert message.startswith("[WS0500] NVRTC refused kernel `broken`: NVRTC_ERROR_COMPILATION\n")
    assert 'broken.cu(2): error: identifier "undeclared" is undefined\n' in message
    assert "\n  2 |     x[0] = undeclared + 1;\n" in message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x[0] = undeclared;", "error: identifier"),
        ('asm volatile("bogus.x;");', "Not a name of any known instruction: 'bogus'"),
        ("other();", "Unresolved extern function 'other'"),
    ],
)
def test_a_refusal_is_told_without_warnings(line: str, said: str) -> None:
    """Of a text with many warnings a refusal was a hundred lines, the reason the last of them."""
    unread = "".join(f"    const int unread{n} = {n};\n" for n in range(20))
    text = (
        f'extern "C" __device__ void other();\nextern "C" __global__ void k(float* x) {{\n{unread}'
    )
    with pytest.raises(CompileError) as caught:
        compile_source(Source(text=f"{text}    {line}\n}}\n", entry="k", arch="sm_90a"))
    message = str(caught.value)
    assert said in message
    assert "unread" not in message
    assert len(message.splitlines()) <= 6


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(CompileError, match="NVRTC_ERROR_INVALID_OPTION(.|\n)*no-such-option"):
        compile_source(
            Source(text=SCALE, entry="scale", options=("--no-such-option",), arch="sm_90a")
        )


def test_an_entry_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(CompileError, match=r"no kernel named `scales`, only scale; declare it"):
        compile_source(Source(text=SCALE, entry="scales", arch="sm_90a"))


def test_works_after_a_refusal() -> None:
    with pytest.raises(CompileError):
        compile_source(Source(text="nonsense", entry="scale", arch="sm_90a"))
    assert compile_source(Source(text=SCALE, entry="scale", arch="sm_90a")).cubin


def test_the_version_is_thirteen() -> None:
    assert nvrtc_version()[0] == 13


def test_a_report_in_another_form_is_an_internal_error() -> None:
    log = compile_source(Source(text=SCALE, entry="scale", arch="sm_90a")).log
    with pytest.raises(InternalError, match="reads otherwise than known"):
        resources(re.sub("Used .* registers", "Registers:", log), "scale")


@pytest.mark.parametrize(
    ("bound", "options", "remark", "remedy"),
    [
        (
            "__launch_bounds__(384)",
            (),
            "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine "
            "register count at entry.",
            "bind the launch with __launch_bounds__(threads, blocks), both of them",
        ),
        (
            "__launch_bounds__(384, 1)",
            ("--device-debug",),
            "(C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.",
            "do not compile with -G",
        ),
        (
            "__launch_bounds__(384, 1)",
            ("--relocatable-device-code=true",),
            "(C7504) Potential Performance Loss: 'setmaxnreg' ignored",
            "do not compile with -rdc=true",
        ),
    ],
)
def test_register_budgets_that_are_ignored_fail_the_build(
    bound: str, options: tuple[str, ...], remark: str, remedy: str
) -> None:
    binary = compile_source(
        Source(text=two_budgets(bound, 24, 240), entry="k", options=options, arch="sm_90a")
    )
    with pytest.raises(CompileError) as caught:
        check_remarks(binary.log, "k")
    message = str(caught.value)
    assert message.startswith("[WS0510] ptxas says of kernel `k`: ptxas info")
    assert remark in message
    assert message.endswith(remedy)


def test_products_that_are_serialized_fail_the_build() -> None:
    touched = compile_source(
        Source(text=product(between="sums[3] += 1;"), entry="k", arch="sm_90a")
    )
    with pytest.raises(CompileError, match=r"WS0511\].*C7517.*wait_group is injected.*; await the"):
        check_remarks(touched.log, "k")
    starved = compile_source(
        Source(text=product(), entry="k", options=("--device-debug",), arch="sm_90a")
    )
    with pytest.raises(CompileError, match="C7511.* serialized(.|\n)*; "):
        check_remarks(starved.log, "k")


def test_what_ptxas_takes_as_meant_passes() -> None:
    for text in (two_budgets("__launch_bounds__(384, 1)", 24, 240), product(), SCALE):
        entry = "scale" if text is SCALE else "k"
        check_remarks(compile_source(Source(text=text, entry=entry, arch="sm_90a")).log, entry)


def test_every_remark_is_quoted_once() -> None:
    line = "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are"
    other = "ptxas info    : (C7519) warpgroup.arrive is injected in around line 12"
    with pytest.raises(CompileError) as caught:
        check_remarks(f"{line}\nptxas info    : Used 10 registers\n{line}\n{other}\n", "k")
    assert caught.value.message.count("C7515") == 1
    assert "C7519" in caught.value.message
    assert "scale-d 0" in caught.value.remedy


@pytest.mark.parametrize(
    ("threads", "blocks"), [(384, 1), (512, 1), (544, 1), (640, 1), (256, 2), (160, 2), (352, 2)]
)
def test_a_kernel_with_budgets_enters_with_what_the_arithmetic_says(
    threads: int, blocks: int
) -> None:
    """Unlike other kernels, it enters with all that the bound allows, however little it needs."""
    entry = entry_registers(threads, SM90A.limits, blocks)
    text = two_budgets(f"__launch_bounds__({threads}, {blocks})", 24, entry + 8)
    assert compile_source(Source(text=text, entry="k", arch="sm_90a")).registers == entry
    given_away = two_budgets(f"__launch_bounds__({threads}, {blocks})", 24, None)
    assert compile_source(Source(text=given_away, entry="k", arch="sm_90a")).registers == entry
