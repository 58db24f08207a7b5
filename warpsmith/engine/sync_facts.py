"""What orders a kernel's accesses, each with the lines of CUDA that it became."""

from __future__ import annotations

from collections import defaultdict

from warpsmith.codegen.cuda import printed
from warpsmith.kernel.kernel import Kernel
from warpsmith.targets.target import Target


def sync_lines(kernel: Kernel, target: Target) -> list[str]:
    """All edges of a kernel: what depends on what, what orders it and why, and where it stands.

    Lines are found by printing the kernel; a statement that was copied has several.
    """
    cuda = printed(kernel, target)
    text = cuda.named(kernel.name).splitlines()
    places: dict[int, list[int]] = defaultdict(list)
    for number, line in cuda.places:
        places[number].append(line)
    result: list[str] = []
    for order in kernel.orders:
        result.append(f"  edge        {order.buffer}: {order.hazard}, {order.carried}")
        result.append(f"    first     {order.first}")
        result.append(f"    then      {order.second}")
        result.append(f"    by        {order.mechanism}: {order.why}")
        lines = sorted({line for number in order.statements for line in places[number]})
        result += [f"    line {line:<5}{text[line - 1].strip()}" for line in lines]
    return result
