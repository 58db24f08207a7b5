"""Norms and softmaxes, specialized: a role loads rows, groups of warps take turns."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime import arrays
from warpsmith.schedulers.rows import specialized
from warpsmith.schedulers.rows.resident import choices
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

FLOAT = DataType.Float
EPSILON = 1e-5


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    """With the statistics that a backward pass wants."""
    wide = x.to(FLOAT)
    mean = ops.mean(wide, [-1], keepdim=True)
    away = wide - mean
    scale = ops.rsqrt(ops.add(ops.mean(away * away, [-1], keepdim=True), EPSILON))
    return (away * scale * weight + bias).to(x.dtype), mean, scale


def rms_norm(x: Any, residual: Any, weight: Any) -> Any:
    """Of a sum, which is a result too."""
    total = x.to(FLOAT) + residual
    scale = ops.rsqrt(ops.add(ops.mean(total * total, [-1], keepdim=True), EPSILON))
    return (total * scale * weight).to(x.dtype), total.to(x.dtype)


def softmax(x: Any) -> Any:
    wide = x.to(FLOAT)
    e = ops.exp(wide - ops.max(wide, [-1], keepdim=True))
    return (e / ops.sum(e, [-1], keepdim=True)).to(x.dtype)


def softmax_backward(y: Any, dy: Any, scale: Any) -> Any:
    """With a number for each row."""
    wide, given = y.to(FLOAT), dy.to(FLOAT)
    along = ops.sum(wide * given, [-1], keepdim=True)
    return (wide * (given - along) * scale).to(y.dtype)


def exact(program: Any, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """What float64 makes of the inputs."""
    x, *rest = (array.astype(np.float64) for array in inputs)
    if program is softmax:
        e = np.exp(x - x.max(-1, keepdims=True))
        return [e / e.sum(-1, keepdims=True)]
    if program is softmax_backward:
        return [x * (rest[0] - (x * rest[0]).sum(-1, keepdims=True)) * rest[1]]
    if program is rms_norm:
        total = x + rest[0]
        scale = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + EPSILON)
        return [total * scale * rest[1], total]
    mean = x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + EPSILON)
    return [(x - mean) * scale * rest[0] + rest[1], mean, scale]


def drawn(program: Any, rows: int, columns: int, dtype: str) -> tuple[np.ndarray, ...]:
    kind = arrays.NUMPY_DTYPES["bfloat16"] if dtype == "bfloat16" else np.dtype(dtype)
    shapes = {
        layer_norm: [(rows, columns), (columns,), (columns,)],
        rms_norm: [(rows, columns), (rows, columns), (columns,)],
        softmax: [(rows, columns)],
        softmax_backward: [(rows, columns), (rows, columns), (rows, 1)],
    }
    rng = np.random.default_rng(rows)
    return tuple(rng.standard_normal(shape).astype(kind) for shape in shapes[program])


PROGRAMS = (layer_norm, rms_norm, softmax, softmax_backward)
FEWER = [layer_norm, *(pytest.param(p, marks=pytest.mark.slow) for p in PROGRAMS[1:])]
"""One of them where all would take long."""


def check(program: Any, rows: int, columns: int, dtype: str) -> None:
    inputs = drawn(program, rows, columns, dtype)
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(program, warp_specialize=True)(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    relative, absolute = (2.0**-7, 1e-3) if dtype == "bfloat16" else (2e-5, 1e-4)
    for result, expected in zip(found, exact(program, inputs), strict=True):
        np.testing.assert_allclose(
            np.asarray(result).astype(np.float64), expected, relative, absolute
        )


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the shape that is chosen be another one in what is said here."""
    chosen = specialized.fastest

    def force(**changes: object) -> None:
        def fastest(rows: Any, *given: Any, **named: Any) -> Any:
            params = replace(chosen(rows, *given, **named), **changes)
            exact = params.block_x * params.unroll * params.vector == rows.length
            return replace(params, exact=exact, row=0 if exact else rows.length)

        monkeypatch.setattr(specialized, "fastest", fastest)

    return force


