"""Hand schedules with roles, one for each way in which roles, stages and loops may meet.

Which cases there are follows nvFuser's tests of warp specialization, and what they skip; see
`tests/roles`. Every schedule of `ring_cases` is here too, with its loads in a role.
"""

from functools import partial

import ml_dtypes
import numpy as np

from tests.support import role_chains as chains
from tests.support import role_groups as groups
from tests.support import role_loops as loops
from tests.support import role_streams as streams
from tests.support import role_sums as sums
from tests.support.ring_cases import CASES as RINGS
from tests.support.ring_cases import Case as RingCase
from tests.support.ring_loads import INTO_SHARED, Kind
from tests.support.role_case import (
    Case,
    RoleRing,
    add,
    centered,
    columns,
    double,
    halved,
    multiply,
    named,
    normalized,
    rows,
    squares,
    vectors,
)
from tests.support.role_feeds import Feed
from warpsmith import DataType, FusionDefinition, ParallelType

BY_TMA = (Kind.bulk, Kind.tma)
ROWS = (1, 3, 50, 128, 301)
"""Extents where the dimension that roles walk is that of rows: groups without work at the end."""
FEW = (1, 2, 5, 20)
"""Extents where each costs much."""
EVEN = (2, 128, 500, 1024)
"""Extents at which no word holds an element and something else."""


STREAMS = (
    *(
        Case(
            f"single_dim_{count}_roles",
            partial(streams.single_dim, roles=named(count)),
            vectors(count),
            add,
        )
        for count in (2, 3, 5)
    ),
    Case(
        "three_tensors_of_a_role",
        partial(streams.single_dim, roles=("load",) * 3),
        vectors(3),
        add,
    ),
    Case(
        "two_rings_of_a_role",
        partial(streams.single_dim, roles=("load",) * 2, rings=("first", "second")),
        vectors(2),
        add,
    ),
    Case(
        "two_tensors_of_one_of_two_roles",
        partial(streams.single_dim, roles=("load_a", "load_a", "load_b")),
        vectors(3),
        add,
    ),
    Case("different_stages", streams.different_stages, vectors(2), add),
    Case("mixed_kinds", streams.mixed_kinds, vectors(2), add),
    Case("several_dims", streams.several_dims, columns(2, rows=5), multiply, BY_TMA),
    Case(
        "several_dims_unaligned", streams.several_dims, rows(498, 2), multiply, BY_TMA, extents=FEW
    ),
    Case(
        "several_dims_vectors",
        streams.several_dims,
        columns(2, rows=5, step=4),
        multiply,
        (Kind.shared, Kind.cp_async),
    ),
    Case(
        "whole_rows",
        partial(streams.whole_rows, columns=1024),
        rows(1024, 2),
        multiply,
        (Kind.bulk, Kind.shared, Kind.cp_async),
        extents=FEW,
    ),
    Case("unroll", streams.unrolled, vectors(1), double),
    Case("unswitch", partial(streams.unrolled, kind=ParallelType.unswitch), vectors(1), double),
    Case("tiles", streams.tiles, columns(2, rows=10), add, BY_TMA),
    Case("tiles_of_many_rows", streams.tiles, rows(40, 2), add, BY_TMA, extents=ROWS),
    Case("unequal_work", streams.unequal_work, vectors(2), add),
    Case(
        "half",
        partial(streams.narrow, dtype=DataType.Half),
        vectors(2),
        add,
        extents=EVEN,
        dtype=np.float16,
    ),
    Case(
        "bfloat16",
        partial(streams.narrow, dtype=DataType.BFloat16),
        vectors(2),
        add,
        extents=EVEN,
        dtype=ml_dtypes.bfloat16,
    ),
)

CHAINS = (
    *(
        Case(
            f"transform_{times}",
            partial(chains.transformed, transforms=times),
            rows(500),
            partial(halved, times=times),
            extents=FEW,
        )
        for times in (1, 3)
    ),
    Case(
        "transform_and_store",
        partial(chains.transformed, stores=True),
        rows(500),
        partial(halved, times=1),
        extents=FEW,
    ),
    Case(
        "transform_and_store_columns",
        partial(chains.transformed, stores=True),
        columns(),
        partial(halved, times=1),
        BY_TMA,
    ),
    Case("stored_by_role", chains.stored_by_role, columns(), np.exp, BY_TMA),
    Case("copied", chains.copied, columns(), lambda x: x, BY_TMA),
    Case("forked", chains.forked, columns(), lambda x: np.exp(x) - x, BY_TMA),
    Case("two_outputs", chains.two_outputs, columns(), lambda x: (-x, np.exp(x)), BY_TMA),
    Case("two_stores", chains.two_stores, columns(), lambda x: (-x, np.exp(x)), BY_TMA),
)

