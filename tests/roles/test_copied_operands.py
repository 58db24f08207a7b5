"""Operands of tensor cores that threads bring: by `cp.async`, or by loads and stores."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest

from tests.protocol.edits import edited, instead, refused, without
from tests.support.launching import clean_result
from tests.support.matmuls import check, operands
from tests.support.meeting_kernels import planned_kernel
from tests.support.meetings import MEETINGS
from tests.support.product_schedules import by_hand
from tests.support.simulating import reported
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.engine.proofs import prove
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement
from warpsmith.kernel.rings import AwaitCopies, FenceProxy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check_any_sizes
from warpsmith.sim.report import Report
from warpsmith.targets.hopper import H200

M, N, K = 128, 64, 448
VALUES = {"T0_size0": M, "T0_size1": K, "T1_size0": N, "T1_size1": K}
"""One tile, and seven fills of four stages."""

SET = LoadStoreOpType.set


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("sizes", "changes"),
    [
        ((200, 72, 136), {"copied": "ab", "stages": 4}),
        ((200, 72, 136), {"copied": "b", "role": ""}),
        ((200, 70, 133), {"copied": "ab", "vector": 1, "how": SET}),
        ((130, 72, 136), {"copied": "a", "vector": 8, "how": SET, "role": ""}),
        ((200, 70, 134), {"copied": "ab", "vector": 2, "columns": 128}),
        ((200, 72, 132), {"copied": "ab", "vector": 4, "role": ""}),
        ((200, 136, 136), {"copied": "ab", "turned": "ab", "vector": 4}),
        ((200, 136, 136), {"copied": "b", "turned": "b", "vector": 4, "role": ""}),
        ((200, 72, 136), {"copied": "a", "turned": "a", "how": SET, "stages": 5}),
        ((200, 72, 136), {"copied": "ab", "dtype": DataType.Half, "stages": 6}),
        ((100, 72, 264), {"copied": "ab", "whole": 2, "stages": 4}),
        ((200, 72, 8), {"copied": "ab", "stages": 6}),
        ((200, 72, 0), {"copied": "ab", "role": ""}),
    ],
)
def test_by_the_schedule(sizes: tuple[int, int, int], changes: dict[str, Any]) -> None:
    """Past the ends of m, n and k they are 0, in a role of their own or of all warps."""
    x, weight = operands(*sizes, seed=1, dtype=changes.get("dtype", DataType.BFloat16))
    turned = changes.get("turned", "")
    given = [
        np.asfortranarray(t) if n in turned else t for n, t in zip("ab", (x, weight), strict=True)
    ]
    result = clean_result(by_hand(**changes), given)
    check(result, x, weight)


@pytest.mark.few(3)
@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("k", [140, 138, 137])
def test_where_the_unit_cannot(k: int, stages: int) -> None:
    """Rows at multiples of 8, 4 and 2 bytes."""
    x, weight = operands(200, 72, k, seed=1)
    fd = by_hand(stages=stages)
    check(clean_result(fd, [x, weight]), x, weight)
    said = fd.explain()
    assert "load: copy, warps 0 to 3, 128 threads" in said
    assert said.count("no TMA") == 2


def test_what_begins_anywhere() -> None:
    """Words are read whole, and nothing of what is beside the tensor is used."""
    x, weight = operands(70, 40, 129, seed=2)
    room = np.empty(x.size + 3, x.dtype)
    shifted = room[3:].reshape(x.shape)
    shifted[:] = x
    check(clean_result(by_hand(), [shifted, weight]), x, weight)


def test_an_operand_that_threads_compute() -> None:
    """It lies where its swizzle begins, and is 0 past its ends."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([60, 50], True, DataType.Half)
        weight = fd.define_tensor([40, 50], True, DataType.Int8)
        narrow: Any = fd.ops.cast(weight, DataType.Half)
        out: Any = fd.ops.linear(x, narrow, dtype=DataType.Float)
        fd.add_output(out)
        product, tile = cast(Any, out.cache_before()), cast(Any, x.cache_after())
        for tensor, rows, columns in (
            (out, 64, 40),
            (product, 64, 40),
            (tile, 64, 64),
            (narrow, 40, 64),
        ):
            tensor.split(1, columns)
            tensor.split(0, rows)
            tensor.reorder({1: 2, 2: 1})
        for tensor in (tile, narrow):
            tensor.set_memory_type(MemoryType.shared)
            tensor.set_swizzle(128)
            tensor.merge(2)
            tensor.split(2, 128)
            tensor.axis(3).parallelize(ParallelType.block_x)
        product.split(4, 16)
        product.reorder({4: 2})
        product.tensorize()
        out.split_fragments()
        out.axis(2).parallelize(ParallelType.block_x)
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 9, (rows, 50)) for rows in (60, 40))
    result = clean_result(fd, [a.astype(np.float16), b.astype(np.int8)])
    np.testing.assert_array_equal(result, a @ b.T)


@cache
def right(how: LoadStoreOpType = LoadStoreOpType.cp_async, role: str = "load") -> Kernel:
    fusion = by_hand(copied="ab", how=how, role=role, stages=4).fusion
    return lower(fusion, "product", DataType.Int32, target=H200)


def report_of(kernel: Kernel) -> Report:
    arrays = dict(zip(("T0", "T1"), operands(M, N, K, seed=3), strict=True))
    return reported(kernel, VALUES, arrays, schedules=4)


def test_copies_are_on_their_way_in_all_stages_but_two() -> None:
    prove(right(), VALUES, H200)
    waits = [s.pending for s in walk(right().body) if isinstance(s, AwaitCopies)]
    assert waits == [2, 0]
    assert all(verdict.steps for verdict in check_any_sizes(right(), target=H200))


def one_more(wait: AwaitCopies) -> Statement:
    return replace(wait, pending=wait.pending + 1)


def never_told(branch: Branch) -> Statement:
    """Of the last stages nobody tells."""
    left = tuple(s for s in branch.body if not isinstance(s, If))
    return replace(branch, body=left) if branch.agent.name == "load" else branch


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("wrong", "code", "found"),
    [
        (lambda: edited(right(), without(FenceProxy)), "WS0914", "missing-proxy-fence"),
        (lambda: edited(right(SET), without(FenceProxy)), "WS0914", "missing-proxy-fence"),
        (lambda: edited(right(), instead(AwaitCopies, one_more)), "WS0907", "race"),
        (lambda: edited(right(), without(AwaitCopies)), "WS0907", "race"),
        (lambda: edited(right(), instead(Branch, never_told)), "WS0901", "deadlock"),
        (lambda: edited(right(role=""), without(FenceProxy)), "", "missing-proxy-fence"),
    ],
)
def test_what_is_wrong_is_found(wrong: Callable[[], Kernel], code: str, found: str) -> None:
    kernel = wrong()
    if code:  # without roles nothing waits at mbarriers, which the proof is about
        refused(kernel, VALUES, code)
    assert found in {finding.kind for finding in report_of(kernel).findings}


def test_stages_that_are_stored_late_are_told_of_at_once() -> None:
    """Who stores by TMA holds all stages but one: a role that told later waited for ever."""
    name = "cp.async to TMA store, 3 stages, between roles"
    kernel = planned_kernel(next(each for each in MEETINGS if each.name == name))
    waits = [s.pending for s in walk(kernel.body) if isinstance(s, AwaitCopies) and not s.bulk]
    assert waits == [0]
    prove(kernel, {}, H200)
