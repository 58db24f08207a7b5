"""Table of how often each kind of ordering runs for one tile of a matrix product, for
docs/ordering.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pages.section import Section
from warpsmith import DataType, FusionDefinition
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts
from warpsmith.kernel.rings import (
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
)
from warpsmith.kernel.traversal import children
from warpsmith.lower.pipeline import lower
from warpsmith.schedulers.matmul.heuristic import ranked
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

SECTION: Final = Section.of("counts", end="end of counts")

EDGE: Final = 4096
"""Rows, columns and depth of the product: 64 steps over k a tile."""

NVFUSER: Final[Mapping[str, str]] = {
    "barriers of the threads that compute": "2: before the stores, and behind them",
    "waits at mbarriers": "128",
    "arrivals at mbarriers": "16448: every thread that computes arrives",
    "proxy fences": "4: before each store, by all threads, behind the barrier",
    "`wgmma.fence`": "256: before each product",
    "`wgmma.commit_group`": "64",
    "`wgmma.wait_group`": "65",
    "commits of stores": "1",
    "waits for stores": "1: for all, in each tile",
}
"""What nvFuser's lowering makes of the same tile, with 64 columns a store, by its rules: a fence
before every product, a proxy fence before every store, arrivals of all threads (sources of its
passes `insert_syncs` and `circular_buffer`, and the listing of its draft 4810)."""


def product_kernel() -> tuple[Kernel, dict[str, int]]:
    """The scheduler's kernel of a large product, whose blocks load for themselves, with the sizes
    of its inputs.
    """
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.linear(a, b))
    values = {f"T{tensor}_size{dim}": EDGE for tensor in range(2) for dim in range(2)}
    candidate = select(fd.fusion, H200)
    problem = Problem(values=values, alignment={}, target=H200)
    ways = ranked(candidate.fusion, problem)
    params = next(way for way, _ in ways if way.cluster == (1, 1) and not way.ping_pong)
    return lower(candidate.scheduled(params), "product", DataType.Int32, target=H200), values


def counts(kernel: Kernel, values: Mapping[str, int]) -> Counter[str]:
    """How often each kind runs for the first tile: once for all threads that run it together.

    Arrivals count each warp that arrives, as the barrier does.
    """
    known = dict(values)
    for symbol, value in kernel.derived:
        known[symbol.name] = evaluate(value, known)
    found: Counter[str] = Counter()
    for branch in kernel.body:
        if isinstance(branch, Branch):
            warps = 1 if branch.agent.elected else evaluate(branch.agent.group_warps, known)
            for statement in branch.body:
                if isinstance(statement, For):  # over tiles
                    found += _inside(statement.body, known, warps)
    return found


def _inside(body: Sequence[Statement], known: Mapping[str, int], warps: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for statement in body:
        if isinstance(statement, For):
            for index in range(evaluate(statement.extent, dict(known))):
                here = {**known, statement.symbol.name: index}
                found += _inside(statement.body, here, warps)
        elif not isinstance(statement, If) or _holds(statement, known):
            found += _inside(children(statement), known, warps)
            kind = _kind(statement)
            found[kind] += warps if isinstance(statement, ArriveByWarp) else 1
    del found[""]
    return found


def _holds(statement: If, known: Mapping[str, int]) -> bool:
    """What the tile's own place decides is taken to hold: it lies inside."""
    try:
        return bool(evaluate(statement.condition, dict(known)))
    except KeyError:
        return True


def _kind(statement: Statement) -> str:
    match statement:
        case Synchronize():
            return "barriers of the threads that compute"
        case Await():
            return "waits at mbarriers"
        case ArriveByWarp() | Arrive() | Expect():
            return "arrivals at mbarriers"
        case FenceProxy():
            return "proxy fences"
        case FenceProducts():
            return "`wgmma.fence`"
        case CommitProducts():
            return "`wgmma.commit_group`"
        case AwaitProducts():
            return "`wgmma.wait_group`"
        case CommitCopies():
            return "commits of stores"
        case AwaitCopies():
            return "waits for stores"
    return ""


def table() -> str:
    """A line a kind, as Markdown."""
    found = counts(*product_kernel())
    lines = ["| for one tile | warpsmith | nvFuser, by its rules |", "|---|---|---|"]
    lines += [f"| {kind} | {found[kind]} | {theirs} |" for kind, theirs in NVFUSER.items()]
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with its table of counts as it is now."""
    return SECTION.put(page, table())