LOOPS = (
    Case("merged_producer", loops.merged_producer, rows(500), np.exp, extents=FEW),
    Case("merged_producer_columns", loops.merged_producer, columns(), np.exp, BY_TMA),
    Case("merged_consumer", loops.merged_consumer, rows(500), np.exp, extents=FEW),
    Case("merged_consumer_columns", loops.merged_consumer, columns(), np.exp, BY_TMA),
    Case(
        "several_passes",
        loops.several_passes,
        rows(loops.WIDE),
        normalized,
        terms=lambda n: loops.WIDE,
        extents=FEW,
    ),
    *(
        Case(
            f"ring_of_{inner.value}_inside",
            partial(loops.ring_inside, inner=inner),
            rows(512, 2),
            add,
            extents=FEW,
        )
        for inner in Kind
    ),
    Case("ring_outside", loops.ring_outside, rows(512, 2), add, extents=FEW),
    Case(
        "two_sums",
        loops.two_sums,
        vectors(2),
        lambda x, y: (x.sum(), y.sum()),
        terms=lambda n: n,
    ),
    Case("read_twice", loops.read_twice, columns(), centered, BY_TMA, terms=lambda n: n),
    Case(
        "dynamic_threads",
        loops.dynamic_threads,
        lambda n: ((5, 64), (n, 64)),
        lambda x, w: x[:, None] * w,
        extents=(1, 2, 3, 7, 12),
    ),
    Case(
        "threads_for_many_rows",
        loops.dynamic_threads,
        lambda n: ((n, 64), (3, 64)),
        lambda x, w: x[:, None] * w,
        extents=FEW,
    ),
)

SLICES = tuple(
    Case(
        f"{'strided' if strided else 'sliced'}_{count}_groups_at_{position}",
        partial(groups.sliced, groups=count, position=position, strided=strided),
        rows(groups.COLUMNS),
        double,
        stages=tuple(s for s in (2, 3, 4, 8, 12, 24) if s % owned == 0)[:3],
        extents=ROWS,
    )
    for strided in (False, True)
    for count in (1, 2, 3)
    for position, owned in ((2, 1), (3, count), (4, count * groups.ROWS if count > 1 else 1))
)

GROUPS = (
    *SLICES,
    *(
        Case(
            f"two_loads_sliced_at_{position}",
            partial(groups.sliced, groups=2, position=position, inputs=2),
            rows(groups.COLUMNS, 2),
            lambda x, y: 2 * (x + y),
            stages=(8,),
            extents=ROWS,
        )
        for position in (2, 3, 4)
    ),
    *(
        Case(
            f"weight_by_{role or 'one_group'}_beside_{count}_groups",
            partial(groups.with_weight, groups=count, role=role),
            lambda n: ((n, groups.COLUMNS), (groups.COLUMNS,)),
            multiply,
            stages=(6,),
            extents=ROWS,
        )
        for role, count in (("", 1), *((r, c) for r in ("load", "weights") for c in (1, 2, 3)))
    ),
    *(
        Case(
            f"ping_pong_{count}_groups",
            partial(groups.ping_pong, groups=count),
            lambda n: ((n, 100),),
            lambda x: np.exp(x.sum(1)),
            BY_TMA,
            stages=tuple(range(2, 9)),
            terms=lambda n: 100 * 100,
            extents=(1, 65, 500),
        )
        for count in (2, 3)
    ),
    Case(
        "ping_pong_alone",
        partial(groups.ping_pong, groups=1, ordered=False),
        lambda n: ((n, 100),),
        lambda x: np.exp(x.sum(1)),
        BY_TMA,
        terms=lambda n: 100 * 100,
        extents=(1, 65, 500),
    ),
    *(
        Case(
            f"block_{'_'.join(map(str, block))}_along_{axis.name[-1]}{'_registers' * bool(given)}",
            partial(groups.shaped, block=block, axis=axis, registers=given),
            vectors(1),
            np.exp,
            BY_TMA if given else INTO_SHARED,
            stages=(3,),
        )
        for block in ((32, 4, 2), (128, 2, 1), (256, 1, 1))
        for axis in (ParallelType.block_x, ParallelType.block_y, ParallelType.block_z)
        for given in (None, (32, 160))
    ),
)

SUMS = (
    *(
        Case(
            f"inner_{name}_of_{blocks}_blocks",
            partial(sums.inner, reduction=reduction, blocks=blocks),
            columns(step=4),
            meaning,
            terms=lambda n: 4 * n,
        )
        for blocks in (1, 3)
        for name, reduction, meaning in (
            ("sum", sums.summed, lambda x: x.sum(1)),
            ("max", sums.largest, lambda x: x.max(1)),
        )
    ),
    *(
        Case(
            f"outer_sum_of_{blocks}_blocks",
            partial(sums.outer, blocks=blocks),
            rows(128),
            lambda x: x.sum(0),
            terms=lambda n: n,
            extents=(1, 3, 128, 500),
        )
        for blocks in (1, 3)
    ),
    Case("welford", sums.welford, columns(step=4), squares, terms=lambda n: 4 * n),
    *(
        Case(
            f"sums_by_{count}_groups",
            partial(sums.groups, count=count),
            rows(128),
            centered,
            stages=(count * 2, count * 4),
            terms=lambda n: 128,
            extents=FEW,
        )
        for count in (1, 2, 3)
    ),
)


def _with_role(case: RingCase) -> Case:
    """A schedule of `ring_cases` whose loads all are in one role."""

    def schedule(feed: Feed) -> FusionDefinition:
        return case.schedule(RoleRing(feed.kind, feed.stages, feed.stages - 1))

    def terms(extent: int) -> int:
        return max(int(np.prod(shape)) for shape in case.shapes(extent)) if case.sums else 1

    kinds = tuple(kind for kind in case.kinds if kind in INTO_SHARED)
    return Case(
        f"ring_{case.name}",
        schedule,
        case.shapes,
        case.meaning,
        kinds,
        (2, 5),
        terms,
        case.extents,
    )


CASES = (*STREAMS, *CHAINS, *LOOPS, *GROUPS, *SUMS, *map(_with_role, RINGS))


def case_named(name: str) -> Case:
    (case,) = (case for case in CASES if case.name == name)
    return case
