"""What was chosen for a call, and why, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from warpsmith.engine.classes import Classes, launched
from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.engine.plan import PlannedSegment
from warpsmith.engine.role_facts import order_lines, ring_line, ring_rows, role_line, role_rows
from warpsmith.engine.sync_facts import sync_lines
from warpsmith.kernel.reductions import waits_in_order
from warpsmith.planner.alike import renamed
from warpsmith.planner.cuts import cuts
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.problem import Problem

_CUTS_SHOWN = 12
"""Cuts of a program that are explained; those of a model's later layers are like the first ones."""


def explain_call(call: CallPlan, classes: Classes | None = None, *, sync: bool = False) -> str:
    """One paragraph a kernel: scheduler, runners-up, parameters, launch, resources, classes.

    Args:
        classes: of sizes that the fusion has met.
        sync: list what orders the accesses of memory, too, with the lines of CUDA.
    """
    count = len(call.launches)
    target = call.problem.target
    made_for = f"made for {target.name} ({target.family.arch})"
    lines = [f"{count} kernel{'s' if count != 1 else ''}", made_for, *_graph(call)]
    for number, (planned, launch) in enumerate(launched(call)):
        inputs, outputs = planned.segment.inputs, planned.segment.outputs
        lines.append(f"kernel {number}: {', '.join(inputs) or 'nothing'} -> {', '.join(outputs)}")
        told = _segment(planned, launch, planned.local(call.problem))
        lines += [renamed(line, planned.names) for line in told]
        if launch is not None and classes is not None:
            lines += classes.lines(planned)
        if sync and launch is not None:
            lines += sync_lines(launch.compiled.kernel, call.problem.target)
    return "\n".join(lines) + "\n"


def _graph(call: CallPlan) -> list[str]:
    """What crosses memory between the kernels, and why they are not one."""
    found = list(cuts(call.segments, call.problem, _CUTS_SHOWN + 1))
    lines = [line for cut in found[:_CUTS_SHOWN] for line in cut.lines()]
    if len(found) > _CUTS_SHOWN:
        lines.append(f"and more cuts: these are the first {_CUTS_SHOWN}")
    return lines


def _segment(planned: PlannedSegment, launch: Launch | None, problem: Problem) -> list[str]:
    candidate = planned.candidate
    if candidate is None:
        lines = ["  scheduled by hand"]
    else:
        lines = [f"  scheduler   {candidate.scheduler}"]
        lines += [f"  not {name}: {reason}" for name, reason in candidate.refusals]
    if launch is None:
        return [*lines, "  launched    no: there is nothing to compute"]
    if launch.params is not None:
        chosen = (f"{f.name}={getattr(launch.params, f.name)}" for f in fields(launch.params))
        lines.append(f"  parameters  {', '.join(chosen)}")
    if candidate is not None and (compared := candidate.predicted(problem)):
        times = (f"{name} {us:.3g} µs" for name, us in compared)
        lines.append(f"  predicted   {', '.join(times)}")
    if isinstance(launch.params, MatmulParams):
        lines += [f"    {line}" for line in str(launch.params).splitlines()]
    if candidate is not None:
        lines += [f"  faster      {line}" for line in candidate.advice(problem)]
    if candidate is not None and (reason := candidate.no_ring(problem)):
        lines.append(f"  no ring     {reason}")
    compiled = launch.compiled
    lines.append(
        f"  launch      grid {launch.grid}, block {launch.block}, "
        f"{launch.shared_bytes} bytes of shared memory"
    )
    if compiled.kernel.launch.cluster_blocks > 1:
        lines.append(
            f"  cluster     {compiled.kernel.launch.cluster_blocks} blocks run at once and reach "
            "each other's shared memory"
        )
    if waits_in_order(compiled.kernel.body):
        lines.append(
            "  order       blocks take numbers as they start, and wait for those with lower ones "
            "that share their row"
        )
    if launch.early:
        lines.append("  starts      while the kernel before it ends, and waits for it")
    if launch.reserved_bytes > launch.shared_bytes:
        lines.append(
            f"  spreads     as each block asks for {launch.reserved_bytes} bytes of shared memory"
        )
    lines.append(
        f"  resources   {compiled.n_regs} registers, {compiled.n_spills} bytes spilled, "
        f"{compiled.kernel.index_type.value} indices"
    )
    launch_values = candidate.choose(problem)[1] if candidate is not None else {}
    values = {**problem.values, **launch_values}
    lines += _roles_and_rings(launch, values)
    shortened = planned.shortened(compiled, values)
    if shortened:
        lines.append(
            f"  proof       of loops cut to {shortened} iterations: a block of this launch takes "
            "too many steps to list them all"
        )
    for name, reason in compiled.kernel.left_to_threads:
        lines.append(f"  no TMA      {name} is copied by the threads: {reason}")
    needs = [f"{expr!r} % {d} == 0" for expr, d in compiled.kernel.requirements if d > 1]
    needs += [f"{expr!r} <= {most}" for expr, most in compiled.kernel.limits]
    needs += [f"{expr!r} >= {least}" for expr, least in compiled.kernel.least]
    if needs:
        lines.append(f"  relies on   {', '.join(needs)}")
    return lines


def _roles_and_rings(launch: Launch, values: Mapping[str, int]) -> list[str]:
    """Which warps do what, and what passes between them."""
    compiled = launch.compiled
    roles = map(role_line, role_rows(compiled.kernel, values, compiled.n_regs))
    lines = [f"  role        {line}" for line in roles]
    if compiled.budgets:
        lines.append(f"  registers   {compiled.budgets}")
    rings = map(ring_line, ring_rows(compiled.kernel, values))
    lines += [f"  ring        {line}" for line in rings]
    return lines + [f"  order       {line}" for line in order_lines(compiled.kernel)]
