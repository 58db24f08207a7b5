"""Reductions by rules: PyTorch's values where it has them, and laws that a rule must keep."""

from typing import Any

import pytest
import torch

from tests.support.against_torch import DTYPES, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.rules import CarryRule

HOSTILE = torch.tensor(
    [
        [1.0, torch.nan, 3.0, torch.nan],
        [torch.inf, 2.0, torch.inf, -torch.inf],
        [-torch.inf] * 4,
        [0.0, -0.0, 0.0, -1.0],
        [90.0, 91.0, -200.0, 0.0],
    ]
)


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_of_extremes(dtype: DataType) -> None:
    x = random((3, 1, 7), dtype)
    for op in ("argmax", "argmin"):
        for dim in (None, 0, 1, -1):
            for keepdim in (False, True):
                peer = getattr(torch, op)
                wide = (lambda t: t.int()) if dtype is DataType.Bool else (lambda t: t)
                check(
                    lambda t, o=op, d=dim, k=keepdim: getattr(ops, o)(t, d, k),
                    lambda t, p=peer, w=wide, d=dim, k=keepdim: p(w(t), d, k),
                    x,
                )


@pytest.mark.parametrize("op", ["argmax", "argmin", "sum", "amax", "logsumexp"])
def test_a_number_has_a_dimension_0_of_one_element(op: str) -> None:
    """As in PyTorch, which calls it -1, too, and none else."""
    own = {"amax": "max"}.get(op, op)
    for dim in (0, -1):
        for keepdim in (False, True):
            check(
                lambda t, d=dim, k=keepdim: getattr(ops, own)(t, d, k),
                lambda t, d=dim, k=keepdim: getattr(torch, op)(t, d, keepdim=k),
                torch.tensor(-3.0),
            )
    with pytest.raises(DefinitionError, match=r"WS0115.* dimension 1, which is outside"):
        defined(lambda t: getattr(ops, own)(t, 1), torch.tensor(-3.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_truth_of_some_and_all(dtype: DataType) -> None:
    x = (random((3, 1, 7), dtype) > 2).to(random((1,), dtype).dtype)
    for op in ("any", "all"):
        for dims in ([0], [0, 2], [1], []):
            kept = tuple(dims)

            def peer(t: torch.Tensor, o: str = op, d: tuple[int, ...] = kept) -> torch.Tensor:
                return getattr(torch, o)(t != 0, d) if d else t != 0

            check(lambda t, o=op, d=dims: getattr(ops, o)(t, d), peer, x)


def test_what_is_not_finite_and_ties() -> None:
    check(lambda t: ops.argmax(t, 1), lambda t: torch.argmax(t, 1), HOSTILE)
    check(lambda t: ops.argmin(t, 1), lambda t: torch.argmin(t, 1), HOSTILE)
    check(lambda t: ops.logsumexp(t, [1]), lambda t: torch.logsumexp(t, 1), HOSTILE)
    check(lambda t: ops.logsumexp(t, [0, 1]), lambda t: torch.logsumexp(t, (0, 1)), HOSTILE[1:])
    check(lambda t: ops.logsumexp(t, 0), lambda t: torch.logsumexp(t, 0), HOSTILE[:0])
    with pytest.raises(DefinitionError, match="WS0141.*argmax"):
        defined(lambda t: ops.argmax(t, 0), HOSTILE[:0], static=True)


def joined(**changes: Any) -> CarryRule:
    """The sum and the count of elements; `changes` spoil it."""
    given: dict[str, Any] = {
        "name": "both",
        "identity": {"total": 0.0, "count": 0.0},
        "lift": lambda x: (x, 1.0),
        "join": lambda a, b: (a.total + b.total, a.count + b.count),
        "finish": lambda state: state.total / state.count,
    }
    return CarryRule(**(given | changes))


def test_a_rule_of_the_user() -> None:
    x = random((3, 5, 4), DataType.Half)
    check(
        lambda t: ops.reduce(t, joined(), [0, 2]),
        lambda t: t.float().mean((0, 2)),
        x,
    )
    values = results(lambda t: ops.reduce(t, joined(finish=None), [1], keepdim=True), x)
    assert [v.shape for v in values] == [(3, 1, 4), (3, 1, 4)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"identity": {"total": 1.0, "count": 0.0}}, "identity joined with x is x"),
        (
            {"join": lambda a, b: ((a.total + b.total) * 0.5, a.count + b.count)},
            r"x is x|identity",
        ),
        (
            {
                "join": lambda a, b: (
                    ops.where(ops.eq(a.count * b.count, 0), a.total + b.total, a.total * b.total),
                    a.count + b.count,
                ),
                "lift": lambda x: (x, ops.where(x > 0, 1.0, 0.0)),
            },
            "join is associative; of the states",
        ),
        (
            {
                "join": lambda a, b: (
                    ops.where(ops.eq(a.count, 0), b.total, a.total),
                    a.count + b.count,
                )
            },
            "join is commutative",
        ),
    ],
    ids=["identity", "halved", "regrouped", "order"],
)
def test_a_rule_that_breaks_a_law_is_refused(change: dict[str, Any], said: str) -> None:
    x = random((3, 5), DataType.Float)
    with pytest.raises(DefinitionError, match=f"WS0160.*the rule both breaks a law: .*{said}"):
        defined(lambda t: ops.reduce(t, joined(**change)), x)


def test_rules_of_booleans_are_tried_on_booleans() -> None:
    """Their states are numbers, of which laws need hold for 0 and 1 alone."""
    x = random((5, 33), DataType.Float)
    some = CarryRule(name="some", identity={"a": 0}, join=lambda a, b: ops.logical_or(a.a, b.a))
    odd = CarryRule(name="odd", identity={"a": False}, join=lambda a, b: ops.ne(a.a, b.a))
    check(lambda t: ops.reduce(t > 1, some, [1]), lambda t: (t > 1).any(1).int(), x)
    check(lambda t: ops.scan(t > 1, odd, 1), lambda t: ((t > 1).cumsum(1) % 2).int(), x)
    with pytest.raises(DefinitionError, match=r"WS0160.*identity joined with x is x.*\(3\)"):
        defined(lambda t: ops.reduce(t, some, [1]), random((5, 33), DataType.Int32))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "WS0149.*has the name 'a b'"),
        ({"identity": {"é": 0.0, "s": 0.0}}, "WS0149.*has the name 'é'"),
        ({"join": lambda a, b: a.total}, "WS0149.*join of the rule both gives 1 values"),
        ({"lift": lambda x: (1.0, 2.0)}, "WS0149.*gives numbers alone"),
        (
            {
                "join": lambda a, b: (
                    ops.where(ops.eq(a.count, 0), b.total, a.total),
                    a.count + b.count,
                ),
                "commutative": False,
            },
            "WS0161.*which does not commute",
        ),
    ],
    ids=["name", "letters", "join", "lift", "order"],
)
def test_what_is_no_rule_of_a_reduction_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        defined(lambda t: ops.reduce(t, joined(**change)), random((3, 5), DataType.Float))


def test_python_numbers_do_not_widen_a_join() -> None:
    rule = joined(join=lambda a, b: (1.0 * a.total + b.total, a.count + b.count * 1.0))
    fd = defined(lambda t: ops.reduce(t, rule), random((3, 5), DataType.Float))
    (carry,) = [o.carry for o in fd.fusion.operations if hasattr(o, "carry")]
    kinds = {node.dtype for value in carry.join for node in value.walk()}
    assert kinds == {DataType.Float}
