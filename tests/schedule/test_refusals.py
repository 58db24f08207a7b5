"""What each schedule primitive refuses, in which words."""

import re
from collections.abc import Callable

import pytest

from tests.support.program import Program
from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule import caches, inline, propagate, transforms


class Case:
    """`T0` input `[4, n]`, `T1 = -T0`, `T2 = sum(T1, rows)`, `T3 = T1 * T1`, `T4..T6` Welford."""

    def __init__(self) -> None:
        p = Program()
        self.x = p.input(DataType.Float, (4, None))
        self.negative = p.op("neg", self.x)
        self.total = p.reduce("sum", self.negative, [1])
        self.square = p.op("mul", self.negative, self.negative)
        self.mean, self.m2, self.count = p.welford(self.negative, [1])
        p.output(self.total, self.square, p.copy(self.mean))

    def inlined(self) -> TensorView:
        inline.inline_at(self.square, 1, selected_tensors=[self.negative], best_effort=True)
        self.negative.compute_at = 1
        return self.negative

    def bound(self, kind: ParallelType = ParallelType.grid_x) -> TensorView:
        return transforms.parallelize(self.square, 0, kind)


Action = Callable[[Case], object]

REFUSED: tuple[tuple[str, str, Action], ...] = (
    (
        "WS0201",
        "axis 2 is outside the 2 loop axes of T3; use -2 to 1",
        lambda c: transforms.split(c.square, 2, 4),
    ),
    (
        "WS0201",
        "axis -3 is outside the 2 loop axes of T3; use -2 to 1",
        lambda c: transforms.parallelize(c.square, -3, ParallelType.grid_x),
    ),
    (
        "WS0202",
        "T0 is an input of the fusion and has no loops; schedule its cache: T0.cache_after()",
        lambda c: transforms.split(c.x, 0, 4),
    ),
    (
        "WS0203",
        "axis 0 of T1 is shared with its consumers (compute-at position 1); "
        "transform before inlining",
        lambda c: transforms.split(c.inlined(), 0, 2),
    ),
    (
        "WS0203",
        "T1 is already inlined at 1; transform before inlining",
        lambda c: (c.inlined(), propagate.transform_like(c.square)),
    ),
    (
        "WS0204",
        "split factor 0 of T3 axis 1 is below 1 or no integer; use a factor of 1 or more",
        lambda c: transforms.split(c.square, 1, 0),
    ),
    (
        "WS0205",
        "axis 0 of T3 is already bound to grid_x; split before parallelizing",
        lambda c: transforms.split(c.bound(), 0, 2),
    ),
    (
        "WS0205",
        "i[4 blockIdx.x] of T3 is already bound to grid_x; merge before parallelizing",
        lambda c: transforms.merge(c.bound(), 0),
    ),
    (
        "WS0206",
        "axis 1 of T3 cannot be merged with itself; name two different axes",
        lambda c: transforms.merge(c.square, 1, -1),
    ),
    (
        "WS0207",
        "axes 0 and 1 of T2 are i[4] and r[T0_size1]: an iteration cannot be merged with a "
        "reduction; reorder so that axes of one kind are merged",
        lambda c: transforms.merge(c.total, 0),
    ),
    (
        "WS0208",
        "reorder {0: 1, 1: 1} of T3 moves two axes to one place; "
        "give every axis its own new position",
        lambda c: transforms.reorder(c.square, {0: 1, 1: 1}),
    ),
    (
        "WS0209",
        "i[T0_size1] of T3 has no constant extent, which vectorize needs; "
        "split it by 2, 4, 8 or 16 first",
        lambda c: transforms.parallelize(c.square, 1, ParallelType.vectorize),
    ),
    (
        "WS0210",
        "T3 already has i[4 blockIdx.x] on grid_x; merge the two axes or use another parallel type",
        lambda c: transforms.parallelize(c.bound(), 1, ParallelType.grid_x),
    ),
    (
        "WS0211",
        "i[4] of T3 cannot be bound to mma by itself: what tensor cores, or stmatrix, do at once "
        "is three loops; call T3.tensorize() where they are the innermost",
        lambda c: transforms.parallelize(c.square, 0, ParallelType.mma),
    ),
    (
        "WS0212",
        "T3 is an input or output of the fusion and lives in global memory; "
        "set the memory type of its cache",
        lambda c: transforms.set_memory_type(c.square, MemoryType.shared),
    ),
    (
        "WS0213",
        "T1 is neither input nor output and cannot live in global memory; "
        "make it an output, or use shared or local memory",
        lambda c: transforms.set_memory_type(c.negative, MemoryType.global_),
    ),
    (
        "WS0214",
        "padding -1 of T1 is negative; give 0 or more elements",
        lambda c: transforms.pad_allocation(c.negative, -1),
    ),
    (
        "WS0221",
        "T3 has no uses to cache; use cache_before on an output",
        lambda c: caches.cache_after(c.square),
    ),
    (
        "WS0222",
        "T0 is an input of the fusion and has no definition; use cache_after",
        lambda c: caches.cache_before(c.x),
    ),
    (
        "WS0223",
        "T4 is one of 3 results of a reduction; copy it with ops.set and cache the copy",
        lambda c: caches.cache_before(c.mean),
    ),
    (
        "WS0231",
        "T3 is neither a reduction nor a matrix product; rfactor those only",
        lambda c: caches.rfactor(c.square, [0]),
    ),
    (
        "WS0232",
        "i[4] of T2 is no reduction axis; name reduction axes",
        lambda c: caches.rfactor(c.total, [0]),
    ),
    (
        "WS0233",
        "rfactor over all reduction axes of T2 leaves it none; keep at least one reduction axis",
        lambda c: caches.rfactor(c.total, [1]),
    ),
    (
        "WS0251",
        "inline position 3 is outside the 2 loops of T3; use 0 to 2",
        lambda c: inline.inline_at(c.square, 3),
    ),
    (
        "WS0252",
        "T1 can be inlined at 1 at most, not at 2; "
        "use best_effort=True or make its loops equal to its consumers'",
        lambda c: (
            transforms.reorder(c.total, {0: 0}),
            transforms.split(c.square, 1, 2),
            inline.inline_at(c.square, 2, selected_tensors=[c.negative]),
        ),
    ),
)


