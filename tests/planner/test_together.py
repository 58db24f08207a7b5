"""Tensors whose dimensions are the same iterations, because the program says so."""

import pytest

from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.part import Part
from warpsmith.kernel.nodes import CopyVector, Statement, Store
from warpsmith.kernel.reductions import Accumulate, Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.planner.cuts import joined
from warpsmith.planner.plan import cut
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

FLOAT = DataType.Float


def two(*, together: bool = True) -> Fusion:
    """Two matrices, and the sum of each one's columns."""
    p = Program()
    x, y = p.input(FLOAT, (None, None)), p.input(FLOAT, (None, None))
    p.output(p.reduce("sum", x, [0]), p.reduce("sum", y, [0]))
    p.fusion.together = ((x, y),) if together else ()
    return p.fusion


def loops_are_the_same(fusion: Fusion) -> bool:
    """Whether both sums walk the same iterations, those that they reduce among them."""
    domains = DomainMap(fusion)
    first, second = (output.value.root for output in fusion.outputs)
    return all(domains.same(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("together", [True, False])
def test_loops_are_the_same_where_the_program_says_so(together: bool) -> None:
    fusion = two(together=together)
    graph = Graph.of(fusion)
    part = Part(graph, tuple(t.number for t in fusion.computed), (0, 1)).draft()
    apart = [Part(graph, (t.number,), (k,)).draft() for k, t in enumerate(fusion.computed)]
    for each in (fusion, fusion.draft(), part):
        assert loops_are_the_same(each) == together
    assert not any(each.together for each in apart)


def test_two_parts_as_one_keep_what_each_says() -> None:
    rows, columns = cut(norm_backward(), target=H200)
    (group,) = joined(rows.fusion, columns.fusion).together
    assert [tensor.name for tensor in group] == list(columns.inputs)


def test_parts_are_alike_only_where_the_same_is_said_of_them() -> None:
    def key(fusion: Fusion) -> object:
        return Segment(fusion, H200).shape.key

    assert key(two()) == key(two())
    assert key(two()) != key(two(together=False))


@pytest.mark.parametrize("together", [True, False])
def test_results_beside_others_are_one_kernel_where_the_program_says_so(together: bool) -> None:
    p = Program()
    x, y, z = (p.input(FLOAT, (None, None)) for _ in range(3))
    p.output(*(p.reduce("sum", tensor, [0]) for tensor in (x, y)), p.op("neg", z))
    p.fusion.together = ((x, y),) if together else ()
    assert sorted(len(part.outputs) for part in cut(p.fusion, target=H200)) == (
        [1, 2] if together else [1, 1, 1]
    )


def norm_backward() -> Fusion:
    """A row's gradient, and the sums of two tensors' columns."""
    p = Program()
    x, dy = p.input(FLOAT, (None, None)), p.input(FLOAT, (None, None))
    product = p.op("mul", x, dy)
    total = p.broadcast(p.reduce("sum", product, [1]), [False, True])
    p.output(p.op("sub", dy, p.op("mul", x, total)))
    return p.output(p.reduce("sum", product, [0]), p.reduce("sum", dy, [0])).fusion


def statements(segment: Segment) -> list[Statement]:
    """Of the kernel that adds 40 rows of partial sums."""
    sizes = {f"{name}_size{d}": 64 for name in ("T0", "T1") for d in (0, 1)}
    problem = Problem(values={**sizes, "row_blocks": 40}, alignment={}, target=H200)
    candidate = select(segment.fusion, H200)
    kernel = lower(candidate.scheduled(candidate.choose(problem)[0]), "sums", target=H200)
    return list(walk(kernel.body))


def test_one_kernel_adds_all_partial_sums_and_computes_nothing_else() -> None:
    """It loads all before it adds any."""
    _, columns = cut(norm_backward(), target=H200)
    assert [type(op).__name__ for op in columns.fusion.operations] == ["Reduction", "Reduction"]
    assert len(columns.fusion.together) == 1
    read = {kernel_input.name for kernel_input in columns.fusion.input_tensors}
    found = statements(columns)
    loads = [k for k, s in enumerate(found) if isinstance(s, CopyVector) and s.source.name in read]
    adds = [k for k, s in enumerate(found) if isinstance(s, Accumulate)]
    assert len(loads) == len(read) == 2
    assert max(loads) < min(adds)
    stored = {s.buffer.name for s in found if isinstance(s, Store)}
    joined = {buffer.name for s in found if isinstance(s, Reduce) for buffer in s.buffers}
    parts = {part for name in joined for part in name.split("_")}
    assert (
        stored == {s.buffers[0].name for s in found if isinstance(s, Accumulate)} | joined | parts
    )
