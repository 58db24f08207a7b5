"""What is loaded and stored beside a product, in chunks by the TMA unit: right, and clean."""

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.product_programs import Array, close, forcing, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.layouts.banks import clocks
from warpsmith.layouts.fragments import sums
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.schedulers.matmul import heuristic

M, N, K = 136, 144, 72
"""Rows, columns and k that tiles and steps do not divide."""


def of(inputs: list[Array], body: Callable[..., Any]) -> tuple[list[Array], str]:
    """Results of one kernel on the simulator, clean under orders of warps; and what it says."""
    with FusionDefinition() as fd:
        made = body(fd.ops, *(fd.from_pytorch(array) for array in inputs))
        for tensor in made if isinstance(made, tuple) else (made,):
            fd.add_output(tensor)
    with knobs.scope(device="sim"):
        results = list(fd.execute(inputs))
        assert fd.verify(inputs, schedules=2).verdict == "clean"
    said = fd.explain()
    assert said.startswith("1 kernel\n")
    assert "scheduler   matmul\n" in said
    return results, said


ALONE = {"splits": 1, "parts": 1, "stream": False, "ping_pong": 0, "cluster": (1, 1)}


force = forcing(**ALONE)
"""Blocks have a tile alone, whose groups share it, but for what is said."""


@pytest.fixture(name="made")
def _made() -> tuple[list[Array], Array]:
    """`x`, `weight`, a bias, a residual and a value for each row; `relu(product + bias)` and all
    that is added to it.
    """
    x, weight, bias = values((M, K), 1), values((N, K), 2), values((N,), 3)
    residual, row = values((M, N), 4), values((M, 1), 5)
    wanted = np.maximum(wide(x) @ wide(weight).T + wide(bias), 0) + wide(residual) + wide(row)
    return [x, weight, bias, residual, row], wanted


def total(ops: Any, x: Any, w: Any, bias: Any, residual: Any, row: Any) -> Any:
    return ops.add(ops.add(ops.relu(ops.linear(x, w, bias)), residual), row)


@pytest.mark.parametrize(
    "out", ["bfloat16", "float32", "float64", "float8_e4m3fn", "int8"], ids=lambda name: name
)
@pytest.mark.parametrize("beside", ["bfloat16", "float32", "float64", "float8_e5m2"])
@pytest.mark.few(3)
def test_types_of_what_is_loaded_and_stored(
    made: tuple[list[Array], Array], out: str, beside: str
) -> None:
    """Chunks are as narrow as the longest elements ask for, and stored as they are rounded."""
    (x, weight, *others), _ = made
    kind = getattr(ml_dtypes, beside, None) or np.dtype(beside)
    bias, residual, row = (t.astype(kind) for t in others)
    kinds = {"float32": "Float", "float64": "Double", "bfloat16": "BFloat16", "int8": "Int8"}
    dtype = DataType[kinds.get(out, "Float8_e4m3fn")]

    def body(ops: Any, x: Any, w: Any, *others: Any) -> Any:
        bias, residual, row = (ops.cast(t, DataType.Float) for t in others)
        product = ops.matmul(x, ops.transpose(w), dtype=DataType.Float)
        return ops.cast(ops.add(ops.relu(ops.add(product, bias)), ops.add(residual, row)), dtype)

    (result,), said = of([x, weight, bias, residual, row], body)
    wanted = np.maximum(wide(x) @ wide(weight).T + wide(bias), 0) + wide(residual) + wide(row)
    step = {"int8": 1.0, "float8_e4m3fn": 2.0**-3}.get(out, 2.0**-8)  # 8 bits: of up to 2, and cut
    allowed = np.maximum(step, np.abs(wanted) * (step if "8" in out else 2.0**-8))
    assert np.max(np.abs(wide(result) - wanted) - allowed) <= 1e-3
    assert "loaded=('T2', 'T3', 'T4')" in said
    assert "load_beside: copy" in said


