"""Matrix products give PyTorch's types, shapes and values, and refuse what PyTorch refuses."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.against_torch import DTYPES, FLOAT8S, TORCH, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.tensor import Operation
from warpsmith.ops.evaluate import evaluate

HALF, BFLOAT, FLOAT = DataType.Half, DataType.BFloat16, DataType.Float
TYPES = (HALF, BFLOAT, FLOAT)
ALL = (*(dtype for dtype in DTYPES if dtype is not DataType.Bool), *FLOAT8S)

MATRICES = (
    ((3, 5), (5, 4)),
    ((1, 5), (5, 4)),
    ((3, 5), (5, 1)),
    ((3, 1), (1, 4)),
    ((3, 0), (0, 4)),
    ((0, 5), (5, 4)),
    ((2, 3, 5), (2, 5, 4)),
    ((2, 3, 5), (5, 4)),
    ((3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (7, 5, 4)),
    ((2, 1, 3, 1), (7, 1, 4)),
)
VECTORS = (
    ((5,), (5,)),
    ((1,), (1,)),
    ((5,), (5, 4)),
    ((3, 5), (5,)),
    ((5,), (2, 5, 3)),
    ((2, 4, 5), (5,)),
)
LAYERS = (
    ((3, 5), (4, 5), (4,)),
    ((2, 3, 5), (4, 5), (4,)),
    ((5,), (4, 5), (4,)),
    ((3, 1), (4, 1), (4,)),
    ((3, 5), (1, 5), (1,)),
    ((3, 5), (4, 5), (1,)),
)


def wide(x: torch.Tensor, *, sums: bool = False) -> torch.Tensor:
    """The operand in the type of its products, or with `sums` in that of their sums."""
    if x.dtype in (torch.int8, torch.uint8) or (sums and x.dtype is torch.int16):
        return x.int()
    narrow = (torch.float16, torch.bfloat16) if sums else ()
    return x.float() if x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2, *narrow) else x


def widened(peer: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's product of operands in the type of the result; its own of bytes are bytes."""
    return lambda *given: peer(*map(wide, given))


def products(fd: FusionDefinition) -> list[Matmul]:
    return [op for op in fd.fusion.operations if isinstance(op, Matmul)]


@pytest.mark.few(48)
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shapes", MATRICES + VECTORS, ids=str)
def test_matmul(shapes: tuple[Any, Any], dtype: DataType, static: bool) -> None:
    check(
        ops.matmul,
        widened(torch.matmul),
        *(random(s, dtype, i) for i, s in enumerate(shapes)),
        static=static,
    )


@pytest.mark.few(27)
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shapes", LAYERS, ids=str)
def test_linear(shapes: tuple[Any, ...], dtype: DataType) -> None:
    x, weight, bias = (random(shape, dtype, seed) for seed, shape in enumerate(shapes))
    peer = widened(torch.nn.functional.linear)
    check(ops.linear, peer, x, weight)
    check(ops.linear, peer, x, weight, wide(bias))


@pytest.mark.few(30)
@pytest.mark.parametrize("dtype", [*DTYPES, *FLOAT8S], ids=str)
@pytest.mark.parametrize("given", ALL, ids=str)
def test_results_in_any_type(given: DataType, dtype: DataType) -> None:
    """A sum is rounded once, from Float, Double, or integers that wrap."""
    for shapes in (((3, 5), (5, 4)), ((5,), (5, 4)), ((3, 1), (1, 4))):
        a, b = (random(shape, given, seed) for seed, shape in enumerate(shapes))
        check(
            lambda x, y: ops.matmul(x, y, dtype=dtype),
            lambda x, y: (wide(x, sums=True) @ wide(y, sums=True)).to(TORCH[dtype]),
            a,
            b,
        )


