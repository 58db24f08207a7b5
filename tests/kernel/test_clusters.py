"""Clusters in the Kernel form: walks over their statements, and their text."""

from dataclasses import replace

import pytest

from tests.support.by_hand import kernel_of
from tests.support.exchanged_sums import summed
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol, evaluate
from warpsmith.kernel.clusters import (
    RANK,
    AnnounceStart,
    ArriveRemote,
    AwaitStart,
    ReleaseRemote,
    StoreAsync,
    SynchronizeCluster,
    by_rank,
    rank_among,
)
from warpsmith.kernel.nodes import Buffer, Element, Statement
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.traversal import barriers, expressions, map_expressions, read, written

A, D = (Buffer(n, DataType.Float, MemoryType.shared, Const(8)) for n in "AD")
BAR = Buffer("bar", DataType.Int, MemoryType.shared, Const(2))
N, STAGE, PEER = (Symbol(name, low=0) for name in ("n", "stage", "peer"))
OF_D = Element(D, N)

STATEMENTS: tuple[tuple[Statement, tuple[Buffer, ...], tuple[Buffer, ...], str], ...] = (
    (SynchronizeCluster("words"), (), (), "synchronize the cluster  (words)"),
    (AnnounceStart(), (), (), "say that the block has started"),
    (AwaitStart(), (), (), "await the start of all blocks"),
    (
        StoreAsync(A, N, OF_D, PEER, BAR, STAGE),
        (A,),
        (D,),
        "A[n] of block peer = D[n], counted at bar[stage]",
    ),
    (ArriveRemote(BAR, STAGE, (PEER,)), (), (), "arrive at bar[stage] of block peer as a reader"),
    (ReleaseRemote(BAR, STAGE, (PEER,)), (), (), "release bar[stage] of block peer as readers"),
)


@pytest.mark.parametrize(("statement", "writes", "reads", "text"), STATEMENTS)
def test_effects_and_text(
    statement: Statement, writes: tuple[Buffer, ...], reads: tuple[Buffer, ...], text: str
) -> None:
    assert written(statement) == writes
    assert read(statement) == reads
    assert barriers(statement) == ((BAR,) if "bar[" in text else ())
    assert text in kernel_text(replace(summed(), body=(statement,)))


@pytest.mark.parametrize("statement", [s for s, *_ in STATEMENTS])
def test_every_expression_is_rewritten(statement: Statement) -> None:
    def doubled(expr: Expr) -> Expr:
        return integers.mul(expr, 2) if expr.dtype is DataType.Index else expr

    after = expressions(map_expressions(statement, doubled))
    assert after == tuple(map(doubled, expressions(statement)))
    assert map_expressions(statement, lambda expr: expr) == statement


def test_what_is_for_whole_warps_or_blocks() -> None:
    together = {type(s) for s, *_ in STATEMENTS if s.collective}
    assert together == {AnnounceStart, AwaitStart, SynchronizeCluster, ReleaseRemote}


def test_launches_and_waits_as_text() -> None:
    text = kernel_text(summed())
    assert "  cluster (1, 1, 3)\n" in text
    assert "parity exchange0_phase of the cluster\n" in text
    assert RANK in text
    assert "cluster" not in kernel_text(kernel_of())


@pytest.mark.parametrize(
    "values",
    [(5,), (3, 3), (0, 1, 2, 3), (6, 4, 2, 0), (3, 3, 12, 12), (5, 10, 5, 10), (7, 1, 1, 4, 0)],
)
def test_a_value_for_each_rank(values: tuple[int, ...]) -> None:
    found = by_rank(values)
    assert tuple(evaluate(found, {RANK: rank}) for rank in range(len(values))) == values


def test_what_is_the_same_for_all_ranks_is_no_choice() -> None:
    assert by_rank((3, 3)) == integers.index(3)
    assert by_rank((0, 1)) == rank_among(Const(2))