@pytest.mark.parametrize(("code", "words", "action"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused_in_these_words(code: str, words: str, action: Action) -> None:
    with pytest.raises(ScheduleError, match=re.escape(f"[{code}] {words}")) as refusal:
        action(Case())
    assert refusal.value.code == code
    assert refusal.value.remedy


def test_axes_of_a_scalar() -> None:
    p = Program()
    x = p.op("neg", p.input(DataType.Float, ()))
    with pytest.raises(ScheduleError, match="outside the 0 loop axes of T1; a scalar has no axes"):
        transforms.split(x, 0, 2)


def test_loops_that_join_what_is_kept_and_what_was_reduced() -> None:
    p = Program()
    x = p.op("neg", p.input(DataType.Float, (4, 6)))
    total = p.reduce("sum", x, [1])
    p.output(x, p.op("neg", total))
    transforms.merge(x, 0)
    with pytest.raises(ScheduleError, match="WS0241.*joins a dimension that T3 has with one"):
        propagate.transform_like(x, [p.fusion.outputs[1].value])


@pytest.mark.parametrize("dims", [[0], [1]])
def test_loops_that_join_what_is_kept_and_what_is_reduced(dims: list[int]) -> None:
    """All elements would have been reduced, to one."""
    p = Program()
    x = p.op("neg", p.input(DataType.Float, (4, 6)))
    p.output(x, p.reduce("sum", x, dims))
    transforms.merge(x, 0)
    with pytest.raises(ScheduleError, match="WS0241.*T2 has with one that it reduces; keep"):
        propagate.transform_like(x)


def test_layout_of_registers() -> None:
    p = Program()
    x = p.input(DataType.Float, (4, 6))
    cache = p.copy(x)
    p.output(p.op("neg", cache))
    with pytest.raises(
        ScheduleError,
        match="WS0215.*T1 is in local memory, whose layout is fixed; set its memory type",
    ):
        transforms.set_allocation_domain(cache, cache.logical)


def test_a_refused_move_changes_nothing() -> None:
    case = Case()
    before = list(case.square.loop)
    for action in (
        lambda: transforms.split(case.square, 0, 0),
        lambda: transforms.merge(case.square, 0, 0),
        lambda: transforms.reorder(case.square, {0: 1, 1: 1}),
        lambda: transforms.parallelize(case.square, 1, ParallelType.vectorize),
    ):
        with pytest.raises(ScheduleError):
            action()
    assert case.square.loop == before
    assert case.square.transforms == []
