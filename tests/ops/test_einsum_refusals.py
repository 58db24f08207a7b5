"""Equations and operands that `einsum` refuses, and what it says of them."""

from typing import Any

import pytest
import torch

from tests.ops.test_einsum import FLOAT, HALF
from tests.support.against_torch import check, defined, random
from warpsmith import ops
from warpsmith.errors import ArgumentError, DefinitionError
from warpsmith.frontends.fuse import fuse
from warpsmith.knobs import scope


@pytest.mark.parametrize(
    ("equation", "shapes", "said"),
    [
        ("ij,jk->ii", ((3, 5), (5, 4)), "subscript 'i' stands twice in the result; name it once"),
        ("ij->ik", ((3, 5),), "subscript 'k' of the result is no operand's; leave it out there"),
        ("ij,jk->ik,", ((3, 5), (5, 4)), "'ik,' of the result cannot be read"),
        ("ij,jk", ((3, 5),), "it has subscripts for 2 operands, and got 1"),
        ("ij", ((3, 5), (5, 4)), "it has subscripts for 1 operands, and got 2; give the subscr"),
        ("ijk,jk->i", ((3, 5), (5, 4)), "operand 0 has 2 dimensions and 3 subscripts; give a lett"),
        ("ij,j->i", ((3, 5), (5, 4)), "operand 1 has 2 dimensions and 1 subscripts"),
        ("ij...,jk", ((3,), (5, 4)), "operand 0 has 1 dimensions and 2 subscripts"),
        ("i1,1k", ((3, 5), (5, 4)), "'i1' of operand 0 cannot be read; subscripts are letters"),
        ("i.j", ((3, 5),), "'i.j' of operand 0 cannot be read"),
        ("i..j", ((3, 5),), "cannot be read"),
        ("....ij", ((3, 5),), "cannot be read"),
        ("i...j...", ((3, 5),), "at most one ellipsis"),
        ("ij->i->j", ((3, 5),), "'i->j' of the result cannot be read"),
        ("ij-i", ((3, 5),), "'ij-i' of operand 0 cannot be read"),
        ("", ((3,),), "operand 0 has 1 dimensions and 0 subscripts"),
    ],
)
def test_equations_that_are_refused(
    equation: str, shapes: tuple[tuple[int, ...], ...], said: str
) -> None:
    given = [random(shape, FLOAT) for shape in shapes]
    with pytest.raises(RuntimeError):
        torch.einsum(equation, *given)
    with pytest.raises(DefinitionError) as error:
        defined(lambda *t: ops.einsum(equation, *t), *given)
    assert error.value.code == "WS0148"
    assert f"einsum got {equation!r}: " in str(error.value)
    assert said in str(error.value)


def test_diagonals_are_refused_with_a_way_round() -> None:
    with pytest.raises(
        DefinitionError, match=r"WS0148.*'i' stands twice in operand 0.*eq of two i"
    ):
        defined(lambda x: ops.einsum("ii->i", x), random((3, 3), FLOAT))
    x = random((3, 3), FLOAT)

    def diagonal(t: Any) -> Any:
        place = ops.iota(3, fusion=t.fusion)
        mask = ops.eq(ops.broadcast(place, [False, True]), place)
        return ops.einsum("ij,ij->i", t, ops.cast(mask, FLOAT))

    check(diagonal, lambda t: torch.einsum("ii->i", t), x, static=True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (lambda x: (5, x), "WS0148.*einsum got 5: it is of type int; give a string"),
        (lambda x: ("ij,jk", x, x.to(HALF)), "WS0142.*of type Float and T.* of type Half"),
        (lambda x: ("ij,jk", *[x > 0] * 2), "WS0118.*does not take operands of type Bool"),
        (lambda x: ("ij", 3.0), "WS0113.*einsum got 3.0, and needs a tensor"),
    ],
)
def test_operands_that_are_refused(given: Any, error: str) -> None:
    with pytest.raises(DefinitionError, match=error):
        defined(lambda x: ops.einsum(*given(x)), random((3, 3), FLOAT))


def test_extents_that_differ() -> None:
    with pytest.raises(
        DefinitionError, match=r"WS0144.*dimension 1 of T0 has extent 2 and dim.*'j'"
    ):
        defined(
            lambda x, y: ops.einsum("ij,jk", x, y),
            *(random((3, 2), FLOAT), random((5, 4), FLOAT)),
            static=True,
        )
    with pytest.raises(
        DefinitionError, match=r"WS0144.*are dimension -1 of the ellipsis; extents o"
    ):
        defined(
            lambda x, y: ops.einsum("...a,a...", x, y),
            *(random((2, 3), FLOAT), random((3, 5), FLOAT)),
            static=True,
        )


def test_extents_are_compared_at_the_call() -> None:
    """Each on its own: 2 times 6 elements are no match for 3 times 4."""
    fused = fuse(lambda a, b: ops.einsum("ijk,jkl->il", a, b))
    a, b = random((5, 2, 6), FLOAT), random((2, 6, 4), FLOAT)
    with scope(device="reference"):
        torch.testing.assert_close(fused(a, b), torch.einsum("ijk,jkl->il", a, b))
        with pytest.raises(ArgumentError, match="WS0312.*must be equal"):
            fused(a, b.reshape(3, 4, 4))
