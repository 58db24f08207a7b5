"""A part of a program, read as a program of its own."""

import pytest

from tests.support.program import Program
from warpsmith import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView


def built() -> tuple[Fusion, TensorView, TensorView, TensorView]:
    """`a = -x`, of which `b` and `c` are made, and both are results."""
    p = Program()
    a = p.op("neg", p.input(DataType.Float, (None,)))
    b, c = p.op("exp", a), p.op("sin", a)
    return p.output(b, c).fusion, a, b, c


def test_what_is_left_out_is_not_there() -> None:
    fusion, a, b, c = built()
    assert c.definition is not None
    view = fusion.without([c.definition])
    assert view.computed == (a, b)
    assert [output.value for output in view.outputs] == [b]
    assert view.consumers(a) == (b,)
    assert view.depends_on([c]) == ()
    assert view.inputs == tuple(fusion.inputs)
    assert not DomainMap(view).knows(c.root[0])


def test_the_whole_stays_as_it_is() -> None:
    fusion, a, b, c = built()
    assert c.definition is not None
    before = list(fusion.operations)
    view = fusion.without([c.definition])
    assert fusion.operations == before
    assert fusion.consumers(a) == (b, c)
    assert view.without([]).computed == view.computed


def test_a_part_has_no_way_to_be_changed() -> None:
    fusion, *_ = built()
    view = fusion.without([])
    with pytest.raises(AttributeError):
        view.operations = ()  # type: ignore[misc]
    assert isinstance(view.operations, tuple)
    assert not hasattr(view, "replace")


def test_a_draft_has_the_same_numbers_and_nothing_else_in_common() -> None:
    fusion, *_ = built()
    fusion.together = (fusion.computed[1:],)
    draft = fusion.draft()
    assert [t.number for t in draft.tensors] == [t.number for t in fusion.tensors]
    assert [t.number for t in draft.together[0]] == [t.number for t in fusion.together[0]]
    assert not set(draft.tensors) & set(fusion.tensors)
    assert not set(draft.operations) & set(fusion.operations)
    assert all(tensor.fusion is draft for tensor in (*draft.tensors, *draft.together[0]))


def test_what_comes_first_comes_behind_what_it_needs() -> None:
    fusion, a, b, c = built()
    assert c.definition is not None
    fusion.bring_first([c.definition])
    assert fusion.computed == (a, c, b)
