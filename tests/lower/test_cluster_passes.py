"""Passes and the check know of clusters: no launch knows a block's rank, and each block has one."""

from dataclasses import replace

from tests.support.exchanged_sums import summed, values
from warpsmith.ir import integers
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.clusters import RANK, rank_in, rank_of
from warpsmith.kernel.nodes import Let, Store, Symbol
from warpsmith.kernel.traversal import map_expressions, walk
from warpsmith.lower.passes.derive_scalars import derive_scalars
from warpsmith.lower.passes.multiply_divisions import multiply_divisions
from warpsmith.protocol.launched import launch_values

X = Symbol("block_x", low=0)


def test_no_launch_derives_what_depends_on_the_rank() -> None:
    kernel = replace(summed(), derived=())
    name = Symbol("far", low=0)
    far = Let(name, integers.mul(rank_in(kernel.launch), 128))
    kernel = replace(kernel, body=(far,))
    assert derive_scalars(kernel) is kernel


def test_no_launch_divides_by_what_depends_on_the_rank() -> None:
    kernel = summed()
    quotient = integers.floordiv(X, integers.add(rank_in(kernel.launch), 1))
    (stored,) = (s for s in walk(kernel.body) if isinstance(s, Store) and s.buffer.name == "T3")
    divided = map_expressions(stored, lambda e: quotient if e == stored.index else e)
    assert multiply_divisions(replace(kernel, body=(divided,))).reciprocals == ()


def test_the_protocol_check_knows_the_rank_of_its_block() -> None:
    kernel = summed()
    kernel = replace(kernel, launch=replace(kernel.launch, cluster=(2, 3, 2)))
    for block, rank in (((0, 0, 0), 0), ((3, 0, 0), 1), ((2, 4, 0), 2), ((1, 5, 3), 11)):
        found = launch_values(kernel, values(), block)
        assert found[RANK] == rank == rank_of(block, kernel.launch.cluster)
        assert evaluate(rank_in(kernel.launch), found) == rank
