"""The CUDA text of each operation of the table: it is well formed, and compiles."""

import pytest

from tests.support.spellings import C_TYPES
from warpsmith.codegen.prelude import PIECES, prelude_text
from warpsmith.errors import InternalError
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE, PointwiseOp
from warpsmith.ops.table.op import wrap
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source


def test_each_argument_stands_once_in_a_spelling() -> None:
    for op in TABLE.values():
        names = tuple(f"argument_{index}" for index in range(op.arity))
        for dtype in op.cuda.dtypes:
            text = op.cuda(dtype, names)
            assert [text.count(name) for name in names] == [1] * op.arity, text


def test_compound_arguments_are_parenthesised() -> None:
    assert wrap("x1") == "x1"
    assert wrap("1.5f") == "1.5f"
    assert wrap("-x") == "(-x)"
    assert TABLE["mul"].cuda(DataType.Float, ("a + b", "-c")) == "((a + b) * (-c))"
    assert TABLE["neg"].cuda(DataType.Index, ("-5",)) == "(-(-5))"


def test_a_type_that_cannot_be_computed_in_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="DataType.Int"):
        TABLE["exp"].cuda(DataType.Int, ("x",))


def test_pieces_exist() -> None:
    for op in TABLE.values():
        assert set(op.pieces) <= set(PIECES)


def kernel_of(ops: list[PointwiseOp], dtype: DataType) -> Source:
    """One kernel that computes all `ops` in one type."""
    ctype = C_TYPES[dtype]
    lines = []
    for index, op in enumerate(ops):
        result = C_TYPES[op.result_dtype(dtype)]
        args = tuple(
            f"flags[i + {at}]" if at < op.conditions else f"in[i + {at}]" for at in range(op.arity)
        )
        lines.append(f"{{ {result} r = {op.cuda(dtype, args)}; (({result}*)out)[{index}] = r; }}")
    body = "\n    ".join(lines)
    text = (
        prelude_text({piece for op in ops for piece in op.pieces})
        + f'extern "C" __global__ void all(const {ctype}* in, const bool* flags, void* out) {{\n'
        + f"    const int i = threadIdx.x;\n    {body}\n}}\n"
    )
    return Source(text=text, entry="all", arch="sm_90a")


@pytest.mark.parametrize("dtype", C_TYPES, ids=lambda dtype: dtype.name)
def test_every_spelling_compiles(dtype: DataType) -> None:
    ops = [op for op in TABLE.values() if dtype in op.cuda.dtypes]
    binary = compile_source(kernel_of(ops, dtype))
    assert binary.cubin
    assert "warning" not in binary.log


def test_float_is_not_computed_in_double() -> None:
    # The library reduces huge angles in double, on a path that other angles do not take.
    ops = [op for op in TABLE.values() if DataType.Float in op.cuda.dtypes]
    source = kernel_of([op for op in ops if op.name not in ("sin", "cos", "tan")], DataType.Float)
    binary = compile_source(source)
    assert ".f64" not in binary.ptx
    assert binary.stack_bytes == 0