STRATEGIES: dict[str, dict[str, Any]] = {
    "one warp group": {"tile": (64, 96, 64), "chunk": 32, "stages": 8, "blocks": 2},
    "narrow chunks": {"tile": (128, 160, 64), "chunk": 16, "stages": 4, "blocks": 3},
    "wide chunks": {"tile": (128, 128, 64), "chunk": 64, "stages": 3, "blocks": 1},
    "more stages": {
        "tile": (64, 64, 64),
        "chunk": 32,
        "stages": 8,
        "load_stages": 3,
        "store_stages": 3,
    },
    "multicast of a": {
        "tile": (64, 64, 64),
        "chunk": 64,
        "stages": 8,
        "blocks": 4,
        "cluster": (1, 2),
    },
    "multicast of b": {
        "tile": (64, 64, 64),
        "chunk": 32,
        "stages": 8,
        "blocks": 4,
        "cluster": (2, 1),
    },
    "turns": {"tile": (64, 64, 64), "chunk": 32, "blocks": 2, "stages": 4, "ping_pong": 2},
    "turns with a stage for each chunk": {
        "tile": (64, 96, 64),
        "chunk": 32,
        "blocks": 2,
        "stages": 4,
        "ping_pong": 2,
        "load_stages": 3,
    },
    "turns of 128 rows": {
        "tile": (128, 96, 64),
        "chunk": 32,
        "blocks": 1,
        "stages": 3,
        "ping_pong": 2,
    },
    "parts of k": {"tile": (64, 64, 64), "chunk": 32, "blocks": 4, "splits": 2, "stages": 3},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies(
    monkeypatch: pytest.MonkeyPatch, made: tuple[list[Array], Array], name: str
) -> None:
    force(monkeypatch, group=2, **STRATEGIES[name])
    inputs, wanted = made
    (result,), _ = of(inputs, total)
    close(result, wanted, K)


@pytest.mark.few(2)
@pytest.mark.parametrize("k", [8, 72, 328])
def test_chunks_come_through_the_stages_of_operands(
    monkeypatch: pytest.MonkeyPatch, made: tuple[list[Array], Array], k: int
) -> None:
    """A bias and a residual lie where a step's operands did; of fewer steps than stages, too."""
    tile = {"tile": (64, 96, 64), "chunk": 32, "stages": 3, "load_stages": 0}
    force(monkeypatch, group=2, blocks=2, **tile)
    (_, _, bias, residual, _), _ = made
    x, weight = values((M, k), 6), values((N, k), 7)

    def body(ops: Any, x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return ops.add(ops.linear(x, w, bias), residual)

    (result,), said = of([x, weight, bias, residual], body)
    close(result, wide(x) @ wide(weight).T + wide(bias) + wide(residual), k)
    assert "load: copy" in said
    assert "load_beside" not in said


def test_results_before_and_after_have_pipelines_of_their_own(
    monkeypatch: pytest.MonkeyPatch, made: tuple[list[Array], Array]
) -> None:
    """The product, what is made of it, another type of that, and what threads store."""
    force(monkeypatch, tile=(64, 96, 64), chunk=32, stages=3, blocks=2)
    (x, weight, _, residual, _), _ = made

    def body(ops: Any, a: Any, b: Any, r: Any) -> Any:
        before = ops.linear(a, b)
        after = ops.add(ops.relu(before), r)
        turned = ops.permute(ops.cast(after, DataType.Half), [1, 0])
        return before, after, ops.cast(after, DataType.Float), turned

    (before, after, floats, turned), said = of([x, weight, residual], body)
    sums = wide(x) @ wide(weight).T
    wanted = np.maximum(sums, 0) + wide(residual)
    close(before, sums, K)
    close(after, wanted, K)
    close(floats, wanted, K)
    close(turned, wanted.T, K)
    assert len(re.findall("'T\\d+'", said.split("staged=")[1].split(")")[0])) == 3


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float, DataType.Double])
def test_a_result_that_several_read_of_which_one_reads_another(
    dtype: DataType, made: tuple[list[Array], Array]
) -> None:
    """As a gated unit's input that its gradient reads."""
    x, weight, *_ = made[0]

    def gated(ops: Any, x: Any, w: Any) -> Any:
        h = ops.cast(ops.mul(ops.linear(x, w, dtype=DataType.Float), 0.1), dtype)
        return ops.cast(ops.mul(h, ops.sigmoid(h)), dtype), h

    (y, h), _ = of([x, weight], gated)
    wanted = wide(x) @ wide(weight).T / 10
    np.testing.assert_allclose(wide(h), wanted, rtol=2**-8, atol=1e-4)
    np.testing.assert_allclose(wide(y), wanted / (1 + np.exp(-wanted)), rtol=2**-6, atol=1e-4)


