"""Rows that begin anywhere: vectors that go across where they begin and end."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.schedulers import test_specialized_norms as forward
from tests.support.norms_backward import apart, shifted
from warpsmith import DataType, knobs, ops
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.mapping import Group
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import CopyVector, If
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.rows import few, once

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PROGRAMS = (forward.softmax, forward.layer_norm, forward.rms_norm, forward.softmax_backward)


def compiled(program: Any, *inputs: Any) -> Any:
    return warpsmith.fuse(program, warp_specialize=False).lower(*inputs).compile()


def goes_across(made: Any) -> bool:
    return "across=True" in made.explain()


def normal(*shape: int, dtype: Any = BFLOAT16) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def softmax(x: Any) -> Any:
    e = ops.exp(x - ops.max(x, [-1], keepdim=True))
    return e / ops.sum(e, [-1], keepdim=True)


def held(program: Any, *inputs: np.ndarray) -> Any:
    """A kernel with such vectors, clean and right under several orders of warps."""
    made = compiled(program, *inputs)
    assert goes_across(made)
    assert made.verify(schedules=2).verdict == "clean"
    return made


@pytest.fixture
def as_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows have the shapes of many."""
    monkeypatch.setattr(few, "MOST", 0)


@pytest.fixture
def whatever_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow accesses are not considered, where vectors can go across."""
    every = once.candidates

    def candidates(*given: Any) -> Any:
        found = every(*given)
        return [params for params in found if params.across] or found

    monkeypatch.setattr(once, "candidates", candidates)


@pytest.mark.few(3)
@pytest.mark.usefixtures("whatever_is_faster")
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("columns", [*range(1025, 1032), 2307, 4099])
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_that_begin_anywhere(program: Any, columns: int, rows: int) -> None:
    """What stands before a row in its first 16 bytes may be anything, and so what is behind it."""
    inputs = forward.drawn(program, rows, columns, "bfloat16")
    held(program, *inputs)
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(program, warp_specialize=False)(*inputs)
    results = found if isinstance(found, tuple) else (found,)
    for result, wanted in zip(results, forward.exact(program, inputs), strict=True):
        close = np.testing.assert_allclose
        close(np.asarray(result).astype(np.float64), wanted, 2.0**-7, 1e-3)


@pytest.mark.usefixtures("whatever_is_faster")
@pytest.mark.parametrize("columns", [49, 111])
def test_short_rows_of_several_inputs(columns: int) -> None:
    """Two and more of one warp's, and heads that are all of a row's first vector."""
    inputs = forward.drawn(forward.softmax_backward, 9, columns, "bfloat16")
    held(forward.softmax_backward, *inputs)
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(forward.softmax_backward, warp_specialize=False)(*inputs)
    (wanted,) = forward.exact(forward.softmax_backward, inputs)
    np.testing.assert_allclose(np.asarray(found).astype(np.float64), wanted, 2.0**-7, 1e-3)
    alone = forward.drawn(forward.softmax, 9, columns, "bfloat16")
    assert not goes_across(compiled(forward.softmax, *alone))


@pytest.mark.few(2)
@pytest.mark.usefixtures("whatever_is_faster")
@pytest.mark.parametrize("columns", [517, 518, 519, 2050, 1033])
def test_floats(columns: int) -> None:
    held(softmax, normal(3, columns, dtype=np.float32))


def test_several_dimensions_of_rows() -> None:
    held(softmax, normal(2, 2, 3, 1027))


def planes(x: Any, weight: Any) -> Any:
    """Instance norm of [N, C, H, W]; weights are by channel, or by place in a plane."""
    wide = ops.cast(x, DataType.Float)
    variance, mean = ops.var_mean(wide, [2, 3], 0, keepdim=True)
    normal = (wide - mean) * ops.rsqrt(variance + 1e-5)
    return ops.cast(normal * weight, DataType.BFloat16)


@pytest.mark.usefixtures("whatever_is_faster")
def test_what_is_reduced_of_several_dimensions() -> None:
    held(planes, normal(2, 3, 23, 23), normal(3, 1, 1, dtype=np.float32))


def test_weights_of_as_many_dimensions_are_not_read_across() -> None:
    made = compiled(planes, normal(2, 3, 23, 23), normal(23, 23, dtype=np.float32))
    assert not goes_across(made)


def test_types_of_several_sizes() -> None:
    """A vector is the widest of which the longest elements have 16 bytes."""

    def program(a: Any, b: Any) -> Any:
        wide = ops.cast(a, DataType.Float) + b
        return wide / ops.sum(wide * wide, [-1], keepdim=True), ops.cast(wide, DataType.BFloat16)

    held(program, normal(3, 1027), normal(3, 1027, dtype=np.float32))


def test_operations_that_branch_on_what_lies_behind_all_rows() -> None:
    held(lambda x: softmax(ops.log(x * x + 1.0)), normal(2, 1027, dtype=np.float32))


def test_what_several_rows_share(as_of_many: None) -> None:
    """Four weights, of six rows each: they begin elsewhere than these, and are read in vectors."""

    def program(x: Any, weight: Any) -> Any:
        return softmax(ops.cast(x, DataType.Float) * weight)

    made = held(program, normal(4, 6, 1027), normal(4, 1, 1027))
    copies = [s for s in walk(made.kernels[0].kernel.body) if isinstance(s, CopyVector)]
    assert {s.source.name for s in copies if s.anywhere != integers.ZERO} == {"T1"}


def test_passes_between_the_first_and_the_last_ask_nothing(as_of_many: None) -> None:
    made = held(softmax, normal(2, 12289))
    text = made.kernels[0].cuda
    middle = text.split("m = 0; ", 1)[1].split("#pragma unroll\n  for", 1)[0]
    assert "max::combine" in middle
    assert "if (" not in middle


def test_lanes_compare_with_numbers_and_weights_ask_nothing() -> None:
    def program(x: Any, weight: Any) -> Any:
        return softmax(ops.cast(x, DataType.Float) * ops.cast(weight, DataType.Float))

    made = held(program, normal(3, 2327), normal(2327))
    asked = [s for s in walk(made.kernels[0].kernel.body) if isinstance(s, If)]
    inside = [s for each in asked for s in each.body if isinstance(s, CopyVector)]
    assert all(copy.anywhere == integers.ZERO for copy in inside)
    lanes = {c for s in asked for c in integers.conjuncts(s.condition) if "i1" in repr(c)}
    assert {repr(condition.args[1]) for condition in lanes} == {"add(i1, 1)", "mul(i1, -1)"}


@pytest.mark.parametrize("side", ["begin", "end"])
def test_a_kernel_that_takes_in_its_neighbours_is_found(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[Derivation, Group], Expr] = Derivation._within

    def within(self: Derivation, group: Group) -> Expr:
        condition = real(self, group)
        parts = list(integers.conjuncts(condition))
        if self.place(group) == self.index(group) or len(parts) != 2:
            return condition
        which = ("begin", "end").index(side)
        below, above = parts[which].args
        parts[which] = integers.less(below, integers.add(above, 1))
        return integers.conjunction(*parts)

    monkeypatch.setattr(Derivation, "_within", within)
    made = compiled(lambda x: x * ops.sum(x, [-1], keepdim=True), normal(3, 1027))
    assert made.verify(schedules=1).verdict == "findings"


def doubled(x: Any) -> Any:
    return softmax(x) * 2.0


@pytest.mark.parametrize(
    "x",
    [
        normal(3, 1032),
        normal(3, 301),
        normal(3, 1027, dtype=np.float64),
        shifted(normal(3, 1027)),
        apart(normal(3, 1027), 3),
    ],
    ids=["whole vectors", "short", "long elements", "an odd address", "room between rows"],
)
def test_who_does_not(x: np.ndarray) -> None:
    made = compiled(doubled, x)
    assert not goes_across(made)
    assert made.verify(schedules=1).verdict == "clean"


def test_dropout_and_results_in_the_place_of_inputs_do_not() -> None:
    """Words are drawn by places in rows; and a neighbour's vector has a part of the result."""

    def dropped(x: Any) -> Any:
        return ops.dropout(softmax(x), 0.5, rng_seed=1, rng_offset=0)

    assert not goes_across(compiled(dropped, normal(3, 1027)))
    with warpsmith.FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        wide = fd.ops.cast(x, DataType.Float)
        total = fd.ops.broadcast(fd.ops.sum(wide, [1]), [False, True])
        fd.add_output(fd.ops.cast(fd.ops.div(wide, total), DataType.BFloat16), x)
    given = np.abs(normal(3, 1027)) + BFLOAT16.type(1)
    wanted = given.astype(np.float64) / given.astype(np.float64).sum(1, keepdims=True)
    with knobs.scope(device="sim"):
        fd.execute([given])
    assert "across=True" not in fd.explain()
    np.testing.assert_allclose(given.astype(np.float64), wanted, 2.0**-7)
