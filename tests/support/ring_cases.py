"""Hand schedules with circular buffers, one for each way in which loops and stages may meet.

Which cases there are follows nvFuser's tests of circular buffers; see `tests/rings`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.support import ring_maps as maps
from tests.support import ring_matmuls as matmuls
from tests.support import ring_reductions as reductions
from tests.support.ring_loads import ALL, BY_THREADS, INTO_SHARED, Kind, Ring
from warpsmith import FusionDefinition

EXTENTS = (1, 3, 128, 500, 1024)
"""Of the dimension that the ring walks."""

LONG = (*EXTENTS, 3000)
"""With one at which nine stages are used again, too, where tiles are large."""

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A fusion with its schedule.

    Attributes:
        schedule: makes and schedules it; sizes are left to the calls.
        shapes: of its inputs, where the ring's dimension has the given extent.
        meaning: what it computes, of float64 arrays.
        kinds: loads that the schedule is made for.
        sums: results are sums of many terms.
        extents: of the ring's dimension, with fewer and with more tiles than there are stages.
    """

    name: str
    schedule: Callable[[Ring], FusionDefinition]
    shapes: Callable[[int], tuple[tuple[int, ...], ...]]
    meaning: Callable[..., Array]
    kinds: tuple[Kind, ...] = ALL
    sums: bool = False
    extents: tuple[int, ...] = EXTENTS

    def inputs(self, extent: int, seed: int) -> list[Array]:
        """Fresh random arrays."""
        random = np.random.default_rng([seed, extent])
        return [random.uniform(-2, 2, shape).astype(np.float32) for shape in self.shapes(extent)]

    def wanted(self, inputs: list[Array]) -> Array:
        """The result in float64."""
        return self.meaning(*(array.astype(np.float64) for array in inputs))

    def check(self, result: Array, inputs: list[Array]) -> None:
        """Hold a result against the meaning."""
        terms = max(array.size for array in inputs) if self.sums else 1
        tolerance = 1e-6 * (1 + terms**0.5)
        np.testing.assert_allclose(result, self.wanted(inputs), rtol=1e-5, atol=tolerance)


def _double(x: Array) -> Array:
    return 2 * x


def _add(x: Array, y: Array) -> Array:
    return x + y


CASES = (
    Case("single_dim_1", maps.single_dim_1, lambda n: ((n,),), _double),
    Case("single_dim_2", maps.single_dim_2, lambda n: ((n,),), _double, extents=LONG),
    Case("single_dim_3", maps.single_dim_3, lambda n: ((n,),), _double),
    Case("shared_grid", maps.shared_grid, lambda n: ((n,),), _double, extents=LONG),
    Case(
        "vector_loads",
        maps.vector_loads,
        lambda n: ((n,),),
        _double,
        BY_THREADS,
        extents=LONG,
    ),
    Case("vector_reads", maps.vector_reads, lambda n: ((n,),), _double, INTO_SHARED, extents=LONG),
    Case("vectorize", maps.vectorize, lambda n: ((n,),), _double, INTO_SHARED, extents=LONG),
    Case("unroll", maps.unroll, lambda n: ((n,),), _double, extents=LONG),
    Case("unswitch", maps.unswitch, lambda n: ((n,),), _double, extents=LONG),
    Case("multi_dim", maps.multi_dim, lambda n: ((10, n),), _double),
    Case("one_ring", maps.one_ring, lambda n: ((n,), (n,)), _add, extents=LONG),
    Case("separate_rings", maps.separate_rings, lambda n: ((n,), (n,)), _add, extents=LONG),
    Case("different_rings", maps.different_rings, lambda n: ((n,), (n,)), _add, extents=LONG),
    Case("mixed_kinds", maps.mixed_kinds, lambda n: ((n,), (n,)), _add, extents=LONG),
    Case("nested", maps.nested, lambda n: ((n, 8), (3, n, 8)), _add),
    Case("outer_loop", maps.outer_loop, lambda n: ((3, n),), _double, extents=LONG),
    Case("merged_loops", maps.merged_loops, lambda n: ((3, n),), _double),
    Case("store_ring", maps.store_ring, lambda n: ((n,),), _double, INTO_SHARED, extents=LONG),
    Case("pointwise", maps.pointwise, lambda n: ((5, n), (5, n)), _add),
    Case(
        "inner_reduction",
        reductions.inner,
        lambda n: ((3, n),),
        lambda x: x.sum(1),
        sums=True,
    ),
    Case(
        "outer_reduction",
        reductions.outer,
        lambda n: ((n, 32),),
        lambda x: x.sum(0),
        sums=True,
    ),
    Case(
        "persistent",
        reductions.persistent,
        lambda n: ((n, 32),),
        lambda x: x - x.sum(1, keepdims=True),
        sums=True,
    ),
    Case(
        "persistent_registers",
        reductions.persistent_registers,
        lambda n: ((n, 32),),
        lambda x: x - x.sum(1, keepdims=True),
        INTO_SHARED,
        sums=True,
    ),
    Case(
        "matmul",
        matmuls.matmul,
        lambda n: ((10, n), (n, 12)),
        lambda a, b: a @ b,
        INTO_SHARED,
        sums=True,
    ),
    Case(
        "matmul_broadcast",
        matmuls.matmul_broadcast,
        lambda n: ((10, n, 1), (1, n, 12)),
        lambda a, b: a[:, :, 0] @ b[0],
        INTO_SHARED,
        sums=True,
    ),
    Case(
        "block_gemm_cache",
        matmuls.block_gemm_cache,
        lambda n: ((10, n), (n, 12)),
        lambda a, b: a @ b,
        INTO_SHARED,
        sums=True,
    ),
)

PRIVATE = (maps.single_dim_1, maps.single_dim_2, maps.single_dim_3, maps.unroll, maps.vector_loads)
"""Schedules by which each thread reads nothing but what it loaded itself."""