def test_both_8_bit_floats_may_meet() -> None:
    a, b = (random((4, 4), dtype, seed) for seed, dtype in enumerate(FLOAT8S))
    for x, y in ((a, b), (b, a), (a[0], b), (a[0], b[0]), (a[:, :1], b[:1])):
        check(ops.matmul, widened(torch.matmul), x, y)
    check(ops.linear, widened(torch.nn.functional.linear), a, b)


def test_int8_is_summed_without_wrapping() -> None:
    x = torch.full((2, 1000), -128, dtype=torch.int8)
    check(lambda t: t @ t.transpose(0, 1), lambda t: t.int() @ t.int().T, x)
    check(
        lambda t: ops.matmul(t, t.sum(0, dtype=DataType.Int8) - 127),
        lambda t: (-127 * t.int()).sum(1, dtype=torch.int32),
        x,
    )


def test_linear_of_a_vector_of_weights() -> None:
    x, weight = random((2, 3, 5), FLOAT), random((5,), FLOAT, 1)
    check(ops.linear, torch.nn.functional.linear, x, weight)
    bias = torch.tensor(2.0)
    check(ops.linear, lambda x, w, b: x @ w + b, x, weight, bias)


extents = st.integers(1, 6)


@st.composite
def operands(draw: Any) -> tuple[np.ndarray, np.ndarray, DataType]:
    """Two arrays of shapes that have a product, of any reals."""
    dtype = draw(st.sampled_from(TYPES))
    batches = draw(st.lists(extents, max_size=2))
    m, n, k = (draw(extents) for _ in range(3))
    shapes = []
    for tail in ((m, k), (k, n)):
        kept = batches[draw(st.integers(0, len(batches))) :]
        shapes.append((*(draw(st.sampled_from((1, extent))) for extent in kept), *tail))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = {HALF: np.float16, BFLOAT: ml_dtypes.bfloat16, FLOAT: np.float32}[dtype]
    a, b = (rng.uniform(-2, 2, shape).astype(kind) for shape in shapes)
    return a, b, dtype


@settings(max_examples=150, deadline=None)
@given(operands(), st.booleans())
def test_sums_are_as_close_as_float_and_one_rounding_allow(
    given: tuple[np.ndarray, np.ndarray, DataType], static: bool
) -> None:
    a, b, dtype = given
    with FusionDefinition() as fd:
        shapes = [[e if static or e == 1 else -1 for e in array.shape] for array in (a, b)]
        x, y = (fd.define_tensor(shape, dtype=dtype) for shape in shapes)
        fd.add_output(ops.matmul(x, y))
    (found,) = evaluate(fd.fusion, [a, b])
    (precise,) = evaluate(fd.fusion, [a, b], precise=True)
    wide = a.astype(np.float64), b.astype(np.float64)
    wanted, size = np.matmul(*wide), np.matmul(*map(np.abs, wide))
    np.testing.assert_allclose(precise, wanted, rtol=0, atol=1e-14)
    assert (found.dtype, found.shape) == (a.dtype, wanted.shape)
    rounding = {HALF: 2.0**-11, BFLOAT: 2.0**-8, FLOAT: 0.0}[dtype]
    smallest = 2.0**-24  # half's rounding is absolute below its normal numbers
    bound = size * (a.shape[-1] + 1) * 2.0**-24 * 2 + np.abs(wanted) * rounding * 1.01 + smallest
    assert np.all(np.abs(found.astype(np.float64) - wanted) <= bound)


def test_sums_are_kept_in_float() -> None:
    """In half, 2048 + 1 is 2048; what reads the product reads it before it is rounded."""
    a, b = torch.ones(1, 4097, dtype=torch.half), torch.ones(4097, 2, dtype=torch.half)
    rounded, exact = results(lambda a, b: (ops.matmul(a, b), ops.matmul(a, b) - 4096), a, b)
    assert rounded.tolist() == [[4096, 4096]]
    assert exact.tolist() == [[1, 1]]


