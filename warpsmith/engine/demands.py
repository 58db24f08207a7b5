"""What a kernel relies on of a call: sizes, strides and addresses."""

from __future__ import annotations

import math

from warpsmith.engine.compiled import CompiledKernel
from warpsmith.errors import ArgumentError
from warpsmith.ir.scalar import evaluate
from warpsmith.schedulers.problem import Problem

TMA_BYTES = 16
"""What sizes, strides and addresses of the TMA unit's copies are multiples of (PTX ISA)."""


def check_call(compiled: CompiledKernel, problem: Problem, launch_values: dict[str, int]) -> None:
    """Refuse a call that breaks what the kernel's vector accesses rely on."""
    values = {**problem.values, **launch_values}
    for expr, divisor in compiled.kernel.requirements:
        found = evaluate(expr, values)
        if found % divisor:
            raise ArgumentError(
                f"{expr!r} is {found}, and {compiled.name} was scheduled for multiples of "
                f"{divisor}",
                code="WS0321",
                remedy="vectorize less, or pass sizes and strides that divide",
            )
    for expr, most in compiled.kernel.limits:
        found = evaluate(expr, values)
        if found > most:
            raise ArgumentError(
                f"{expr!r} is {found}, and {compiled.name} was scheduled for at most {most}",
                code="WS0325",
                remedy="schedule it for the larger size",
            )
    for expr, least in compiled.kernel.least:
        found = evaluate(expr, values)
        if found < least:
            raise ArgumentError(
                f"{expr!r} is {found}, and {compiled.name} was scheduled for at least {least}",
                code="WS0328",
                remedy="schedule it for the smaller size",
            )
    for name, size in compiled.kernel.alignments:
        if problem.alignment.get(name, 16) % min(size, 16):
            raise ArgumentError(
                f"the address of {name} is not a multiple of {min(size, 16)} bytes, which "
                f"{compiled.name} was scheduled for",
                code="WS0322",
                remedy="vectorize less, or pass an aligned tensor",
            )


def left_to_threads(
    compiled: CompiledKernel, problem: Problem, launch_values: dict[str, int]
) -> tuple[tuple[str, int], ...]:
    """Tensors that the TMA unit cannot copy in this call, with what their addresses allow, bytes.

    It takes addresses, sizes and strides that are multiples of 16 bytes.
    """
    values = {**problem.values, **launch_values}
    found = []
    for need in compiled.kernel.tile_needs:
        sizes = (evaluate(amount, values) for amount in need.bytes)
        alignment = math.gcd(TMA_BYTES, problem.alignment.get(need.memory, TMA_BYTES), *sizes)
        if alignment < TMA_BYTES:
            found.append((need.tensor, math.gcd(alignment, evaluate(need.row, values))))
    return tuple(found)
