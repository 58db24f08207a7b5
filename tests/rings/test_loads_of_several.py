"""Several tensors in rings: of one barrier, of several, and loaded once."""

import re

import numpy as np
import pytest

from tests.rings.test_loads import BULK, TMA
from tests.support.tiling import (
    Tiling,
    bind_tile,
    check_exact,
    loaded,
    random_array,
    rarely,
    run_clean,
    text_of,
)
from warpsmith import FusionDefinition, LoadStoreOpType, ParallelType


def product(
    carrier: LoadStoreOpType, stages: int, prefetch: int | None = None, ring: str = ""
) -> FusionDefinition:
    """`a * b`, both through stages; `ring` names that of b."""
    tiling = Tiling((8, 16) if carrier is TMA else (1, 32))
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        y = fd.ops.mul(a, b)
        fd.add_output(y)
        copies, between = [loaded(t, carrier) for t in (a, b)], y.cache_before()
        tiling.apply(y)
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 2, selected_tensors=copies)
        for copy in copies:
            bind_tile(copy, range(2))
        for tensor in (y, between):
            tiling.share(tensor)
        if stages:
            copies[0].circular_buffer(stages, prefetch)
            copies[1].circular_buffer(stages, prefetch, ring=ring)
        fd.sched.inline_most([between])
    return fd


@pytest.mark.parametrize("carrier", [TMA, BULK])
@pytest.mark.parametrize(
    ("stages", "prefetch"), [rarely(0, None), (2, None), (3, 1), rarely(3, 0), rarely(4, None)]
)
def test_two_tensors_share_a_ring_and_their_bytes_one_barrier(
    carrier: LoadStoreOpType, stages: int, prefetch: int | None
) -> None:
    fd = product(carrier, stages, prefetch)
    a, b = random_array((20, 48)), random_array((20, 48))
    check_exact(run_clean(fd, [a, b])[0], a.astype(np.float64) * b)
    text = text_of(fd)
    assert "ring0_full" in text
    assert "ring1_full" not in text
    if carrier is TMA:
        assert set(re.findall(r"arrive_expect\([^,]*, (.*), elected_lane\);", text)) == {"1024"}


def test_rings_of_two_names_have_barriers_of_their_own() -> None:
    fd = product(TMA, 3, ring="b")
    a, b = random_array((20, 48)), random_array((20, 48))
    check_exact(run_clean(fd, [a, b])[0], a.astype(np.float64) * b)
    assert "ring1_full" in text_of(fd)


def weighted(carrier: LoadStoreOpType, stages: int) -> FusionDefinition:
    """`x * w + v`: rows of x pass through stages, w and v are loaded once."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 64], True)
        w, v = (fd.define_tensor([64], True) for _ in range(2))
        shape = [x.size(0), 64]
        scaled = fd.ops.mul(x, fd.ops.broadcast_in_dim(w, shape, [1]))
        y = fd.ops.add(scaled, fd.ops.broadcast_in_dim(v, shape, [1]))
        fd.add_output(y)
        rows, *once = (loaded(t, carrier) for t in (x, w, v))
        y.cache_before()
        y.split(0, 4)
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 1, selected_tensors=[rows])
        bind_tile(rows, range(2))
        for copy in once:
            copy.axis(-1).parallelize(ParallelType.tma)
        apart = {id(t) for t in (rows, *once, x, w, v)}
        others = [t for t in fd.fusion.tensors if id(t) not in apart]
        for tensor in others:
            tensor.split(-1, 32)
            tensor.axis(-1).parallelize(ParallelType.block_x)
        if stages:
            rows.circular_buffer(stages)
        fd.sched.inline_most(others)
    return fd


@pytest.mark.parametrize("carrier", [TMA, BULK])
@pytest.mark.parametrize("stages", [rarely(0), 2, rarely(3)])
def test_weights_are_loaded_once_under_one_barrier(carrier: LoadStoreOpType, stages: int) -> None:
    fd = weighted(carrier, stages)
    x, w, v = random_array((30, 64)), random_array((64,)), random_array((64,))
    check_exact(run_clean(fd, [x, w, v])[0], x.astype(np.float64) * w + v)
    text = text_of(fd)
    once = [line for line in text.splitlines() if "ring1_full" in line and "const" not in line]
    calls = [re.sub(r"\W.*", "", line.strip()) for line in once]
    name = "ws_tensor_load" if carrier is TMA else "ws_bulk_load"
    assert calls.count(name) == 2
    assert calls.count("ws_barrier_arrive_expect") == 1
    assert calls.count("ws_barrier_wait") == 1
    assert any(re.search(r"arrive_expect\(ring1_full, 512, elected_lane\);", line) for line in once)
