"""Variants of a kernel, of which the one that spills least is taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.emitted import cause
from warpsmith.engine.once import Once
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.targets.target import Target

if TYPE_CHECKING:
    from warpsmith.engine.emission import Lowered

FEW_REGISTERS, MANY_ELEMENTS = 128, 32
"""Registers of a thread, and elements of rows that it has in them. With so few and so many, and
several rows of threads in a block, kernels that multiply are taken to spill: of 22 LayerNorms
backward 3 are like that, and 2 of these spill (NVRTC 13.0)."""


def fewest_spills(
    candidate: Candidate, params: Params, compile_: Callable[..., CompiledKernel], part: Segment
) -> CompiledKernel:
    """The kernel of these parameters: one that spills masks last passes alone, and then divides
    where another would multiply, if that spills less. The candidate is made of the `part`.

    Where one that multiplies is likely to spill, one that divides is tried before it.
    """
    lowered: dict[Params, Once[Lowered]] = {}

    def compiled(params: Params, *, quotients: bool) -> CompiledKernel:
        return compile_(
            partial(candidate.scheduled, params),
            candidate.scheduler,
            notes=(repr(params),),
            cause=lambda: (cause(part), params, quotients),
            harmless=params.harmless_spills,
            lowered=lowered.setdefault(params, Once()),
            quotients=quotients,
        )

    chosen = params.without_full_passes()
    divides = _may_spill(candidate, chosen, part.target)
    best = compiled(chosen, quotients=divides)
    if best.n_spills > candidate.few_spills and chosen != params:
        masked = compiled(params, quotients=divides)
        both = (best, chosen), (masked, params)
        best, chosen = min(both, key=lambda each: each[0].n_spills)
    if best.n_spills > candidate.few_spills and candidate.multiplies(params):
        other = compiled(chosen, quotients=not divides)
        best = min(best, other, key=lambda kernel: kernel.n_spills)
    return best


def _may_spill(candidate: Candidate, params: Params, target: Target) -> bool:
    """Whether a kernel that multiplies is likely to spill."""
    if candidate.few_spills or not (isinstance(params, RowParams) and candidate.multiplies(params)):
        return False
    registers = target.family.limits.registers_each(
        params.block_x * params.block_y * params.blocks_per_sm
    )
    many = params.row_elements >= MANY_ELEMENTS
    return registers <= FEW_REGISTERS and many and params.block_y > 1
