"""Indices follow from loops through splits and merges, both ways, and bounds are found."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.program import Program
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import merge, reorder, split


def tensor_of(*sizes: int | None) -> TensorView:
    p = Program()
    tensor = p.op("neg", p.input(DataType.Float, sizes))
    p.output(tensor)
    return tensor


def derivation_of(tensor: TensorView) -> tuple[DomainMap, Derivation]:
    """With a symbol `l0`, `l1`, ... for each loop."""
    domains = DomainMap(tensor.fusion)
    known = {
        domains.group(axis): Symbol(f"l{k}", extent=domains.extent(domains.group(axis)))
        for k, axis in enumerate(tensor.loop)
    }
    return domains, Derivation(domains, known)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_loops_visit_every_element_once(data: st.DataObject) -> None:
    """Whatever the transforms: under the bounds that are found, each index comes exactly once."""
    tensor = tensor_of(*data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    for _ in range(data.draw(st.integers(0, 4))):
        count = len(tensor.loop)
        axis, other = (data.draw(st.integers(0, count - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["split", "merge", "reorder"])):
            case "split":
                split(tensor, axis, data.draw(st.integers(1, 4)), data.draw(st.booleans()))
            case "merge" if axis != other:
                merge(tensor, axis, other, band=data.draw(st.integers(1, 3)))
            case _:
                reorder(tensor, {axis: other})
    domains, derivation = derivation_of(tensor)
    groups = [domains.group(axis) for axis in tensor.logical]
    bounds = [g for group in groups for g in derivation.inexact_splits(group, frozenset())]
    tests = [integers.less(derivation.index(g), domains.extent(g)) for g in bounds]
    visited = []
    for at in _places(tensor, domains):
        if all(evaluate(test, at) for test in tests):
            visited.append(tuple(evaluate(derivation.index(g), at) for g in groups))
    extents = [evaluate(domains.extent(group), {}) for group in groups]
    assert sorted(visited) == _all(extents)


def _places(tensor: TensorView, domains: DomainMap) -> list[dict[str, int]]:
    extents = [evaluate(domains.extent(domains.group(axis)), {}) for axis in tensor.loop]
    return [{f"l{k}": value for k, value in enumerate(place)} for place in _all(extents)]


def _all(extents: list[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for extent in extents:
        found = [(*place, k) for place in found for k in range(extent)]
    return found


def test_a_bound_on_the_whole_implies_the_one_on_its_outer_part() -> None:
    tensor = tensor_of(None)
    whole = tensor.loop[0]
    split(tensor, 0, 8)
    split(tensor, 0, 3)
    domains, derivation = derivation_of(tensor)
    group = domains.group(whole)
    assert derivation.inexact_splits(group, frozenset()) == (group,)


def test_facts_spare_the_bound() -> None:
    tensor = tensor_of(None)
    whole = tensor.loop[0]
    split(tensor, 0, 8)
    domains, derivation = derivation_of(tensor)
    facts = frozenset({(whole.extent, 16)})
    assert derivation.inexact_splits(domains.group(whole), facts) == ()


def test_what_no_loop_determines_is_not_reached() -> None:
    tensor = tensor_of(4, 6)
    rows, columns = tensor.logical
    domains = DomainMap(tensor.fusion)
    derivation = Derivation(domains, {domains.group(rows): Symbol("i", extent=rows.extent)})
    assert derivation.reaches(domains.group(rows))
    assert not derivation.reaches(domains.group(columns))