def test_what_is_loaded_once_and_read_by_several(made: tuple[list[Array], Array]) -> None:
    """The gradients of a gated unit: both follow one product, and need the gate three times. Its
    readers were refused each by the place of the others (WS0262), and a kernel came behind.
    """
    (x, weight, _, gate, _), _ = made
    other = values((M, N), 6)

    def body(ops: Any, a: Any, b: Any, g: Any, up: Any) -> Any:
        product = ops.linear(a, b)
        share = ops.sigmoid(g)
        inside = ops.mul(share, ops.add(1, ops.mul(g, ops.sub(1, share))))
        of_gate = ops.mul(ops.mul(product, up), inside)
        return tuple(
            ops.cast(t, DataType.Float) for t in (of_gate, ops.mul(product, ops.mul(g, share)))
        )

    (of_gate, of_up), said = of([x, weight, gate, other], body)
    product, share = (wide(x) @ wide(weight).T), 1 / (1 + np.exp(-wide(gate)))
    inside = share * (1 + wide(gate) * (1 - share))
    for found, factor in ((of_gate, wide(other) * inside), (of_up, wide(gate) * share)):
        wanted = product * factor
        rounded = 2.0**-8 * np.abs(wanted)  # the product is rounded to bfloat16
        assert np.max(np.abs(found - wanted) - rounded) < 1e-3
    assert "loaded=('T2', 'T3')" in said


def test_a_residual_is_added_to_in_place(made: tuple[list[Array], Array]) -> None:
    """A tile's chunk is loaded before it is stored, and nobody else reads it."""
    (x, weight, _, residual, _), _ = made
    wanted = wide(x) @ wide(weight).T + wide(residual)
    given = residual.copy()
    with FusionDefinition() as fd:
        a, b, c = (fd.from_pytorch(array) for array in (x, weight, given))
        fd.add_output(fd.ops.add(fd.ops.linear(a, b), c), c)
    with knobs.scope(device="sim"):
        fd.execute([x, weight, given])
    close(given, wanted, K)


def test_batches_with_vectors_of_their_own() -> None:
    a, b = values((3, 72, 40), 6), values((3, 88, 40), 7)
    bias, shared, residual = values((3, 1, 88), 8), values((88,), 9), values((3, 72, 88), 10)
    scale = values((3, 72, 1), 11)

    def body(ops: Any, x: Any, y: Any, c: Any, d: Any, r: Any, s: Any) -> Any:
        made = ops.add(ops.add(ops.matmul(x, ops.transpose(y)), c), d)
        return ops.add(ops.mul(made, s), r)

    (result,), said = of([a, b, bias, shared, residual, scale], body)
    wanted = wide(a) @ wide(b).swapaxes(1, 2) + wide(bias) + wide(shared)
    wanted = wanted * wide(scale) + wide(residual)
    assert np.max(np.abs(wide(result) - wanted) - 2.0**-7 * np.abs(wanted)) < 1e-2
    assert "loaded=('T2', 'T3', 'T5', 'T4')" in said


