"""What was decided on the kernels of a call, kept on disk for other processes.

A plan is the best of several that were made and priced. Another process makes that one alone. It is
held against the call as any other is, so that an entry, whatever it says, cannot make a call wrong.
"""

from __future__ import annotations

from warpsmith.engine.emitted import cause_of, emitted_cache, load, name_of, store
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part
from warpsmith.knobs import Knobs
from warpsmith.planner.alike import Labels, shape_of
from warpsmith.planner.decided import Decided
from warpsmith.planner.segment import Unfit
from warpsmith.runtime.cache import Entries
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """How a program is cut for a call.

    Attributes:
        without: schedulers that are not to take parts of it.
        decided: what is otherwise than its structure says.
    """

    without: tuple[Unfit, ...]
    decided: Decided


def decision_of(graph: Graph, problem: Problem, knobs: Knobs) -> Decision | None:
    """What another process decided for the same program and sizes, if that can be read."""
    entries = _entries(problem, knobs)
    return None if entries is None else load(entries, _name(graph, problem), Decision)


def remember(decision: Decision, graph: Graph, problem: Problem, knobs: Knobs) -> None:
    """Keep a decision, as far as the directory can be written."""
    entries = _entries(problem, knobs)
    if entries is not None and all(unfit.key is None for unfit in decision.without):
        store(entries, _name(graph, problem), decision)


def _entries(problem: Problem, knobs: Knobs) -> Entries | None:
    """Where they are, in the same cases as kernels; what was timed is asked for each time."""
    if problem.autotune or emitted_cache(knobs) is None:
        return None
    return Entries(knobs.cache_dir, "cut", b"warpsmith cut 1\n", knobs.cache_mib << 20)


def _name(graph: Graph, problem: Problem) -> str:
    whole = Part(graph, graph.outputs, graph.needed, {}, {})
    program = cause_of(shape_of(whole, Labels(graph, {})), graph.fusion)
    sizes, lies = (tuple(sorted(each.items())) for each in (problem.values, problem.alignment))
    asked = problem.rings, problem.warp_specialize, problem.pace
    return name_of(problem.target, "cut", program, sizes, lies, asked)
