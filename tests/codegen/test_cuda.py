"""CUDA text of every kind of statement and value; NVRTC accepts what the schedulers make."""

from collections.abc import Callable

import pytest

from tests.support.by_hand import kernel_of
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.codegen.cuda import cuda_text
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.nodes import Buffer, Element, Statement
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.pipeline import lower
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.schedule.caches import cache_before
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.transforms import parallelize
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

N, M = (Symbol(name, low=0) for name in "nm")
X = Symbol("x", DataType.Float)

VALUES: tuple[tuple[Expr, str], ...] = (
    (Const(True, DataType.Bool), "true"),
    (Const(3), "3"),
    (Const(float("inf"), DataType.Double), "__longlong_as_double(0x7ff0000000000000ll)"),
    (Const(1e300, DataType.Float), "(__int_as_float(0x7f800000))"),
    (Const(-1e39, DataType.Half), "(-__int_as_float(0x7f800000))"),
    (Const(3.4e38, DataType.Float), "3.4e+38f"),
    (Const(-1e-300, DataType.Float), "-0.0f"),
    (Const(1e-45, DataType.Float), "1e-45f"),
    (integers.add(N, integers.mul(M, 4)), "n + m * 4"),
    (integers.floordiv(N, M), "/"),
    (integers.mod(N, M), "%"),
    (integers.minimum(N, M), "n < m ? n : m"),
    (integers.maximum(N, M), "n > m ? n : m"),
    (integers.conjunction(integers.less(N, M), integers.less(N, 4)), "&&"),
    (Apply("eq", (N, integers.ZERO), DataType.Bool), "n == 0"),
    (Apply("cast", (N,), DataType.Float), "(float)(n)"),
    (Apply("mul", (X, X), DataType.Float), "x * x"),
    (Apply("where", (integers.less(N, 4), X, X), DataType.Float), "?"),
)


@pytest.mark.parametrize(("expr", "part"), VALUES)
def test_values(expr: Expr, part: str) -> None:
    assert part in ValueText(DataType.Int32)(expr)


def test_sums_and_products_of_indices_with_numbers_of_the_call_are_whole() -> None:
    """Whatever comes first: a factor was lost behind a number of another integer type."""
    size, lane = Symbol("S1", DataType.Int), Symbol("x1")
    for op, text in (("mul", "S1 * x1 * (-1)"), ("add", "S1 + x1 + (-1)")):
        assert ValueText(DataType.Int32)(Apply(op, (size, lane, Const(-1)), DataType.Index)) == text


@pytest.mark.parametrize(
    ("index_type", "name"), [(DataType.Int32, "int"), (DataType.Int, "long long")]
)
def test_width_of_indices(index_type: DataType, name: str) -> None:
    text = ValueText(index_type)
    assert text.type_name(DataType.Index) == name
    assert text(integers.floordiv(N, M)).startswith(f"({name})((unsigned {name})")


def test_halves_meet_integers_by_way_of_float() -> None:
    text = ValueText(DataType.Int32)
    half = Symbol("h", DataType.Half)
    assert text(Apply("cast", (half,), DataType.Int)) == "(long long)((float)(h))"
    count = Symbol("c", DataType.Int)
    assert text(Apply("cast", (count,), DataType.BFloat16)) == "(ws_bfloat16)((float)(c))"
    assert "bfloat16" in text.pieces


class Unknown(Expr):
    __slots__ = ()

    def __repr__(self) -> str:
        return "unknown"


def test_what_cannot_be_printed() -> None:
    with pytest.raises(InternalError, match="unknown cannot be printed"):
        ValueText(DataType.Int32)(Unknown())
    with pytest.raises(InternalError, match="Statement has no CUDA text: .* in codegen/"):
        cuda_text(kernel_with(body=(Statement(),)), H200)


def kernel_with(body: tuple[Statement, ...] = (), shared: tuple[Buffer, ...] = ()) -> Kernel:
    return lay_out_shared(kernel_of(*body, shared=shared))


def test_shared_buffers_start_at_multiples_of_16_bytes() -> None:
    def shared(name: str, dtype: DataType, size: Expr) -> Buffer:
        return Buffer(name, dtype, MemoryType.shared, size)

    kernel = kernel_with(
        shared=(
            shared("A", DataType.Half, integers.index(3)),
            shared("B", DataType.Float, N),
            shared("C", DataType.Bool, integers.index(1)),
        )
    )
    for n in (1, 4, 5):
        places = list(layout_of(kernel).starts({"n": n}).values())
        assert places == [0, 16, 16 + (4 * n + 15) // 16 * 16]
        assert evaluate(layout_of(kernel).bytes, {"n": n}) == places[-1] + 16


def test_element_of_a_buffer() -> None:
    buffer = Buffer("T1", DataType.Float, MemoryType.global_, N)
    assert ValueText(DataType.Int32)(Element(buffer, integers.add(N, 1))) == "T1[n + 1]"


def every_type() -> Program:
    p = Program()
    total = p.input(DataType.Float, (None, None))
    kinds = (DataType.Double, DataType.Half, DataType.BFloat16, DataType.Int32, DataType.Int)
    for dtype in kinds:
        total = p.op("add", total, p.cast(p.input(dtype, (None, None)), DataType.Float))
    keep = p.input(DataType.Bool, (None, None))
    return p.output(*(p.cast(p.op("where", keep, total, total), dtype) for dtype in kinds))


def transposed() -> Program:
    p = Program()
    return p.output(p.permute(p.input(DataType.BFloat16, (None, None)), (1, 0)))


def summed(*dims: int) -> Callable[[], Program]:
    def make() -> Program:
        p = Program()
        x = p.cast(p.input(DataType.Half, (None, None)), DataType.Float)
        p.output(*(p.reduce(op, x, dims) for op in ("sum", "prod", "max", "min")))
        return p.output(*p.welford(x, dims))

    return make


@pytest.mark.few(3)
@pytest.mark.parametrize("index_type", [DataType.Int32, DataType.Int])
@pytest.mark.parametrize(
    "make",
    [every_type, transposed, summed(0), summed(1), summed(0, 1)],
    ids=["types", "transposed", "columns", "rows", "all"],
)
def test_nvrtc_accepts_it(make: Callable[[], Program], index_type: DataType) -> None:
    fusion = make().fusion
    values = {
        f"{t.name}_size{d}": size for t in fusion.input_tensors for d, size in enumerate((512, 256))
    }
    candidate = select(fusion, H200)
    params, _ = candidate.choose(Problem(values=values, alignment={}, target=H200))
    kernel = lower(candidate.scheduled(params), "test", index_type, target=H200)
    binary = compile_source(Source(text=cuda_text(kernel, H200), entry="test", arch="sm_90a"))
    assert binary.spill_bytes == 0
    assert 0 < binary.registers <= 255


@pytest.mark.parametrize("op", ["sum", "max", "prod", "min"])
def test_a_block_reduction_brings_its_operation(op: str) -> None:
    """Nothing else in the kernel names it: each thread has one element."""
    p = Program()
    p.output(p.reduce(op, p.input(DataType.Float, (None, 32)), (1,)))
    (output,) = p.fusion.outputs
    total = cache_before(output.value)
    parallelize(total, 0, ParallelType.grid_x)
    parallelize(total, 1, ParallelType.block_x)
    parallelize(output.value, 0, ParallelType.grid_x)
    inline_most(p.fusion)
    kernel = lowered(p)
    assert (
        compile_source(Source(text=cuda_text(kernel, H200), entry="k", arch="sm_90a")).registers > 0
    )
