"""CUDA spellings on the simulator, and how their results are judged: what passes, what does not."""

import numpy as np
import pytest

from tests.support.spellings import CASES, ULPS, inputs, judged, kernel_text, reference
from warpsmith.engine.simulated import parameter_bytes
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.ops.table import TABLE, PointwiseOp
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.sim import machine
from warpsmith.sim.program import Program
from warpsmith.sim.ptx import read
from warpsmith.sim.records import pack
from warpsmith.targets.hopper import H200

MOST = 256
"""Elements of a launch: the GPU computes all of them (tests/gpu/test_table.py)."""


@pytest.mark.few(70)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda case: getattr(case, "name", case))
def test_the_meaning_is_right_and_what_is_far_from_it_is_not(name: str, dtype: DataType) -> None:
    op = TABLE[name]
    result = op.result_dtype(dtype)
    args = inputs(op, dtype)
    with np.errstate(all="ignore"):
        right = reference(op, dtype, args).astype(numpy_dtype(result))
    error, wrong = judged(op, dtype, args, right)
    assert (wrong, error <= 0.5) == ("", True)
    off = right.copy()
    usable = np.flatnonzero(np.isfinite(right)) if result.is_float else np.arange(right.size)
    at = usable[0]
    off[at] = not off[at] if result is DataType.Bool else off[at] + 1
    if result.is_float:
        off[at] = right[at] + 1e-2 + abs(right[at]) * np.finfo(right.dtype).eps * 64 * ULPS[result]
    _, wrong = judged(op, dtype, args, off)
    assert wrong.startswith("1 wrong; of (")


@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in CASES}, key=lambda d: d.name))
def test_the_kernel_of_all_operations_compiles_and_computes_their_meanings(dtype: DataType) -> None:
    binary = compile_source(Source(text=kernel_text(dtype), entry="apply", arch="sm_90a"))
    program = read(str(binary.ptx), "apply")
    packed, found = pack(program), {}
    for op in (TABLE[name] for name, own in CASES if own is dtype):
        args = inputs(op, dtype)
        chosen = np.random.default_rng(1).permutation(args[0].size)[:MOST]
        args = [arg[chosen] for arg in args]
        one = launch(op, dtype, args, program, binary.registers)
        done = machine.run_once(one, packed, order=machine.Order.ROUND_ROBIN, seed=0, budget=10**6)
        assert not len(done.findings), op.name
        _, found[op.name] = judged(op, dtype, args, done.arrays["buffer5"])
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def launch(
    op: PointwiseOp, dtype: DataType, args: list[np.ndarray], program: Program, registers: int
) -> machine.Launch:
    """One block, a thread an element; the last buffer is the result."""
    values, size = args[op.conditions :], args[0].size
    values += [values[-1]] * (4 - len(values))
    flags = args[0] if op.conditions else np.zeros(size, bool)
    arrays = (*values, flags, np.zeros(size, numpy_dtype(op.result_dtype(dtype))))
    pointers = map(machine.address_of, range(len(arrays)))
    numbers = [*pointers, list(TABLE).index(op.name), size]
    return machine.Launch(
        program=program,
        grid=(1, 1, 1),
        block=(MOST, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        registers=registers,
        buffers=tuple(machine.Buffer(name=f"buffer{n}", array=a) for n, a in enumerate(arrays)),
        parameters=parameter_bytes(program, "PPPPPPii", numbers),
        target=H200,
    )
