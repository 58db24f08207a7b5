"""Products of the matmul scheduler: their kernels, as each pass leaves them, and runs of these."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.protocol.edits import Change, instead
from tests.support.passing import by_pass
from tests.support.simulating import simulated
from warpsmith import DataType, FusionDefinition
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.products import AwaitProducts
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.planner.plan import cut
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

SMALL: dict[str, Any] = {"tile": (64, 64, 64), "stages": 3, "chunk": 64, "store_stages": 2}
SMALL |= {"blocks": 1, "group": 1}
"""One block of one warp group, which loops over small tiles."""


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    """What a call with operands `[m, k]` and `[n, k]` gives the kernel."""
    return {"T0_size0": m, "T0_size1": k, "T1_size0": n, "T1_size1": k}


def alone(ops: Any, product: Any) -> Any:
    """Nothing behind the product."""
    return product


def kernels(behind: Callable[..., Any] = alone, **given: Any) -> dict[str, Kernel]:
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
    chosen, _ = candidate.choose(Problem(values=sizes(4096, 4096, 4096), alignment={}, target=H200))
    assert isinstance(chosen, MatmulParams)
    plain: dict[str, Any] = {"parts": 1, "splits": 1, "cluster": (1, 1), "ping_pong": 0}
    plain |= {"stream": False, "once_read": (False, False)}
    return by_pass(candidate.scheduled(replace(chosen, **plain | {"chunk": 32} | given)))


def product_kernel(**given: Any) -> Kernel:
    """The kernel of a product alone, lowered."""
    return list(kernels(**given).values())[-1]


def pending(count: int, wanted: int) -> Change:
    """The wait for all groups but some leaves another number of them."""
    return instead(AwaitProducts, lambda s: replace(s, pending=wanted), pending=count)


def check_product(kernel: Kernel, m: int, n: int, k: int, *, schedules: int) -> None:
    """Run the kernel on the simulator: clean under all schedules, and exact.

    Inputs are small whole numbers, so that every sum is exact in float, and rounded once.
    """
    random = np.random.default_rng(m * n + k)
    kind = numpy_dtype(DataType.BFloat16)
    a, b = (random.integers(-4, 5, (lines, k)).astype(kind) for lines in (m, n))
    wanted = (a.astype(np.float64) @ b.astype(np.float64).T).astype(kind)
    first, second, result = (buffer.name for buffer in kernel.parameters)
    results = simulated(kernel, sizes(m, n, k), {first: a, second: b}, schedules=schedules)
    np.testing.assert_array_equal(results[result].reshape(m, n), wanted)
