"""Agents that skip by what memory says must do so alike."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.edits import edited
from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.groups import looks_up
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Let, Statement
from warpsmith.kernel.traversal import walk
from warpsmith.protocol.checks import check
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

SIZES = {"T0_size0": 300, "T0_size1": 128, "T1_size0": 3, "T1_size1": 64, "T1_size2": 128}
SIZES |= {"T2_size0": 3}


@pytest.fixture(scope="module")
def grouped() -> Kernel:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        w = fd.define_tensor([-1, -1, -1], True, DataType.BFloat16)
        ends = fd.define_tensor([-1], True, DataType.Int)
        fd.add_output(fd.ops.grouped_matmul(x, w, ends))
    candidate = select(fd.fusion, H200)
    ranked = heuristic.ranked(candidate.fusion, Problem(values=SIZES, alignment={}, target=H200))
    params, _ = ranked[0]
    return lowered(candidate.scheduled(params))


def test_both_agents_ask_memory_and_are_proved(grouped: Kernel) -> None:
    check(grouped, SIZES, target=H200)
    for role in ("load", "compute"):
        (branch,) = (s for s in grouped.body if isinstance(s, Branch) and s.agent.name == role)
        lets = [s for s in walk(branch.body) if isinstance(s, Let) and looks_up(s.value)]
        assert lets, f"{role} asks memory"


def unasked(statement: Statement) -> tuple[Statement, ...]:
    """Everything in place of what stands under a uniform condition."""
    return statement.body if isinstance(statement, If) and statement.uniform else (statement,)


def later(statement: Statement) -> tuple[Statement, ...]:
    """A search for the group of the next part."""
    if not isinstance(statement, Let) or not _is_search(statement.value):
        return (statement,)
    *known, part = statement.value.args
    args = (*known, integers.add(part, 1))
    return (replace(statement, value=Apply("group", args, DataType.Index)),)


def _is_search(value: Expr) -> bool:
    return isinstance(value, Apply) and value.op == "group"


@pytest.mark.parametrize("role", ["load", "compute"])
@pytest.mark.parametrize("change", [unasked, later])
def test_one_that_decides_otherwise_is_refused(grouped: Kernel, role: str, change: Any) -> None:
    with pytest.raises(ProtocolError, match="WS0922") as error:
        check(edited(grouped, change, role), SIZES, target=H200)
    assert "skip alike" in str(error.value)
