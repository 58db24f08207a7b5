"""Products under PyTorch's other names have its shapes and values, and refuse what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.ops.test_matmul import ALL, wide, widened
from tests.support.against_torch import TORCH, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import ArgumentError, DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.fuse import fuse
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul
from warpsmith.knobs import scope

HALF, FLOAT, DOUBLE, INT32 = DataType.Half, DataType.Float, DataType.Double, DataType.Int32

SHAPES: dict[str, list[tuple[tuple[int, ...], ...]]] = {
    "bmm": [
        *(((2, 3, 5), (2, 5, 4)), ((1, 3, 5), (1, 5, 4)), ((2, 1, 5), (2, 5, 1))),
        *(((2, 3, 1), (2, 1, 4)), ((0, 3, 5), (0, 5, 4)), ((2, 3, 0), (2, 0, 4))),
    ],
    "mv": [((3, 5), (5,)), ((1, 5), (5,)), ((3, 1), (1,)), ((3, 0), (0,)), ((0, 5), (5,))],
    "dot": [((5,), (5,)), ((1,), (1,)), ((0,), (0,))],
    "outer": [((3,), (4,)), ((1,), (4,)), ((3,), (1,)), ((0,), (4,)), ((1,), (1,))],
}
ADDENDS = [(3, 4), (4,), (1, 4), (3, 1), (1,), (), (1, 1)]


@pytest.mark.few(30)
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_products(name: str, dtype: DataType, static: bool) -> None:
    peer = getattr(torch, name)
    for shapes in SHAPES[name]:
        given = [random(shape, dtype, seed) for seed, shape in enumerate(shapes)]
        # Nothing is summed by `outer`, which therefore has the types of `mul`.
        expected = outer if name == "outer" else widened(peer)
        check(getattr(ops, name), expected, *given, static=static)


def outer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """PyTorch's, which refuses some of 8-bit floats: those it rounds, too."""
    return torch.outer(wide(a, sums=True), wide(b, sums=True)).to(a.dtype)


def summed(dtype: DataType) -> DataType:
    return INT32 if dtype.is_byte else FLOAT if dtype.is_float8 else dtype


@pytest.mark.few(30)
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", ADDENDS, ids=str)
def test_addmm_and_baddbmm(shape: tuple[int, ...], dtype: DataType) -> None:
    given = random(shape, summed(dtype), 2)
    a, b = random((3, 5), dtype), random((5, 4), dtype, 1)
    batches = random((2, 3, 5), dtype), random((2, 5, 4), dtype, 1)
    for beta, alpha in ((1, 1), (2, 3), (0, 2), (2, 0), (0, 0)):
        check(
            lambda x, y, z: ops.addmm(x, y, z, beta, alpha),  # noqa: B023  # called at once
            widened(lambda x, y, z: torch.addmm(x, y, z, beta=beta, alpha=alpha)),  # noqa: B023
            *(given, a, b),
        )
        check(
            lambda x, y, z: ops.baddbmm(x, y, z, beta=beta, alpha=alpha),  # noqa: B023
            widened(lambda x, y, z: torch.baddbmm(x, y, z, beta=beta, alpha=alpha)),  # noqa: B023
            *(given, *batches),
        )


