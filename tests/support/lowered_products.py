"""A product of the matmul scheduler, as each pass leaves its kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from warpsmith import DataType, FusionDefinition
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.planner.plan import cut
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

SIZES = {"T0_size0": 4096, "T0_size1": 4096, "T1_size0": 4096, "T1_size1": 4096}


def kernels(behind: Callable[..., Any], **given: Any) -> dict[str, Kernel]:
    """The kernel of a product and what is behind it, by the pass that left it so.

    Args:
        behind: what is computed of the operations and the product.
        given: parameters of its schedule in place of those chosen.
    """
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.cast(behind(fd.ops, fd.ops.linear(a, b)), DataType.BFloat16))
    (part,) = cut(fd.fusion, target=H200)
    candidate = select(part.fusion, H200)
    chosen, _ = candidate.choose(Problem(values=SIZES, alignment={}, target=H200))
    assert isinstance(chosen, MatmulParams)
    plain: dict[str, Any] = {"parts": 1, "splits": 1, "cluster": (1, 1), "ping_pong": 0}
    found: dict[str, Kernel] = {}

    def observe(name: str, made: object) -> None:
        if isinstance(made, Kernel):
            found[name] = made

    scheduled = candidate.scheduled(replace(chosen, **plain | {"chunk": 32} | given))
    lower(scheduled, "k", DataType.Int32, observe, target=H200)
    return found