@pytest.mark.few(2)
@pytest.mark.parametrize("rows", [0, 2, 300])
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "bfloat16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_against_float64(program: Any, dtype: str, rows: int) -> None:
    """No rows, fewer than blocks, and turns that only some blocks have."""
    check(program, rows, 1024, dtype)


@pytest.mark.parametrize("columns", [1032, pytest.param(2880, marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", FEWER)
def test_rows_of_which_threads_have_unequal_parts(program: Any, columns: int) -> None:
    check(program, 300, columns, "bfloat16")


VARIANTS: dict[str, dict[str, object]] = {
    "one group of two stages": {"block_y": 1, "ring": 2},
    "three groups": {"block_y": 3, "ring": 6},
    "rows read again": {"block_y": 2, "ring": 2, "reread": True},
    "weights in shared memory": {
        "block_y": 2,
        "ring": 4,
        "reread": True,
        "weights_in_shared": True,
    },
}


@pytest.mark.few(1)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("program", FEWER)
def test_shapes_that_no_heuristic_would_choose(program: Any, variant: str, forced: Any) -> None:
    forced(block_x=32, unroll=2, blocks_per_sm=1, **VARIANTS[variant])
    check(program, 500, 512, "bfloat16")


@pytest.mark.parametrize("program", FEWER)
def test_no_order_of_warps_changes_anything(program: Any, forced: Any) -> None:
    forced(block_x=32, unroll=1, block_y=2, ring=4, blocks_per_sm=1)
    inputs = drawn(program, 600, 256, "bfloat16")
    compiled = warpsmith.fuse(program, warp_specialize=True).lower(*inputs).compile()
    assert "2 groups in turn" in compiled.explain()
    assert compiled.verify().verdict == "clean"


def test_row_counts_need_no_new_kernel() -> None:
    fused = warpsmith.fuse(softmax, warp_specialize=True)
    names = {
        fused.lower(*drawn(softmax, rows, 1024, "float32")).compile().kernels[0].name
        for rows in (3300, 5000, 8000)  # of one class: docs/schedulers.md
    }
    assert len(names) == 1


@pytest.mark.parametrize("columns", [1024, 8192, 12288])
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "bfloat16"])
@pytest.mark.parametrize("program", FEWER)
def test_nothing_spills(program: Any, dtype: str, columns: int) -> None:
    inputs = drawn(program, 3, columns, dtype)
    compiled = warpsmith.fuse(program, warp_specialize=True).lower(*inputs).compile()
    assert "load: copy, warp 0, one thread" in compiled.explain()
    assert compiled.n_spills == 0


def centred_gates(x: Any, y: Any) -> Any:
    """Of values that take long to compute, what two stages use is kept, or made of what is."""
    other = y + 0.0 * x
    gate = ops.sigmoid(other) * x
    return ops.mean(ops.relu(gate - ops.mean(gate, [-1], keepdim=True)), [-1])


def test_a_warp_alone_keeps_what_it_reads_again() -> None:
    """Nothing stands between its stages, so compilers load rows once: 484 bytes were spilled."""
    x, y = (np.zeros((3672, 2008), np.float32) for _ in range(2))
    compiled = warpsmith.fuse(centred_gates, warp_specialize=True).lower(x, y).compile()
    assert "load: copy, warp 0, one thread" in compiled.explain()
    assert compiled.n_spills == 0


def test_what_is_made_of_costly_values_is_read_of_them_again() -> None:
    """The rows are in shared memory: their sigmoid alone stays, a register for each element."""
    with warpsmith.FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1], True) for _ in range(2))
        fd.add_output(centred_gates(x, y))
    candidate = select(fd.fusion, H200)
    (choice, *_) = choices(candidate.fusion, candidate.caches, turns=True)
    assert (choice.bytes_per_element(), choice.bytes_beside_inputs()) == (8, 4)