@pytest.mark.parametrize("n", [132, 133])
def test_what_the_unit_cannot_load_threads_do(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Rows of the residual begin anywhere; the bias begins well, and ends anywhere."""
    monkeypatch.setattr(heuristic, "works_of", lambda *given: (heuristic.work_of(*given),))
    x, weight, bias = values((M, K), 1), values((n, K), 2), values((n,), 3)
    residual = values((M, n), 4)
    (result,), said = of(
        [x, weight, bias, residual], lambda ops, a, b, c, r: ops.add(ops.linear(a, b, c), r)
    )
    close(result, wide(x) @ wide(weight).T + wide(bias) + wide(residual), K)
    assert "loaded=('T2',)" in said


@pytest.mark.parametrize(
    ("size", "chunk", "least"), [(2, 64, 1), (2, 32, 1), (1, 64, 1), (4, 32, 2)]
)
def test_banks_that_fragments_meet_in_rows_of_a_chunk(size: int, chunk: int, least: int) -> None:
    """16-bit and 8-bit elements no bank twice; floats one, as no swizzle of 16 bytes can help."""
    rows = MemoryLayout(Layout.row_major((16, chunk)), size, HARDWARE[size * chunk])
    words = 16 * chunk * max(size, 2) // 128
    assert clocks(sums(16, chunk), rows) <= least * words


def gated(ops: Any, x: Any, w: Any, v: Any, bias: Any, residual: Any) -> Any:
    gate = ops.silu(ops.add(ops.linear(x, w), bias))
    return ops.add(ops.mul(gate, ops.linear(x, v)), residual)


GATED: dict[str, dict[str, Any]] = {
    "one warp group": {"tile": (64, 64, 64), "blocks": 2, "stages": 4},
    "two of them": {"tile": (128, 96, 64), "blocks": 2, "stages": 3},
    "the most columns": {"tile": (128, 128, 64), "blocks": 1, "stages": 2},
    "turns": {"tile": (64, 64, 64), "blocks": 2, "stages": 4, "ping_pong": 2},
    "multicast of a": {"tile": (64, 64, 64), "blocks": 4, "stages": 4, "cluster": (1, 2)},
    "multicast of b": {"tile": (64, 64, 64), "blocks": 4, "stages": 4, "cluster": (2, 1)},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", GATED)
def test_two_products_of_one_operand(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Both are summed in one loop, over tiles of half as many columns."""
    force(monkeypatch, group=2, chunk=32, **GATED[name])
    x, w, v = values((M, K), 1), values((N, K), 2), values((N, K), 3)
    bias, residual = values((N,), 4), values((M, N), 5)
    (result,), said = of([x, w, v, bias, residual], gated)
    gate = wide(x) @ wide(w).T + wide(bias)
    wanted = gate / (1 + np.exp(-gate)) * (wide(x) @ wide(v).T) + wide(residual)
    assert np.max(np.abs(wide(result) - wanted) - 2.0**-8 * np.abs(wanted)) < 1e-3
    assert said.count("ring0: ") == 1


@pytest.mark.parametrize("turned", ["", "x", "wv"])
@pytest.mark.few(1)
def test_two_products_of_batches_and_other_layouts(turned: str) -> None:
    x, w, v = (values((2, 72, 72), seed) for seed in (6, 7, 8))
    lain = [
        np.swapaxes(np.ascontiguousarray(np.swapaxes(t, 1, 2)), 1, 2) if name in turned else t
        for name, t in zip("xwv", (x, w, v), strict=True)
    ]

    def body(ops: Any, a: Any, b: Any, c: Any) -> Any:
        left = ops.matmul(a, ops.transpose(b))
        right = ops.matmul(a, ops.transpose(c))
        return ops.mul(ops.tanh(left), right), ops.cast(left, DataType.Float)

    (result, floats), _ = of(lain, body)
    left, right = (wide(x) @ wide(t).swapaxes(1, 2) for t in (w, v))
    assert np.max(np.abs(wide(result) - np.tanh(left) * right) - 2.0**-8 * np.abs(right)) < 1e-2
    assert np.max(np.abs(floats - left)) < 1e-3


@pytest.mark.parametrize("name", ["turns", "turns of 128 rows"])
def test_a_mask_and_what_it_chooses(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What both read is computed in each chunk: before, it was held for all tiles of a group,
    whose second loop over them waited for a turn that nobody gave.
    """
    force(monkeypatch, group=2, **STRATEGIES[name])
    x, weight, bias = values((M, K), 1), values((N, K), 2), values((N,), 3)

    def leaky(ops: Any, x: Any, w: Any, bias: Any) -> Any:
        before = ops.linear(x, w, bias, dtype=DataType.Float)
        above = ops.gt(before, 0.0)
        return ops.cast(ops.where(above, before, ops.mul(before, 0.1)), DataType.BFloat16), above

    (result, above), _ = of([x, weight, bias], leaky)
    before = wide(x) @ wide(weight).T + wide(bias)
    close(result, np.where(before > 0, before, before * 0.1), K)
    clear = np.abs(before) > 0.01
    np.testing.assert_array_equal(above[clear], (before > 0)[clear])
