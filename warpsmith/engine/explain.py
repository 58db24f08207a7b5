"""What was chosen for a call, and why, in words."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.engine.classes import Classes, launched
from warpsmith.engine.facts import CallFacts, Choice, LaunchFacts, facts_of
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.role_facts import ring_line, role_line
from warpsmith.engine.sync_facts import sync_lines

_CUTS_SHOWN = 12
"""Cuts of a program that are explained; those of a model's later layers are like the first ones."""


def explain_call(call: CallPlan, classes: Classes | None = None, *, sync: bool = False) -> str:
    """One paragraph a kernel: scheduler, runners-up, parameters, launch, resources, classes.

    Args:
        classes: of sizes that the fusion has met.
        sync: list what orders the accesses of memory, too, with the lines of CUDA.
    """
    facts = facts_of(call, _CUTS_SHOWN)
    count = sum(kernel.choice.launch is not None for kernel in facts.kernels)
    made_for = f"made for {facts.target.name} ({facts.target.family.arch})"
    lines = [f"{count} kernel{'s' if count != 1 else ''}", made_for, *_cut_lines(facts)]
    for kernel, (planned, launch) in zip(facts.kernels, launched(call), strict=True):
        inputs = ", ".join(each.name for each in kernel.reads)
        outputs = ", ".join(each.name for each in kernel.writes)
        lines.append(f"kernel {kernel.number}: {inputs or 'nothing'} -> {outputs}")
        lines += _choice_lines(kernel.choice)
        if launch is not None and classes is not None:
            lines += classes.lines(planned)
        if sync and launch is not None:
            lines += sync_lines(launch.compiled.kernel, facts.target)
    return "\n".join(lines) + "\n"


def _cut_lines(facts: CallFacts) -> Iterator[str]:
    """What crosses memory between the kernels, and why they are not one."""
    for cut in facts.cuts:
        yield from cut.lines()
    if facts.more_cuts:
        yield f"and more cuts: these are the first {len(facts.cuts)}"


def _choice_lines(choice: Choice) -> Iterator[str]:
    if not choice.scheduler:
        yield "  scheduled by hand"
    else:
        yield f"  scheduler   {choice.scheduler}"
        yield from (f"  not {name}: {reason}" for name, reason in choice.refusals)
    if choice.launch is None:
        yield "  launched    no: there is nothing to compute, to add up, or to move"
        return
    if choice.parameters:
        yield f"  parameters  {', '.join(f'{name}={value}' for name, value in choice.parameters)}"
    if choice.compared:
        yield f"  predicted   {', '.join(f'{name} {us:.3g} µs' for name, us in choice.compared)}"
    yield from (f"    {line}" for line in choice.words)
    yield from (f"  faster      {line}" for line in choice.advice)
    if choice.no_ring:
        yield f"  no ring     {choice.no_ring}"
    yield from _launch_lines(choice.launch)


def _launch_lines(launch: LaunchFacts) -> Iterator[str]:
    yield (
        f"  launch      grid {launch.grid}, block {launch.block}, "
        f"{launch.shared_bytes} bytes of shared memory"
    )
    if launch.cluster_blocks > 1:
        yield (
            f"  cluster     {launch.cluster_blocks} blocks run at once and reach each other's "
            "shared memory"
        )
    if launch.in_order:
        yield (
            "  order       blocks take numbers as they start, and wait for those with lower ones "
            "that share their row"
        )
    if launch.together:
        yield "  together    all blocks run at once, and wait for each other"
    if launch.early:
        yield "  starts      while the kernel before it ends, and waits for it"
    if launch.reserved_bytes > launch.shared_bytes:
        asked = launch.reserved_bytes
        yield f"  spreads     as each block asks for {asked} bytes of shared memory"
    yield (
        f"  resources   {launch.registers} registers, {launch.spills} bytes spilled, "
        f"{launch.indices} indices"
    )
    yield from (f"  role        {role_line(row)}" for row in launch.roles)
    if launch.budgets:
        yield f"  registers   {launch.budgets}"
    yield from (f"  ring        {ring_line(row)}" for row in launch.rings)
    yield from (f"  order       {line}" for line in launch.orders)
    if launch.shortened:
        yield (
            f"  proof       of loops cut to {launch.shortened} iterations: a block of this launch "
            "takes too many steps to list them all"
        )
    for name, reason in launch.left_to_threads:
        yield f"  no TMA      {name} is copied by the threads: {reason}"
    if launch.needs:
        yield f"  relies on   {', '.join(launch.needs)}"
