"""Reductions by rules under the schedules that sums have, on the simulator."""

import math
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith import CarryRule, DataType, FusionDefinition, ParallelType, fuse, knobs, ops

Made = tuple[Callable[[Any], Any], Callable[[torch.Tensor], torch.Tensor], torch.Tensor]


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def ties(*shape: int) -> torch.Tensor:
    return torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(2)).float()


CASES: dict[str, Made] = {
    "rows": (lambda x: ops.logsumexp(x, [1]), lambda x: torch.logsumexp(x, 1), floats(3, 2050)),
    "columns": (lambda x: ops.logsumexp(x, [0]), lambda x: torch.logsumexp(x, 0), floats(520, 66)),
    "all": (lambda x: ops.argmax(x), torch.argmax, ties(130, 97)),
    "places in rows": (lambda x: ops.argmin(x, 1), lambda x: torch.argmin(x, 1), ties(5, 1001)),
    "places in columns": (lambda x: ops.argmax(x, 0), lambda x: torch.argmax(x, 0), ties(300, 7)),
    "halves": (
        lambda x: ops.argmax(x, 1, True),
        lambda x: torch.argmax(x, 1, True),
        floats(4, 96).half(),
    ),
    "needed again": (
        lambda x: x - ops.logsumexp(x, [1], True),
        lambda x: torch.log_softmax(x, 1),
        floats(3, 700),
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_kernels_are_clean_and_right(name: str) -> None:
    """Under all orders of warps, against float64; and PyTorch finds the same."""
    defined, peer, x = CASES[name]
    compiled = fuse(defined).lower(x).compile()
    assert compiled.verify().verdict == "clean"
    torch.testing.assert_close(fuse(defined)(x), peer(x))


def test_values_of_a_state_may_be_called_anything() -> None:
    """Also what C++ keeps for itself, and what headers define."""
    names = ("int", "NULL", "EOF", "class_", "assert", "T", "value", "a")
    rule = CarryRule(
        name="double",
        identity=dict.fromkeys(names, 0.0),
        lift=lambda x: (x, *range(1, len(names))),
        join=lambda a, b: tuple(getattr(a, name) + getattr(b, name) for name in names),
    )
    x = floats(2, 70)
    results = fuse(lambda x: ops.reduce(x, rule, [1]))(x)
    for number, result in enumerate(results):
        wanted = (x if not number else x * 0 + number).sum(1)
        torch.testing.assert_close(result, wanted, check_dtype=False)


@pytest.mark.few(2)
@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("op", ["argmax", "logsumexp"])
def test_states_are_joined_across_warps_blocks_and_clusters(op: str, blocks: int) -> None:
    """Values of several types: threads first, then warps, then the blocks of a cluster."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1000], True, DataType.Float)
        found = getattr(fd.ops, op)(x, 1)
        fd.add_output(fd.ops.add(x, fd.ops.broadcast(found, [False, True])))
        state = next(t for t in fd.fusion.tensors if t.has_reduction)
        state.split(1, blocks, inner_split=False)
        state.split(2, 64)
        fd.sched.transform_like(state)
        state.axis(0).parallelize(ParallelType.grid_x)
        if blocks > 1:
            state.axis(1).parallelize(ParallelType.cluster_x)
        state.axis(-1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(state)
        state.rfactor([2] if blocks > 1 else [1, 2])
        fd.sched.inline_at(state, 1, best_effort=True)
    a = ties(2, 1000).numpy()
    (result,) = fd.manual_execute([a])
    reached = np.argmax(a, 1) if op == "argmax" else np.log(np.sum(np.exp(a), 1))
    np.testing.assert_allclose(result, a + reached[:, None], rtol=1e-6)
    assert fd.verify([a]).verdict == "clean"


def _attended(a: Any, b: Any) -> tuple[Any, Any, Any]:
    m = ops.maximum(a.m, b.m)
    of_a, of_b = (ops.where(ops.eq(s.m, m), 1.0, ops.exp(s.m - m)) for s in (a, b))
    return m, a.l * of_a + b.l * of_b, a.o * of_a + b.o * of_b


ATTENTION = CarryRule(
    name="attention",
    identity={"m": -math.inf, "l": 0.0, "o": 0.0},
    lift=lambda score, v: (score, 1.0, v),
    join=_attended,
    finish=lambda state: state.o / state.l,
)


@pytest.mark.parametrize("blocks", [1, 2])
def test_attention_is_carried_round_a_loop_and_split_over_blocks(blocks: int) -> None:
    """A thread has a column of v, and scales what it summed where the maximum grows."""
    with FusionDefinition() as fd:
        scores = fd.define_tensor([-1, -1], True, DataType.Float)
        v = fd.define_tensor([-1, 32], True, DataType.Float)
        wide = fd.ops.broadcast(scores, [False, False, True])
        deep = fd.ops.broadcast(v, [True, False, False])
        fd.add_output(fd.ops.reduce((wide, deep), ATTENTION, [1]))
        state = next(t for t in fd.fusion.tensors if t.has_reduction)
        state.reorder({1: 2, 2: 1})
        if blocks > 1:
            state.split(2, blocks, inner_split=False)
        fd.sched.transform_like(state)
        kinds = (ParallelType.grid_x, ParallelType.block_x, ParallelType.cluster_x)
        for position, kind in enumerate(kinds[: 1 + blocks]):
            state.axis(position).parallelize(kind)
        fd.sched.parallelize_like(state)
        if blocks > 1:
            state.rfactor([3])
        fd.sched.inline_at(state, 1, best_effort=True)
        operations = takewhile(lambda op: not op.outputs[0].has_reduction, fd.fusion.operations)
        fd.sched.inline_most([operation.outputs[0] for operation in operations])
    rng = np.random.default_rng(0)
    s, x = (
        rng.normal(0, 9, (3, 75)).astype(np.float32),
        rng.normal(0, 1, (75, 32)).astype(np.float32),
    )
    (result,) = fd.manual_execute([s, x])
    wanted = torch.softmax(torch.from_numpy(s).double(), 1) @ torch.from_numpy(x).double()
    np.testing.assert_allclose(result, wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert fd.verify([s, x]).verdict == "clean"


def test_what_several_values_of_a_join_use_is_computed_once() -> None:
    """Each side's factor, by which two values are scaled; and the meaning stays."""
    scores, v = floats(4, 300), floats(300, 3)

    def attend(s: Any, v: Any) -> Any:
        wide = ops.broadcast(s, [False, False, True])
        return ops.reduce((wide, ops.broadcast(v, [True, False, False])), ATTENTION, [1])

    compiled = fuse(attend).lower(scores, v).compile()
    rule = compiled.asm["cuda"].split("// attention\n")[1].split("ws_shuffle_xor")[0]
    assert rule.count("ws_exp_near(") == 2
    assert compiled.verify(schedules=2).verdict == "clean"


def test_states_of_long_values_and_places_have_no_gaps() -> None:
    """Blocks stored what nobody wrote: the half of a word behind a place of 32 bits."""
    x = np.random.default_rng(3).standard_normal((1001, 20))
    with knobs.scope(device="sim"):
        found = fuse(lambda x: ops.argmax(ops.reshape(x, (1001, 20)), 0))(x)
    np.testing.assert_array_equal(found, x.argmax(0))
