"""Groups of a role that meet as a whole, behind the loops in which they take turns."""

from dataclasses import replace
from functools import cache
from unittest.mock import patch

from tests.protocol.edits import edited, instead, refused
from tests.support.norms_backward import Case, rms_norm_backward
from warpsmith import fuse
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.protocol import check
from warpsmith.schedulers.rows import specialized
from warpsmith.targets.hopper import H200

BLOCK_Y = ParallelType.block_y
VALUES = {
    "T0_size0": 300,
    "T0_size1": 1024,
    "T1_size1": 1024,
    "T2_size0": 1024,
    "row_blocks": 132,
}


@cache
def kernel() -> Kernel:
    """RMSNorm backward of two groups, whose sums of columns are joined."""
    inputs = Case((300, 1024), "bfloat16").inputs(rms_norm_backward)
    with patch.object(specialized, "FEW_GROUPS", (2,)):
        compiled = fuse(rms_norm_backward, warp_specialize=True).lower(*inputs).compile()
    return compiled.kernels[0].kernel


def across(statement: Statement) -> bool:
    return isinstance(statement, Reduce) and BLOCK_Y in statement.block_axes


def test_all_groups_have_one_barrier_more() -> None:
    roles = {s.agent.name: s.agent for s in kernel().body if isinstance(s, Branch)}
    assert list(roles["compute"].barriers) == [1, 2, 3]
    assert roles["compute"].common == 3
    assert sum(map(across, walk(kernel().body))) == 1
    check(kernel(), VALUES, target=H200)


def test_a_group_that_stays_away_is_found() -> None:
    def only_first(reduce: Reduce) -> Statement:
        if not across(reduce):
            return reduce
        first = integers.less(Symbol("block_y"), 1)
        return If(first, (reduce,), uniform=True)

    wrong = edited(kernel(), instead(Reduce, only_first), "compute")
    refused(wrong, VALUES, words="the barrier of all of compute")


def test_a_barrier_that_is_a_groups_too_is_found() -> None:
    def shared(statement: Statement) -> tuple[Statement, ...]:
        if isinstance(statement, Branch) and statement.agent.common:
            statement = replace(statement, agent=replace(statement.agent, common=0, barrier=15))
        return (statement,)

    wrong = edited(kernel(), shared)
    refused(wrong, VALUES, words="named barrier 16")
