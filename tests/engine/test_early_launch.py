"""Which kernels of a call start early, and that the compiler keeps what they wait for behind."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.fake_driver import no_kernels_loaded
from warpsmith import knobs, ops
from warpsmith.engine import launches
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.executable import Executable
from warpsmith.engine.loaded import Loaded
from warpsmith.errors import ProtocolError, SimulationError
from warpsmith.frontends.lowered import Compiled
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious
from warpsmith.runtime import arrays
from warpsmith.runtime.launch_kinds import LaunchKind

BFLOAT16 = arrays.NUMPY_DTYPES["bfloat16"]
TOUCHES = re.compile(r"\b(LDG|STG|LD|ST|ATOMG?|RED|LDGSTS|UBLKCP|UTMA(?!CCTL)\w+)\b")
"""What machine code reaches global memory by, but for arguments such as tensor maps (`UTMACCTL`);
`ACQBULK` is the wait and `PREEXIT` the admission."""


def gradients(x: Any, dy: Any, weight: Any, scale: Any) -> Any:
    """RMSNorm backward: rows beside sums of columns, two kernels."""
    wide, given = x.to(DataType.Float), dy.to(DataType.Float)
    normal, weighted = wide * scale, given * weight
    dx = (weighted - normal * ops.mean(weighted * normal, [-1], keepdim=True)) * scale
    return dx.to(x.dtype), ops.sum(given * normal, [0]).to(x.dtype)


def product(x: Any, w: Any) -> Any:
    """Of two computed operands one is stored: the TMA unit reads what the first kernel writes."""
    return ops.linear(ops.exp(x), ops.exp(w))


def across_blocks(x: Any) -> Any:
    """Sums of columns and of everything, across blocks, that are needed again: three kernels."""
    centred = x - ops.sum(x, [0], keepdim=True)
    squares = centred * centred
    return ops.sum(squares - ops.sum(squares, [0, 1], keepdim=True), [0])


def given(*shapes: tuple[int, ...], dtype: Any = BFLOAT16) -> list[Any]:
    rng = np.random.default_rng(len(shapes))
    return [(rng.standard_normal(shape) / 4).astype(dtype) for shape in shapes]


CALLS = {
    "norm backward": (gradients, [*given((40, 64), (40, 64), (64,)), *given((40, 1), dtype="f4")]),
    "product": (product, given((128, 64), (128, 64))),
    "across blocks": (across_blocks, given((4000, 8), dtype="f4")),
}


def compiled(name: str) -> Compiled:
    function, inputs = CALLS[name]
    return warpsmith.fuse(function).lower(*inputs).compile()


def counted(kernel: Kernel, kind: type) -> int:
    return sum(isinstance(statement, kind) for statement in kernel.body)


@pytest.mark.parametrize(("name", "count"), list(zip(CALLS, (2, 2, 3), strict=True)))
def test_all_but_the_first_start_early_and_all_but_the_last_admit_the_next(
    name: str, count: int
) -> None:
    made = compiled(name)
    kernels = [each.kernel for each in made.kernels]
    assert len(kernels) == count
    assert [kernel.early for kernel in kernels] == [False] + [True] * (count - 1)
    assert [counted(kernel, AwaitPrevious) for kernel in kernels] == [0] + [1] * (count - 1)
    assert [counted(kernel, AdmitNext) for kernel in kernels] == [1] * (count - 1) + [0]
    assert made.explain().count("starts      while the kernel before it ends") == count - 1


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_touched_before_the_wait_in_what_was_compiled(name: str) -> None:
    for kernel in compiled(name).kernels:
        ptx, cuda = str(kernel.asm["ptx"]), str(kernel.asm["cuda"])
        assert ptx.count("griddepcontrol.wait;") == kernel.kernel.early
        assert ptx.count("griddepcontrol.launch_dependents;") == counted(kernel.kernel, AdmitNext)
        operations = machine_code(kernel)
        assert operations.count("PREEXIT") == counted(kernel.kernel, AdmitNext)
        if kernel.kernel.early:
            start = cuda[cuda.index('extern "C"') :]
            assert "__restrict__" not in start
            assert "ld.global.nc" not in ptx[ptx.index(".entry") :]
            assert operations.count("ACQBULK") == 1
            assert not list(filter(TOUCHES.match, operations[: operations.index("ACQBULK")]))
            assert any(map(TOUCHES.match, operations))


def machine_code(kernel: CompiledKernel) -> list[str]:
    """Operations in the order in which they lie: waits stand before all loops and branches."""
    lines = re.findall(
        r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\S+)", str(kernel.asm["sass"]), re.M
    )
    assert len(lines) > 20
    return lines


@pytest.mark.parametrize("name", ["norm backward", "across blocks"])
def test_the_simulator_finds_them_right(name: str) -> None:
    function, inputs = CALLS[name]
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(function)(*inputs)
    with knobs.scope(device="sim", early_launch=False):
        plain = warpsmith.fuse(function)(*inputs)
    both = (found, plain) if isinstance(found, tuple) else ((found,), (plain,))
    for early, late in zip(*both, strict=True):
        assert np.array_equal(np.asarray(early), np.asarray(late))


def test_the_knob_forbids_it_and_changes_kernels_and_plans() -> None:
    function, inputs = CALLS["norm backward"]
    fused = warpsmith.fuse(function).lower(*inputs)
    early = fused.compile()
    late = fused.compile(knobs.current().replace(early_launch=False))
    assert not any(kernel.kernel.early for kernel in late.kernels)
    assert not any("griddepcontrol" in str(kernel.asm["ptx"]) for kernel in late.kernels)
    assert "starts " not in late.explain()
    names = {kernel.name for kernel in (*early.kernels, *late.kernels)}
    assert len(names) == 4
    with knobs.scope(early_launch=True):
        plan = knobs.scoped_plan()
    with knobs.scope(early_launch=False):
        assert knobs.scoped_plan() != plan


def test_the_driver_is_asked_for_all_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Recorder:
        def __init__(self, *_: object, kind: LaunchKind) -> None:
            asked.append(kind is LaunchKind.EARLY)

    monkeypatch.setattr("warpsmith.engine.watched.LoadedKernel", Recorder)
    function, inputs = CALLS["across blocks"]
    fused = warpsmith.fuse(function).lower(*inputs)
    for knob, wanted in ((True, [False, True, True]), (False, [False] * 3)):
        call = Executable(fused.fusion).plan_for(inputs, knobs.current().replace(early_launch=knob))
        asked.clear()
        no_kernels_loaded(monkeypatch)
        for launch in call.launches:
            Loaded(launch, 0)
        assert asked == wanted


def test_the_first_launch_is_a_plain_one_even_of_a_kernel_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the first kernel has nothing to compute, the second one comes first."""
    launch = launches._launch
    monkeypatch.setattr(
        launches, "_launch", lambda n, part, *rest: launch(n, part, *rest) if part.follows else None
    )
    monkeypatch.setattr(launches, "unwritten_of", lambda *call: ())
    made = compiled("across blocks")
    assert [kernel.kernel.early for kernel in made.kernels] == [True, True]
    assert made.explain().count("starts      while") == 1


def test_one_kernel_alone_neither_waits_nor_admits() -> None:
    made = warpsmith.fuse(lambda x: x * 2.0).lower(*given((4, 8), dtype="f4")).compile()
    (kernel,) = made.kernels
    assert "griddepcontrol" not in str(kernel.asm["ptx"])


def test_a_kernel_that_does_not_wait_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "warpsmith.lower.pipeline.start_early", lambda kernel, settled: replace(kernel, early=True)
    )
    with pytest.raises(ProtocolError, match="is touched before the wait") as failure:
        compiled("norm backward")
    assert failure.value.code == "WS0918"


def test_the_simulator_misses_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody proved anything before."""
    monkeypatch.setattr(
        "warpsmith.lower.pipeline.start_early", lambda kernel, settled: replace(kernel, early=True)
    )
    function, inputs = CALLS["norm backward"]
    with (
        knobs.scope(device="sim", verify="off"),
        pytest.raises(SimulationError, match=r"early-access(.|\n)*before griddepcontrol.wait"),
    ):
        warpsmith.fuse(function)(*inputs)
