"""Which axes are one iteration, and how long it is."""

from tests.support.program import Program
from warpsmith import DataType, FusionDefinition
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import merge, split


def matrix(p: Program) -> TensorView:
    return p.input(DataType.Float, (None, None))


def groups(domains: DomainMap, tensor: TensorView) -> list[int]:
    return [domains.group(axis) for axis in tensor.logical]


def test_pointwise_operations_pair_by_position_and_permutes_by_name() -> None:
    p = Program()
    first = p.op("neg", matrix(p))
    second = p.permute(first, (1, 0))
    domains = DomainMap(p.output(second).fusion)
    assert groups(domains, second) == groups(domains, first)[::-1]


def test_a_broadcast_axis_joins_what_it_is_widened_to() -> None:
    p = Program()
    x, row = p.op("neg", matrix(p)), p.op("neg", p.input(DataType.Float, (None,)))
    wide = p.broadcast(row, [True, False])
    total = p.op("add", x, wide)
    domains = DomainMap(p.output(total).fusion)
    assert groups(domains, wide) == groups(domains, total)


def test_a_broadcast_axis_that_is_widened_in_two_ways_stays_apart() -> None:
    p = Program()
    row = p.op("neg", p.input(DataType.Float, (None,)))
    wide = p.broadcast(row, [True, False])
    a = p.op("add", p.op("neg", matrix(p)), wide)
    b = p.op("add", p.op("neg", matrix(p)), wide)
    domains = DomainMap(p.output(a, b).fusion)
    assert groups(domains, wide)[0] not in groups(domains, a) + groups(domains, b)


def test_uses_of_an_input_are_apart_unless_asked_for() -> None:
    p = Program()
    x = matrix(p)
    a, b = p.op("neg", x), p.op("exp", x)
    p.output(a, b)
    assert groups(DomainMap(p.fusion), a) != groups(DomainMap(p.fusion), b)
    joined = DomainMap(p.fusion, through_inputs=True)
    assert groups(joined, a) == groups(joined, b)


def test_equal_transforms_of_equal_axes_make_equal_axes() -> None:
    p = Program()
    first = p.op("neg", matrix(p))
    second = p.op("exp", first)
    p.output(second)
    for tensor in (first, second):
        merge(tensor, 0)
        split(tensor, 0, 8)
    domains = DomainMap(p.fusion)
    pairs = zip(first.loop, second.loop, strict=True)
    assert all(domains.same(a, b) for a, b in pairs)


def test_other_factors_make_other_axes() -> None:
    p = Program()
    first = p.op("neg", matrix(p))
    second = p.op("exp", first)
    p.output(second)
    split(first, 0, 8)
    split(second, 0, 4)
    domains = DomainMap(p.fusion)
    assert not any(domains.same(a, b) for a in first.loop[:2] for b in second.loop[:2])


def test_tiles_of_a_dimension_are_those_of_what_it_is_made_of() -> None:
    """`i // 16` is `i // 2 // 8`, where a product reads an `i` that a reshape has made of pairs; no
    other part is, and a loop over parts of one is not the whole.
    """
    p = Program()
    pairs = p.op("neg", p.input(DataType.Half, (None, None, 2)))
    joined = p.merge_dims(pairs, 1)
    once, apart = p.op("exp", joined), p.op("neg", joined)
    p.output(apart, p.matmul(once, p.input(DataType.Half, (None, None)), transposed=True))
    split(pairs, 1, 8)
    split(joined, 1, 16)
    split(apart, 1, 8)
    split(once, 1, 16)
    split(once, 1, 1)
    domains = DomainMap(p.fusion)
    tiles = joined.loop[1]
    assert domains.same(tiles, pairs.loop[1])
    assert domains.extent_of(tiles) == domains.extent_of(pairs.loop[1])
    assert not domains.same(joined.loop[2], pairs.loop[2])
    assert not any(domains.same(apart.loop[1], axis) for axis in (*pairs.loop, *joined.loop))
    assert not domains.same(once.loop[1], tiles)  # of one each


def test_extents_are_constant_where_any_axis_says_so() -> None:
    p = Program()
    x, y = p.op("neg", matrix(p)), p.op("neg", p.input(DataType.Float, (6, None)))
    total = p.op("add", x, y)
    p.output(total)
    split(total, 0, 4)
    domains = DomainMap(p.fusion)
    rows = groups(domains, total)[0]
    assert domains.extent(rows) == integers.index(6)
    assert domains.extent(domains.group(total.loop[0])) == integers.index(2)
    assert isinstance(domains.extent(groups(domains, total)[1]), Symbol)


def test_a_copy_of_a_fusion_shares_no_axis() -> None:
    p = Program()
    total = p.reduce("sum", p.op("neg", matrix(p)), [1])
    p.output(total)
    split(total, 1, 4)
    twin = p.fusion.draft()
    axes = [{id(a) for t in f.tensors for a in (*t.logical, *t.loop)} for f in (p.fusion, twin)]
    assert not axes[0] & axes[1]
    assert [repr(t.loop) for t in twin.tensors] == [repr(t.loop) for t in p.fusion.tensors]
    assert [t.name for t in twin.tensors] == [t.name for t in p.fusion.tensors]
    assert twin.outputs[0].value.definition is twin.operations[-1]


def test_clones_of_what_an_rfactor_took_out_stay_what_they_were() -> None:
    """Loops given by `transform_like` are the reference's, in the rfactored producer as well."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1024], True, DataType.Float)
        total = fd.ops.sum(x, [1])
        y = fd.ops.sub(x, fd.ops.broadcast(total, [False, True]))
        fd.add_output(y)
    x.cache_after()  # so that both reads are one iteration
    y.split(1, 128)
    fd.sched.transform_like(y)
    part = total.rfactor([1])
    domains = DomainMap(fd.fusion)
    assert all(domains.same(a, b) for a, b in zip(part.loop, y.loop, strict=True))


def test_the_groups_of_a_fusion_are_found_again_when_a_schedule_has_changed_it() -> None:
    p = Program()
    x = p.op("neg", matrix(p))
    fusion = p.output(x).fusion
    domains = map_of(fusion)
    x.loop[1].parallel = ParallelType.block_x
    assert map_of(fusion) is domains
    split(x, 0, 4)
    divided = map_of(fusion)
    assert divided is not domains
    assert divided.extent_of(x.loop[1]) == integers.index(4)
    fusion.limits |= {(x.logical[0].extent, 4)}
    assert map_of(fusion).extent_of(x.loop[0]) == integers.ONE != divided.extent_of(x.loop[0])