def test_operands_are_rounded() -> None:
    """Tensor cores read 16 bits, so 2049 comes as 2048, though pointwise operations keep it."""
    x, one = torch.full((2, 3), 2048.0, dtype=torch.half), torch.eye(3, dtype=torch.half)
    (found,) = results(lambda x, i: ops.matmul(x + 1, i) - 2048, x, one)
    assert not found.any()


def _form(operation: Operation) -> str:
    return operation.op if isinstance(operation, Pointwise) else type(operation).__name__


def test_a_product_is_one_operation_and_a_cast() -> None:
    fd = defined(ops.matmul, random((3, 5), BFLOAT), random((5, 4), BFLOAT))
    assert [_form(op) for op in fd.fusion.operations] == ["Matmul", "cast"]
    (product,) = products(fd)
    assert product.output.dtype is FLOAT
    assert [axis.kind.value for axis in product.output.root] == ["i", "i", "r"]
    assert product.axes == ((0, 2), (2, 1))


def test_linear_reads_the_weight_as_it_lies() -> None:
    fd = defined(ops.linear, random((2, 3, 5), HALF), random((4, 5), HALF), random((4,), HALF))
    assert [_form(op) for op in fd.fusion.operations if _form(op) != "Move"] == [
        "Matmul",
        "cast",  # of the product, which nothing reads
        "cast",  # of the bias
        "add",
        "cast",
    ]
    assert products(fd)[0].axes == ((0, 1, 3), (2, 3))


def test_a_tensor_times_itself_is_read_through_a_copy() -> None:
    x = random((3, 3), FLOAT)
    check(lambda t: ops.matmul(t, t), lambda t: t @ t, x)
    fd = defined(lambda t: ops.matmul(t, t), x)
    (product,) = products(fd)
    assert product.a is not product.b
    assert [_form(op) for op in fd.fusion.operations] == ["set", "Matmul"]


@pytest.mark.parametrize(
    "shapes", [*VECTORS, ((3, 1), (1, 4)), ((1, 5), (5, 4)), ((2, 3, 5), (2, 5, 1))], ids=str
)
def test_nothing_is_left_to_tensor_cores_without_sums_of_matrices(
    shapes: tuple[Any, Any],
) -> None:
    fd = defined(ops.matmul, *(random(shape, HALF) for shape in shapes))
    assert not products(fd)


@pytest.mark.parametrize(
    ("shapes", "op", "code", "said"),
    [
        (((), (3,)), "matmul", "WS0143", "matmul got T0, which has no dimensions"),
        (((3,), ()), "linear", "WS0143", "linear got T1, which has no dimensions"),
        (((2, 3), (4, 3, 3)), "linear", "WS0143", "the weight T1 of 3 dimensions"),
        (((2, 3), (4, 5)), "matmul", "WS0144", "dimension 1 of T0 has extent 3 and dimension 0"),
        (((2, 3), (4,)), "matmul", "WS0144", "dimension 1 of T0 has extent 3 and dimension 0"),
        (((2, 1), (4, 5)), "matmul", "WS0144", "has extent 1 and dimension 0 of T1 has 4"),
        (((1,), (4, 5)), "matmul", "WS0144", "dimension 0 of T0 has extent 1"),
        (((2, 3), (3, 4)), "linear", "WS0144", "dimension 1 of T1 has 4"),
        (((2, 2, 3), (4, 3, 5)), "matmul", "WS0144", "dimension 0 of T0 has extent 2 and"),
    ],
    ids=str,
)
def test_shapes_without_a_product(shapes: tuple[Any, Any], op: str, code: str, said: str) -> None:
    given = [random(shape, FLOAT) for shape in shapes]
    peer = torch.matmul if op == "matmul" else torch.nn.functional.linear
    with pytest.raises(RuntimeError):
        peer(*given)
    with pytest.raises(DefinitionError, match=said) as error:
        defined(getattr(ops, op), *given, static=True)
    assert error.value.code == code


