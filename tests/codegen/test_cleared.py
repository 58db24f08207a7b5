"""Registers that nothing is loaded into: zero where a kernel branches on numbers."""

import re
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.machine_code import machine_lines
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.codegen import cuda
from warpsmith.codegen.cleared import STRAIGHT
from warpsmith.codegen.prelude import prelude_text
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError, SimulationError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.nodes import Buffer, Element
from warpsmith.ops.table import TABLE
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source

NUMBERS = (DataType.Float, DataType.Int, DataType.Int32, DataType.Bool)
STORED = (*NUMBERS, DataType.BFloat16, DataType.Half, DataType.Float8_e4m3fn, DataType.Float8_e5m2)


def element(dtype: DataType, number: int) -> Element:
    return Element(Buffer(f"x{number}", dtype, MemoryType.local, integers.ONE), integers.ZERO)


def computed(dtype: DataType) -> Iterator[Expr]:
    """All that is said to be straight, of numbers of a type."""
    flags = [element(DataType.Bool, 10 + number) for number in range(3)]
    for name in sorted(STRAIGHT & TABLE.keys()):
        op = TABLE[name]
        if op.compute_dtype(dtype) is dtype:
            own = [element(dtype, number) for number in range(op.arity - op.conditions)]
            yield Apply(name, (*flags[: op.conditions], *own), op.result_dtype(dtype))
    if dtype is DataType.Float:
        yield Apply("divide_full", (element(dtype, 0), element(dtype, 1)), dtype)
        yield Apply("exp_near", (element(dtype, 0),), dtype)
        yield Apply("nearest_int", (element(dtype, 0),), DataType.Int32)


def casts() -> Iterator[Expr]:
    for number, source in enumerate(STORED):
        for dtype in STORED:
            if dtype is not source:
                yield Apply("cast", (element(source, 20 + number),), dtype)


def kernel_text(exprs: Iterator[Expr]) -> str:
    """Each thread computes one element of each expression."""
    value = ValueText(DataType.Int32)
    loads: dict[str, str] = {}
    parameters: list[str] = []
    stores: list[str] = []
    for number, expr in enumerate(exprs):
        try:
            text = value(expr)
        except InternalError:
            continue  # it cannot be computed in this type
        for node in expr.walk():
            if isinstance(node, Element) and node.buffer.name not in loads:
                name, kind = node.buffer.name, value.type_name(node.buffer.dtype)
                parameters.append(f"const {kind}* from_{name}")
                loads[name] = f"const {kind} {name} = from_{name}[threadIdx.x];"
        parameters.append(f"{value.type_name(expr.dtype)}* to{number}")
        stores.append(f"to{number}[threadIdx.x] = {text};")
    body = "\n".join([*loads.values(), *stores])
    return (
        f"{prelude_text(value.pieces)}\n"
        f'extern "C" __global__ void k({", ".join(parameters)}) {{\n{body}\n}}\n'
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [*NUMBERS, None], ids=lambda d: d.value if d else "casts")
def test_what_is_straight_has_no_branch(dtype: DataType | None) -> None:
    text = kernel_text(casts() if dtype is None else computed(dtype))
    assert text.count("[threadIdx.x] = ") >= (4 if dtype is DataType.Bool else 12)
    binary = compile_source(Source(text=text, entry="k", arch="sm_90a"))
    assert not re.search(r"\b(bra|brx|call)\b", binary.ptx)
    jumps = re.findall(r"\b(?:BSSY|CALL|BRX|BRA)\b", "\n".join(machine_lines(binary.cubin)))
    assert jumps in ([], ["BRA"])  # behind the end, to itself


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("log", DataType.Double),
        ("log", DataType.Float),
        ("erf", DataType.Float),
    ],
)
def test_no_thread_branches_on_what_it_did_not_load(
    monkeypatch: pytest.MonkeyPatch, op: str, dtype: DataType
) -> None:
    """28 threads of the fourth warp load nothing."""
    x = np.linspace(1, 2, 100).astype(NUMPY_DTYPES[dtype.value])

    def run() -> np.ndarray:
        with FusionDefinition() as fd:
            given = fd.define_tensor([-1], True, dtype)
            fd.add_output(getattr(fd.ops, op)(given))
        with knobs.scope(device="sim"):
            (found,) = fd.execute([x])
        return np.asarray(found)

    run()
    monkeypatch.setattr(cuda, "cleared", lambda body: frozenset())
    with pytest.raises(SimulationError, match="guard of an instruction holds bits that nobody"):
        run()


def test_registers_of_one_name_may_begin_otherwise_in_another_loop() -> None:
    """Full passes begin with zeros, the last one under a condition, behind which it takes tanh."""
    x = np.linspace(-2, 2, 256, dtype=np.float32).reshape(1, 1, 256)
    with FusionDefinition() as fd:
        given = fd.define_tensor([1, -1, -1], True, DataType.Float)
        both = fd.ops.cat([given, fd.ops.tanh(given)], 2)
        fd.add_output(fd.ops.cast(fd.ops.any(fd.ops.gt(both, 1), [2]), DataType.Float))
    with knobs.scope(device="sim"):
        (found,) = fd.execute([x])
    np.testing.assert_array_equal(found, [[1.0]])
