"""`einsum` has PyTorch's shapes and values for random equations, and says what it cannot read."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.test_matmul import ALL, wide
from tests.support.against_torch import FLOAT8S, TORCH, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Move, Pointwise
from warpsmith.ir.tensor import Operation

HALF, FLOAT, INT8, INT32 = DataType.Half, DataType.Float, DataType.Int8, DataType.Int32

PLAIN: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk", ((3, 5), (5, 4))),
    ("ba,ac", ((3, 5), (5, 4))),
    ("ij,kj->ki", ((3, 5), (4, 5))),
    ("ij", ((3, 5),)),
    ("ji", ((3, 5),)),
    ("ij->", ((3, 5),)),
    ("ijk->ki", ((3, 5, 2),)),
    ("aB", ((3, 5),)),
    ("", ((),)),
    ("->", ((),)),
    (",", ((), ())),
    (",ij->ij", ((), (3, 5))),
    ("i,i,i", ((3,), (3,), (3,))),
    ("i,i->", ((3,), (3,))),
    ("i,i->i", ((3,), (3,))),
    ("i,j,k->kji", ((2,), (3,), (4,))),
    ("bij,bjk->bik", ((2, 3, 5), (2, 5, 4))),
    ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("bi,bi->b", ((3, 5), (3, 5))),
    ("ijkl,klmn->ijmn", ((2, 3, 4, 2), (4, 2, 3, 2))),
    ("ijkl,kmlj->im", ((2, 3, 4, 2), (4, 5, 2, 3))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
    ("ijl,jkm->ik", ((2, 3, 4), (3, 5, 2))),
    ("i j , j k -> i k", ((3, 5), (5, 4))),
    ("iJ,Jk->ik", ((3, 5), (5, 4))),
    ("ij,jk->ik", ((3, 1), (5, 4))),
    ("ij,jk->ik", ((3, 5), (1, 4))),
    ("ij,jk->ik", ((3, 1), (1, 4))),
    ("ij,jk->ik", ((1, 5), (5, 1))),
    ("ij,ij->ij", ((1, 5), (3, 1))),
    ("ij,ij", ((1, 5), (3, 1))),
    ("ij,jk->ik", ((3, 0), (0, 4))),
    ("ij,jk->ik", ((0, 3), (3, 4))),
    ("ijl,jlk->ik", ((2, 0, 3), (0, 3, 4))),
    ("i->", ((0,),)),
    ("...ij,...jk->...ik", ((2, 3, 5), (5, 4))),
    ("...ij,...jk", ((7, 1, 3, 5), (2, 5, 4))),
    ("i...,j...->ij...", ((2, 3), (4, 3))),
    ("...ij->...ji", ((2, 3, 4),)),
    ("...ij->ij", ((2, 3, 4),)),
    ("i...->...", ((2, 3),)),
    ("...", ((2, 3),)),
    ("b...a", ((2, 3, 4),)),
    ("...,...", ((2, 3), (3,))),
    ("ij...,jk->ik...", ((2, 3, 4), (3, 5))),
    ("ij->...i", ((3, 5),)),
    ("...i,i->...", ((2, 3), (3,))),
]


def expected_type(dtype: DataType, operands: int, summed: bool) -> torch.dtype:
    """That of `sum`, of `mul`, or of a product."""
    if operands == 1:
        return torch.int64 if summed and dtype.is_int else TORCH[dtype]
    return wide(torch.empty(0, dtype=TORCH[dtype])).dtype if summed else TORCH[dtype]


def compare(equation: str, given: list[torch.Tensor], dtype: DataType, static: bool) -> None:
    """Shapes and values by PyTorch in Float, Double or 64-bit integers, types by our rules."""
    (found,) = results(lambda *t: ops.einsum(equation, *t), *given, static=static)
    exact = [x.long() if dtype.is_int else x.double() for x in given]
    wanted = torch.einsum(equation, *exact)
    letters, _, result = equation.replace(" ", "").partition("->")
    if "->" not in equation:
        plain = letters.replace("...", "").replace(",", "")
        summed = any(plain.count(x) > 1 for x in plain)
    else:
        ellipsis = "..." in letters and "..." not in result and found.numel() >= 0
        covered = ellipsis and any(
            x.ndim > len(t.replace("...", ""))
            for t, x in zip(letters.split(","), given, strict=True)
        )
        summed = covered or bool(set(letters) - set(result) - set(",."))
    kind = expected_type(dtype, len(given), summed)
    assert found.dtype is kind
    assert found.shape == wanted.shape
    close = {HALF: 4e-3, DataType.BFloat16: 4e-2}.get(dtype, 1e-5)
    if kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        wanted = wanted.to(kind)
        close = 0.26
    torch.testing.assert_close(
        found.double(), wanted.to(kind).double(), rtol=close, atol=close * 16
    )


@pytest.mark.few(47)
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("equation", "shapes"), PLAIN, ids=str)
def test_equations(equation: str, shapes: tuple[tuple[int, ...], ...], static: bool) -> None:
    check(
        lambda *given: ops.einsum(equation, *given),
        lambda *given: torch.einsum(equation, *given),
        *(random(shape, FLOAT, seed) for seed, shape in enumerate(shapes)),
        static=static,
    )


@pytest.mark.few(94)
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize(("equation", "shapes"), PLAIN, ids=str)
def test_types(equation: str, shapes: tuple[tuple[int, ...], ...], dtype: DataType) -> None:
    given = [random(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    compare(equation, given, dtype, False)


@st.composite
def equations(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    """Any equation of one to three operands over five letters and an ellipsis, and shapes."""
    sizes = {letter: draw(st.integers(0, 4)) for letter in "abcdE"}
    covered = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from("abcdE"), unique=True, max_size=4))
        place = draw(st.integers(-1, len(letters)))
        shape = [draw(st.sampled_from((1, sizes[x], sizes[x]))) for x in letters]
        term = list(letters)
        if place >= 0:
            own = covered[draw(st.integers(0, len(covered))) :]
            shape[place:place] = [draw(st.sampled_from((1, extent))) for extent in own]
            term.insert(place, "...")
        terms.append("".join(term))
        shapes.append(tuple(shape))
    equation = ",".join(terms)
    if draw(st.booleans()):
        used = sorted(set(equation) - set(",."))
        kept = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        # PyTorch, too, has no sum of an ellipsis that only some operands have.
        kept.insert(draw(st.integers(0, len(kept))), "...") if "..." in equation else None
        equation += "->" + "".join(kept)
    return equation, shapes


@settings(max_examples=400, deadline=None)
@given(equations(), st.sampled_from(ALL), st.booleans())
def test_random_equations(
    drawn: tuple[str, list[tuple[int, ...]]], dtype: DataType, static: bool
) -> None:
    equation, shapes = drawn
    given = [random(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    compare(equation, given, dtype, static)


def test_operands_may_come_as_a_list() -> None:
    given = random((3, 5), FLOAT), random((5, 4), FLOAT, 1)
    check(lambda *t: ops.einsum("ij,jk", list(t)), lambda a, b: a @ b, *given)


def test_a_tensor_may_come_twice() -> None:
    x = random((3, 3, 2), HALF)
    for equation in ("ijk,jik->ik", "ijk,ilk->jl", "ijk,ijk->", "ijk,jlk->ilk"):
        check(
            lambda t: ops.einsum(equation, t, t),  # noqa: B023  # called at once
            lambda t: torch.einsum(equation, t.float(), t.float()).half(),  # noqa: B023
            x,
        )


def _form(operation: Operation) -> str:
    if isinstance(operation, Move):
        return operation.kind
    return operation.op if isinstance(operation, Pointwise) else type(operation).__name__


@pytest.mark.parametrize(
    ("equation", "shapes", "forms", "axes"),
    [
        ("ij,jk->ik", ((3, 5), (5, 4)), ["Matmul"], ((0, 2), (2, 1))),
        ("ij,kj->ik", ((3, 5), (4, 5)), ["Matmul"], ((0, 2), (1, 2))),
        ("ij,jk->ki", ((3, 5), (5, 4)), ["Matmul", "permute"], ((0, 2), (2, 1))),
        ("ihd,jhd->hij", ((3, 2, 5), (4, 2, 5)), ["Matmul"], ((1, 0, 3), (2, 0, 3))),
        ("abi,icd->abcd", ((2, 3, 5), (5, 4, 2)), ["Matmul"], ((0, 1, 4), (4, 2, 3))),
        ("ijk,jkl->il", ((3, 5, 2), (5, 2, 4)), ["reshape", "reshape", "Matmul"], ((0, 2), (2, 1))),
        ("ij,j->i", ((3, 5), (5,)), ["broadcast", "mul", "Reduction"], None),
        ("i,j->ij", ((3,), (4,)), ["broadcast", "broadcast", "mul"], None),
    ],
)
def test_products_are_read_as_they_lie(
    equation: str, shapes: tuple[tuple[int, ...], ...], forms: list[str], axes: Any
) -> None:
    given = [random(shape, FLOAT) for shape in shapes]
    operations = defined(lambda *t: ops.einsum(equation, *t), *given, static=True).fusion.operations
    assert [_form(op) for op in operations] == forms
    assert [op.axes for op in operations if isinstance(op, Matmul)] == ([axes] if axes else [])


def test_results_in_other_types_and_precisions() -> None:
    a, b = random((3, 5), FLOAT), random((5, 4), FLOAT, 1)
    for dtype in (HALF, INT32, DataType.Double):
        check(
            lambda x, y: ops.einsum("ij,jk", x, y, dtype=dtype),  # noqa: B023  # called at once
            lambda x, y: (x @ y).to(TORCH[dtype]),  # noqa: B023
            *(a, b),
        )
    fd = defined(lambda x, y: ops.einsum("ij,jk", x, y, precision="tf32"), a, b)
    assert [op.precision for op in fd.fusion.operations if isinstance(op, Matmul)] == ["tf32"]
    with pytest.raises(DefinitionError, match="WS0147.*'tf32' for operands of type Half"):
        defined(lambda x, y: ops.einsum("ij,jk", x, y, precision="tf32"), a.half(), b.half())


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bihd,bjhd->bhij", ((1, 5, 2, 64), (1, 7, 2, 64))),
        ("abi,abj->ij", ((5, 8, 1), (5, 8, 7))),
        ("ij,jk->ki", ((1, 64), (64, 7))),
        ("ij,jk->ik", ((5, 64), (64, 1))),
    ],
)
@pytest.mark.parametrize("static", [True, False])
def test_results_are_rounded_once_beside_dimensions_of_1(
    equation: str, shapes: tuple[tuple[int, ...], ...], static: bool
) -> None:
    """Of 1 they are dropped on the way, and are there again in the result."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    (found,) = results(lambda *t: ops.einsum(equation, *t, dtype=FLOAT), *given, static=static)
    expected = torch.einsum(equation, *(x.double() for x in given))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_both_8_bit_floats_may_meet() -> None:
    a, b = (random((4, 4), dtype, seed) for seed, dtype in enumerate(FLOAT8S))
    for equation in ("ij,jk", "ij,ij->", "ijk,kl->l"):
        x = a.reshape(2, 2, 4) if "ijk" in equation else a
        check(
            lambda s, t: ops.einsum(equation, s, t),  # noqa: B023  # called at once
            lambda s, t: torch.einsum(equation, s.float(), t.float()),  # noqa: B023
            *(x, b),
        )
    check(
        lambda s, t: ops.einsum("ij,ij,ij->i", s, t, s),
        lambda s, t: torch.einsum("ij,ij,ij->i", s.float(), t.float(), s.float()),
        *(a, b),
    )
    with pytest.raises(DefinitionError, match="WS0145.*have no common type"):
        defined(lambda s, t: ops.einsum("ij,ij->ij", s, t), a, b)


def test_sums_of_operands_do_not_wrap() -> None:
    x, y = torch.full((2, 100), 100, dtype=torch.int8), torch.full((3,), 100, dtype=torch.int8)
    (found,) = results(lambda a, b: ops.einsum("ij,k->ik", a, b), x, y)
    assert found.dtype is torch.int32
    assert (found == 1_000_000).all()


@pytest.mark.parametrize("equation", ["i,i,i->", "i,i,ij->j", "i,i,ij->i", "ij,j,k,jk->i"])
def test_what_is_multiplied_before_a_sum_does_not_wrap(equation: str) -> None:
    """Modulo 256 it is what PyTorch sums in 8 bits."""
    terms = equation.split("-")[0].split(",")
    given = [random((7,) * len(term), DataType.UInt8, seed) for seed, term in enumerate(terms)]
    (found,) = results(lambda *t: ops.einsum(equation, *t), *given)
    assert torch.equal(found, torch.einsum(equation, *(x.int() for x in given)))
    assert torch.equal(found.byte(), torch.einsum(equation, *given).byte())
