"""Which tensors one kernel writes together."""

from tests.support.program import Program
from warpsmith import DataType
from warpsmith.ir.graph import Graph
from warpsmith.planner.segment import Segments
from warpsmith.planner.sinks import merge_sinks
from warpsmith.targets.hopper import H200


def test_what_reads_a_narrow_form_comes_behind_its_maker() -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None, None))
    first = p.op("neg", y)
    wide = p.reduce("sum", x, [1])
    narrow = p.cast(wide, DataType.BFloat16)
    spread = p.broadcast(narrow, [False, True])
    last = p.reduce("sum", p.op("mul", p.cast(spread, DataType.Float), y), [0])
    p.output(first, narrow, p.op("exp", wide), last)
    graph = Graph.of(p.fusion)
    segments = Segments(graph, H200, forms={wide.number: narrow.number})
    sinks = [first.number, wide.number, last.number]
    cuts = frozenset((*sinks, narrow.number))
    groups = merge_sinks(segments, sinks, cuts, cuts - {wide.number})
    assert groups.index([wide.number]) < next(i for i, g in enumerate(groups) if last.number in g)
