"""Products of which two stretches of columns meet: one kernel, which reads both of the weight."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.engine.plan import prepare
from warpsmith.ir.graph import Graph
from warpsmith.planner.halves import halves_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

M, N, K = 72, 16, 72
RNG = np.random.default_rng(7)


def halves(h: Any, step: int) -> tuple[Any, Any]:
    """The first and the second half of the columns, or, two apart, the even and the odd ones."""
    if step == 1:
        return tuple(ops.chunk(h, 2, -1))
    first, second = (
        ops.slice(h, [*[None] * (h.ndim - 1), start], [None] * h.ndim, [*[1] * (h.ndim - 1), 2])
        for start in (0, 1)
    )
    return first, second


def gated(h: Any, step: int = 1) -> Any:
    a, b = halves(h, step)
    return ops.silu(a) * b


def drawn(*shape: int) -> Any:
    return RNG.integers(-2, 3, shape).astype(ml_dtypes.bfloat16)


def wanted(h: Any, step: int) -> Any:
    """In double, of sums that are exact in bfloat16 before."""
    a, b = (h[..., :N], h[..., N:]) if step == 1 else (h[..., ::2], h[..., 1::2])
    return a / (1 + np.exp(-a)) * b


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["linear", "matmul", "turns", "bias"])
def test_both_parts_of_the_weight_are_read_where_they_lie(form: str) -> None:
    step = 1 + (form == "turns")
    x, w, b = drawn(2, M // 2, K), drawn(2 * N, K), drawn(2 * N)

    def program(x: Any, w: Any, b: Any) -> Any:
        h = ops.matmul(x, w) if form == "matmul" else ops.linear(x, w)
        return gated(h + b if form == "bias" else h * 1.0, step)

    given = (x, np.ascontiguousarray(w.T) if form == "matmul" else w, b)
    with knobs.scope(device="sim"):
        fused = warpsmith.fuse(program)
        compiled = fused.lower(*given).compile()
        found = np.asarray(fused(*given), dtype=np.float64)
    assert compiled.explain().startswith("1 kernel")
    if form == "turns":  # a tensor map with one dimension more
        assert compiled.verify(schedules=2).verdict == "clean"
    sums = x.astype(np.float64) @ w.astype(np.float64).T + (form == "bias") * b.astype(np.float64)
    np.testing.assert_allclose(found, wanted(sums, step), rtol=2**-7, atol=1e-2)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (lambda x, w: ops.linear(ops.slice(x, [3, None], [50, None]), w), 1),
        (lambda x, w: ops.linear(x, ops.slice(w, [5, None], [75, None], [3, 1])), 1),
        (lambda x, w: ops.linear(x, ops.slice(w, [None, 0], [None, 40])), 2),
    ],
    ids=["rows", "every third column", "a part of k"],
)
def test_stretches_of_operands(program: Callable[..., Any], kernels: int) -> None:
    """Rows and columns are read where they lie. The end of a part of k is no end of memory, behind
    which the TMA unit reads zeros: that is copied.
    """
    x, w = drawn(M, K), drawn(2 * N, K)
    if kernels > 1:
        x = x[:, :40].copy()
    with knobs.scope(device="sim"):
        fused = warpsmith.fuse(program)
        compiled = fused.lower(x, w).compile()
        found = np.asarray(fused(x, w), dtype=np.float64)
    assert compiled.explain().startswith(f"{kernels} kernel")
    wide, weight = x.astype(np.float64), w.astype(np.float64)
    places = {"rows": (wide[3:50], weight), "columns": (wide, weight[5:75:3])}
    kind = "rows" if found.shape[0] == 47 else "columns"
    a, b = places[kind] if kernels == 1 else (wide, weight[:, :40])
    np.testing.assert_array_equal(found, (a @ b.T).astype(ml_dtypes.bfloat16).astype(np.float64))


def test_what_is_no_gate_stays_one_product() -> None:
    """Three stretches, a result that is needed whole, halves that never meet, columns that begin
    within 16 bytes, or are no neighbours, and types that tensor cores do not multiply.
    """

    def three(x: Any, w: Any) -> Any:
        a, b, c = ops.chunk(ops.linear(x, w), 4, -1)[:3]
        return a * b + c

    def whole(x: Any, w: Any) -> Any:
        h = ops.linear(x, w)
        return gated(h), h

    def apart(x: Any, w: Any) -> Any:
        a, b = halves(ops.linear(x, w), 1)
        return ops.silu(a), ops.silu(b)

    def along_n(x: Any, w: Any) -> Any:
        return gated(ops.matmul(x, w))

    def turns(x: Any, w: Any) -> Any:
        return gated(ops.matmul(x, w), 2)

    x, w, upright = drawn(M, K), drawn(2 * N, K), drawn(K, 2 * N)
    wide = x.astype(np.float32), w.astype(np.float32)
    for program, given, split in (
        (lambda x, w: gated(ops.linear(x, w)), (x, w), True),
        (three, (x, w), False),
        (whole, (x, w), False),
        (apart, (x, w), False),
        (along_n, (x, upright), True),
        (along_n, (x, upright[:, :24].copy()), False),
        (turns, (x, upright), False),
        (lambda x, w: gated(ops.linear(x, w)), wide, False),
    ):
        lowered = warpsmith.fuse(program).lower(*given)
        values = {
            f"T{i}_size{d}": size for i, t in enumerate(given) for d, size in enumerate(t.shape)
        }
        problem = Problem(values=values, alignment={}, target=H200)
        graph = Graph.of(prepare(lowered.fusion))
        assert bool(list(halves_of(graph, problem))) == split, program