@pytest.mark.parametrize("shapes", [((3, 0), (0, 4)), ((3, 1), (1, 4)), ((0, 5), (5, 4))], ids=str)
def test_addmm_of_few_elements(shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (random(shape, FLOAT, seed) for seed, shape in enumerate(shapes))
    for static in (False, True):
        check(
            lambda x, y, z: ops.addmm(x, y, z, 2, 3),
            lambda x, y, z: torch.addmm(x, y, z, beta=2, alpha=3),
            *(random((4,), FLOAT, 2), a, b),
            static=static,
        )


def test_a_factor_of_zero_leaves_nans_out() -> None:
    nan = torch.full((3, 3), float("nan"))
    x = random((3, 3), FLOAT)
    (kept,) = results(lambda n, a: ops.addmm(n, a, a, beta=0), nan, x)
    torch.testing.assert_close(kept, x @ x)
    (kept,) = results(lambda n, a: ops.addmm(a, n, n, alpha=0), nan, x)
    torch.testing.assert_close(kept, x)


def test_factors_may_come_with_each_call() -> None:
    x = random((3, 3), FLOAT)
    check(
        lambda a, beta, alpha: ops.addmm(a, a, a, beta, alpha),
        lambda a, beta, alpha: torch.addmm(a, a, a, beta=beta, alpha=alpha),
        *(x, 1.5, -0.25),
    )
    check(
        lambda a, beta, alpha: ops.addmm(a, a, a, beta, alpha),
        lambda a, beta, alpha: torch.addmm(a, a, a, beta=beta, alpha=alpha),
        *(x.int(), 3, -2),
    )


def test_a_sum_is_rounded_once() -> None:
    """In Half 2048 + 1 is 2048: what is added is added to the Float sum."""
    ones, addend = torch.ones(1, 2049).half(), torch.full((1, 1), -2048.0).half()
    (found,) = results(lambda c, a: ops.addmm(c, a, ops.transpose(a)), addend, ones)
    assert found.tolist() == [[1.0]]
    (found,) = results(lambda c, a: ops.linear(a, a, ops.reshape(c, [1])), addend, ones)
    assert found.tolist() == [[1.0]]


@pytest.mark.parametrize("dtype", [FLOAT, HALF, DataType.Int, DataType.Float8_e5m2], ids=str)
@pytest.mark.parametrize("given", [HALF, DataType.Int8, DataType.Float8_e4m3fn], ids=str)
def test_results_in_other_types(given: DataType, dtype: DataType) -> None:
    a, b = random((2, 3, 5), given), random((2, 5, 4), given, 1)
    c, kind = random((4,), summed(given), 2), TORCH[dtype]
    sums = torch.matmul(wide(a, sums=True), wide(b, sums=True))
    total = (2 * c.to(sums.dtype) + sums).to(kind)

    def added(x: Any, y: Any, z: Any) -> Any:
        return ops.baddbmm(x, y, z, 2, dtype=dtype)

    check(lambda x, y: ops.bmm(x, y, dtype=dtype), lambda *_: sums.to(kind), a, b)
    check(added, lambda *_: total, c, a, b)
    check(lambda x, y, z: ops.addmm(x, y, z, 2, dtype=dtype), lambda *_: total[0], c, a[0], b[0])
    for op, x, y in ((ops.mv, a[0], b[0, :, 0]), (ops.dot, a[0, 0], b[0, :, 0])):
        want = torch.matmul(wide(x, sums=True), wide(y, sums=True)).to(kind)
        check(lambda s, t: op(s, t, dtype=dtype), lambda *_: want, x, y)  # noqa: B023
    squares = torch.outer(wide(a[0, 0], sums=True), wide(b[0, 0], sums=True))
    if given is DataType.Int8:
        squares = squares.to(torch.int8)  # as of `mul`
    check(lambda s, t: ops.outer(s, t, dtype=dtype), lambda *_: squares.to(kind), a[0, 0], b[0, 0])


def test_precision_is_kept() -> None:
    batches, a = random((2, 3, 3), FLOAT), random((3, 3), FLOAT)
    programs: list[tuple[Callable[..., Any], torch.Tensor]] = [
        (lambda x: ops.bmm(x, x, precision="tf32"), batches),
        (lambda x: ops.addmm(x, x, x, precision="tf32"), a),
        (lambda x: ops.baddbmm(x, x, x, precision="tf32"), batches),
    ]
    for function, x in programs:
        operations = defined(function, x).fusion.operations
        assert [op.precision for op in operations if isinstance(op, Matmul)] == ["tf32"]


@pytest.mark.parametrize(
    ("op", "shapes", "code", "said"),
    [
        ("bmm", ((2, 3, 5), (1, 5, 4)), "WS0144", "batches must be equal; matmul broadcasts them"),
        ("bmm", ((2, 3, 5), (3, 5, 4)), "WS0144", "dimension 0 of T0 has extent 2 and dimension 0"),
        ("bmm", ((3, 5), (5, 4)), "WS0143", "bmm got T0 of 2 dimensions, and takes 3"),
        ("bmm", ((2, 3, 5), (2, 4, 5)), "WS0144", "dimension 2 of T0 has extent 5 and dimension 1"),
        ("mv", ((3, 5), (5, 4)), "WS0143", "mv got T1 of 2 dimensions, and takes 1"),
        ("mv", ((3, 5), (1,)), "WS0144", "none is broadcast"),
        ("dot", ((3, 5), (3, 5)), "WS0143", "reshape it, or use matmul or einsum"),
        ("dot", ((5,), (4,)), "WS0144", "dimension 0 of T0 has extent 5 and dimension 0 of T1 has"),
        ("dot", ((1,), (5,)), "WS0144", "must be equal; none is broadcast"),
        ("outer", ((3, 5), (5,)), "WS0143", "outer got T0 of 2 dimensions, and takes 1"),
        ("addmm", ((1, 3, 4), (3, 5), (5, 4)), "WS0143", "for a product of 2"),
        ("addmm", ((5,), (3, 5), (5, 4)), "WS0121", "has extent"),
        ("addmm", ((3, 4), (1, 5), (5, 4)), "WS0144", "of the product is 1; what is added is"),
        ("addmm", ((4,), (2, 3, 5), (5, 4)), "WS0143", "addmm got T1 of 3 dimensions, and takes 2"),
        ("baddbmm", ((1, 2, 3, 4), (2, 3, 5), (2, 5, 4)), "WS0143", "for a product of 3"),
        ("baddbmm", ((4,), (2, 3, 5), (1, 5, 4)), "WS0144", "batches must be equal"),
    ],
)
def test_shapes_that_are_refused(
    op: str, shapes: tuple[tuple[int, ...], ...], code: str, said: str
) -> None:
    given = [random(shape, FLOAT) for shape in shapes]
    with pytest.raises(RuntimeError):
        getattr(torch, op)(*given)
    with pytest.raises(DefinitionError, match=said) as error:
        defined(getattr(ops, op), *given, static=True)
    assert error.value.code == code


def test_types_that_are_refused() -> None:
    half, whole = random((3, 3), HALF), random((3, 3), INT32)
    with pytest.raises(
        DefinitionError, match=r"WS0142.*adds T0 of type Half to a product of type F"
    ):
        defined(ops.addmm, half, half.float(), half.float())
    with pytest.raises(
        DefinitionError, match=r"WS0142.*mv got T0 of type Half and T1 of type Int3"
    ):
        defined(ops.mv, half, whole[0])
    with pytest.raises(
        DefinitionError, match=r"WS0146.*addmm got alpha 1.5 for a product of type I"
    ):
        defined(lambda x: ops.addmm(x, x, x, alpha=1.5), whole)
    with pytest.raises(DefinitionError, match=r"WS0118.*dot does not take operands of type Bool"):
        defined(lambda x: ops.dot(x, x), random((3,), DataType.Bool))


def test_batches_are_compared_at_the_call() -> None:
    fused = fuse(lambda a, b: ops.bmm(a, b))
    with scope(device="reference"), pytest.raises(ArgumentError, match="WS0312.*must be equal"):
        fused(torch.ones(2, 3, 4), torch.ones(3, 4, 5))


@pytest.mark.parametrize("dtype", [FLOAT, DataType.Int8, DataType.Float8_e4m3fn], ids=str)
def test_sizes_of_zero_at_the_call(dtype: DataType) -> None:
    """A definition with sizes that each call may choose meets 0 in any of them."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1, -1], dtype=dtype) for _ in range(2))
        fd.add_output(ops.matmul(x, y))
    with scope(device="reference"):
        for b, m, n, k in ((0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0), (0, 0, 0, 0)):
            p, q = random((b, m, k), dtype), random((b, k, n), dtype)
            (found,) = fd.execute([p, q])
            assert torch.equal(found, torch.zeros(b, m, n, dtype=TORCH[summed(dtype)]))