def test_a_sum_over_1_does_not_meet_a_symbolic_one() -> None:
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([-1, 1]), fd.define_tensor([-1, 4])
        with pytest.raises(DefinitionError, match="none is broadcast"):
            ops.matmul(x, y)


@pytest.mark.parametrize(
    ("types", "code", "said"),
    [
        ((HALF, FLOAT), "WS0142", "T0 of type Half and T1 of type Float"),
        ((HALF, BFLOAT), "WS0142", "products do not promote"),
        ((DataType.Int, DataType.Int32), "WS0142", "T0 of type Int and T1 of type Int32"),
        ((FLOAT, DataType.Float8_e5m2), "WS0142", "T0 of type Float and T1 of type Float8_e5m2"),
        ((DataType.Bool, DataType.Bool), "WS0118", "does not take operands of type Bool"),
        ((DataType.Bool, DataType.Bool), "WS0118", "cast to one of Double, Float, Half, BFloat16"),
    ],
)
def test_types_without_a_product(types: tuple[DataType, DataType], code: str, said: str) -> None:
    for op in (ops.matmul, ops.linear):
        with pytest.raises(DefinitionError, match=said) as error:
            defined(op, *(random((3, 3), dtype) for dtype in types))
        assert error.value.code == code


@pytest.mark.parametrize(
    ("bias", "weight", "code", "said"),
    [
        (random((4,), HALF), (4, 5), "WS0142", "T2 of type Half to a product of type Float"),
        (random((3, 4), FLOAT), (4, 5), "WS0143", "the bias T2 of 2 dimensions"),
        (random((4,), FLOAT), (5,), "WS0143", "the weight T1 of 1"),
        (random((3,), FLOAT), (4, 5), "WS0121", "has extent"),
        (random((3,), FLOAT), (1, 5), "WS0144", "the bias T2 has extent 3"),
    ],
)
def test_biases_that_do_not_fit(
    bias: torch.Tensor, weight: tuple[int, ...], code: str, said: str
) -> None:
    with pytest.raises(DefinitionError, match=said) as error:
        defined(ops.linear, random((3, 5), FLOAT), random(weight, FLOAT), bias, static=True)
    assert error.value.code == code


def test_tf32_is_kept_for_kernels_and_means_the_exact_product() -> None:
    a, b = random((3, 5), FLOAT), random((5, 4), FLOAT, 1)
    for function, right in ((ops.matmul, b), (ops.linear, b.T.contiguous())):
        asked = lambda x, y, f=function: f(x, y, precision="tf32")  # noqa: E731
        check(asked, lambda x, y: a @ b, a, right)
        assert [op.precision for op in products(defined(asked, a, right))] == ["tf32"]
        assert [op.precision for op in products(defined(function, a, right))] == ["exact"]


@pytest.mark.parametrize(
    ("dtype", "precision", "said"),
    [
        (FLOAT, "high", r"WS0147.*matmul got precision 'high'; it is one of 'exact', 'tf32', 'fa"),
        (
            HALF,
            "fast",
            r"WS0147.*'fast' for operands of type Half; it sums 8-bit floats with fewer",
        ),
        (HALF, "tf32", r"WS0147.*'tf32' for operands of type Half; it rounds operands of type Fl"),
    ],
)
def test_other_precisions_are_refused(dtype: DataType, precision: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        defined(lambda x: ops.matmul(x, x, precision=precision), random((3, 3), dtype))


def test_a_result_has_a_type_of_tensors() -> None:
    with pytest.raises(DefinitionError, match="WS0117.*matmul got dtype Index"):
        defined(lambda x: ops.matmul(x, x, dtype=DataType.Index), random((3, 3), HALF))


def test_scalars_and_arrays_are_no_operands() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 4])
    with pytest.raises(DefinitionError, match="needs a tensor"):
        ops.matmul(x, 2.0)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(DefinitionError, match="type ndarray"):
        ops.matmul(np.ones((3, 3)), x)  # type: ignore[arg-type]  # that is the point
