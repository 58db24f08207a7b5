"""Tiles of tensor cores and of threads have rows of one group, whatever memory says of groups."""

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.grouped import by_group, drawn
from tests.support.matmuls import only
from warpsmith import DataType, FusionDefinition, ScheduleError, fuse, knobs, ops
from warpsmith.errors import PlanWarning
from warpsmith.schedule.transforms import split_by_group
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.matmul.ways import Ways
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

BFLOAT16 = ml_dtypes.bfloat16

grouped = fuse(lambda x, w, ends: ops.grouped_matmul(x, w, ends))


def held(function: Callable[..., Any], scheduler: str, *given: Any) -> np.ndarray[Any, Any]:
    """What a program of one kernel gives, which a scheduler has, clean under all orders."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        compiled = fuse(function).lower(*given).compile()
        assert f"scheduler   {scheduler}\n" in compiled.explain()
        assert compiled.verify().verdict == "clean"
        return np.asarray(fuse(function)(*given)).astype(np.float64)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("tile", "changed"),
    [
        ((64, 64), {"blocks": 3}),
        ((128, 64), {"blocks": 2}),
        ((64, 32), {"blocks": 4, "splits": 2}),
        ((64, 40), {"blocks": 3, "lines": 2}),
    ],
)
def test_blocks_loop_over_the_tiles_of_all_groups(
    tile: tuple[int, int], changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups without rows, of less than a tile, and of several; 5 rows of none."""
    offered = heuristic.candidates

    def chosen(*args: Any, **kinds: Any) -> Ways:
        lines, splits = changed.get("lines", 1), changed.get("splits", 1)
        rows, columns = tile
        wanted = {"rows": rows, "columns": columns, "lines": lines, "splits": splits}
        wanted |= {"down": 1, "across": 1, "ping_pong": 0}
        return only(offered(*args, **kinds), wanted, stages=4, **changed)

    monkeypatch.setattr(heuristic, "candidates", chosen)
    x, w = drawn(100, 136, 40, 6, BFLOAT16)
    ends = np.array([0, 1, 20, 20, 90, 95], np.int32)
    y = held(lambda x, w, ends: ops.grouped_matmul(x, w, ends), "matmul", x, w, ends)
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


def force(monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    """Tiles of 64 x 64, the last of which are in parts of k."""
    chosen = heuristic.choose
    usual = {"tile": (64, 64, 64), "chunk": 32, "store_stages": 2, "stages": 3, "lines": 1}
    usual |= {"stream": True, "splits": 1, "once": False} | given
    monkeypatch.setattr(heuristic, "choose", lambda *asked: replace(chosen(*asked), **usual))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("blocks", "cluster", "k"),
    [
        (5, (1, 1), 200),  # two rounds of 13 tiles, and 3 tiles
        (7, (1, 1), 136),  # one round, and one part of each of the others
        (3, (1, 1), 64),  # one step of k
        (26, (1, 1), 136),  # two parts of all tiles
        (8, (1, 2), 136),
        (6, (2, 1), 264),  # rows of two tiles, the second one without any, too
    ],
)
def test_the_last_tiles_are_in_parts_of_k(
    blocks: int, cluster: tuple[int, int], k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many tiles there are memory says, and so how many parts."""
    force(monkeypatch, blocks=blocks, cluster=cluster)
    x, w = drawn(200, k, 136, 6, BFLOAT16)
    ends = np.array([0, 1, 20, 20, 190, 195], np.int32)
    y = held(lambda x, w, ends: ops.grouped_matmul(x, w, ends), "matmul", x, w, ends)
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [BFLOAT16, np.float64])
def test_groups_that_end_before_others_have_no_rows(dtype: Any) -> None:
    """One thread loads, and warps multiply: one hangs for the other if they do not agree."""
    x, w = drawn(70, 64, 32, 37, dtype)
    ends = np.array([50, 10, 65, 30, *range(33), 5], np.int32)[:37]
    ends[33:] = 67, 66, 3, 69
    scheduler = "matmul_by_threads" if dtype is np.float64 else "matmul"
    y = held(lambda x, w, e: ops.grouped_matmul(x, w, e), scheduler, x, w, ends)
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize(
    ("rows", "groups", "n", "k"), [(16384, 16, 4096, 7168), (8192, 8, 14336, 4096)]
)
def test_pairs_of_blocks_share_rows_and_the_last_tiles(
    rows: int, groups: int, n: int, k: int
) -> None:
    """16 x 4096 rows of an H100 take 8345 us in tiles of 128 x 256, and 6339 of pairs along n. Of
    n = 14336 each tile looked its rows up before its products: 2149 us of 12283 rows, and 2068.
    """
    zero, ends = np.zeros(1, BFLOAT16), np.zeros(groups, np.int32)
    x = np.lib.stride_tricks.as_strided(zero, (rows, k), (2 * k, 2))
    w = np.lib.stride_tricks.as_strided(zero, (groups, n, k), (2 * n * k, 2 * k, 2))
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.grouped_matmul(*map(fd.from_pytorch, (x, w, ends))))
    params = fd.sched.compute_matmul_heuristics([x, w, ends])
    assert (params.tile[:2], params.cluster, params.stream) == ((128, 256), (1, 2), True)


@pytest.mark.parametrize(
    ("rows", "groups", "n", "k", "tile", "stream"),
    [
        (16384, 128, 2048, 2048, (128, 256), True),  # 440 us in 128 x 128, 366 so
        (1301, 16, 4096, 7168, (128, 256), True),  # 340 us in 128 x 128, 300 so
        (4069, 128, 1536, 2048, (64, 128), True),  # 307 us where each agent looks rows up
        (7208, 48, 2000, 608, (128, 128), True),  # 93 us where each does, 75 so (128 x 168)
        (36, 2, 784, 552, (64, 32), False),  # 9.7 us, 10.8 where one does for all
        (258, 32, 392, 672, (64, 72), False),  # 15.7 us, 21.1 where one does
    ],
)
def test_matrices_of_few_rows_and_searches_take_their_time(
    rows: int, groups: int, n: int, k: int, tile: tuple[int, int], stream: bool
) -> None:
    """A matrix of one tile of rows comes late, so more of it is to be on its way; and one agent
    looks rows up for all where blocks have several tiles.
    """
    problem = Problem(values={}, alignment={}, target=H200)
    (params, _), *_ = heuristic.Work(m=rows, n=n, k=k, groups=groups).ranked(problem)
    assert (params.tile[:2], params.stream) == (tile, stream)


WIDE = ((8192, 4096), (8192, 2)), ((4, 14336, 4096), (2**13 * 14336, 8192, 2))
"""Shapes and strides of operands of 4 groups."""


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.bool_, np.float32, np.int64, BFLOAT16])
def test_numbers_of_rows_come_by_one_warp(dtype: Any, uncompiled: list[str]) -> None:
    """Rows of groups begin anywhere, and so do boxes of the TMA unit not: threads bring them. A
    warp group of these left 128 registers to each of 512 threads, with which ptxas takes no
    instruction of 256 columns.
    """
    x, w = (np.lib.stride_tricks.as_strided(np.zeros(1, BFLOAT16), s, t) for s, t in WIDE)
    ends, kept = np.zeros(4, np.int32), np.zeros((8192, 1), dtype)

    def masked(x: Any, w: Any, ends: Any, kept: Any) -> Any:
        return ops.where(ops.eq(kept, 0), 0.0, ops.grouped_matmul(x, w, ends))

    fuse(masked).lower(x, w, ends, kept).compile()
    (text,) = set(uncompiled)
    assert "__launch_bounds__(384" in text
    assert "ws_multiply_bfloat16_256(" in text
    assert "// load_beside" in text


def test_parts_without_rows_have_the_last_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they stood among others, some blocks had one tile more: 1513 us, not 1427, for 16
    groups of 1024 rows.
    """
    offered, blocks = heuristic.candidates, 3

    def chosen(*args: Any, **kinds: Any) -> Ways:
        wanted = {"rows": 64, "columns": 64, "lines": 1, "splits": 1, "down": 1, "across": 1}
        return only(offered(*args, **kinds), wanted | {"ping_pong": 0}, blocks=blocks)

    monkeypatch.setattr(heuristic, "candidates", chosen)
    monkeypatch.setattr(heuristic, "with_last_parts", lambda ways: ways)  # each looks rows up
    x, w = drawn(1000, 64, 200, 3, BFLOAT16)
    text = str(grouped.lower(x, w, np.array([10, 700, 900], np.int32)).compile().asm["kernel"])
    before, number = re.search(
        r"((?s:.*?)) x\d+ = group_row\(.*, ([^()]+|\w+\(.*\))\)\n", text
    ).groups()
    known = {
        "add": lambda *terms: sum(terms),
        "mul": lambda *factors: math.prod(factors),
        "floordiv": lambda a, b: a // b,
        "divide": lambda a, b, *magic: a // b,
        "ceildiv": lambda a, b: -(-a // b),
        "mod": lambda a, b: a % b,
        "minimum": min,
        "maximum": max,
        "T2": 0,
        **dict.fromkeys(("group_parts", "group_singles"), lambda *told: 1),
        **dict.fromkeys(("magic0", "shift0", "magic1", "shift1"), 0),
        **{f"T{n}_size{d}": size for n, a in enumerate((x, w)) for d, size in enumerate(a.shape)},
    }
    parts = []
    for place in range(20 * blocks):
        known |= {"load_i0": place // blocks, "grid_x": place % blocks}
        for name, value in re.findall(r"\n +(?:derive )?(\w+) = (.*)", before):
            known[name] = eval(value, {}, known)
        parts.append(eval(number, {}, known))
    assert len(set(parts)) > 1
    assert parts == sorted(parts)


def test_a_warp_looks_at_more_groups_than_it_has_lanes() -> None:
    """In two turns: the first 32 groups have the first ten rows."""
    x, w = drawn(80, 64, 24, 40, BFLOAT16)
    ends = np.array([n // 3 for n in range(32)] + [10, 10, 40, 41, 41, 70, 75, 75], np.int32)
    y = np.asarray(grouped(x, w, ends)).astype(np.float64)
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


def test_parts_of_k_behind_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster has one tile, so all threads look its group up, and wait for the kernel before to
    do so: before they know that the blocks of their cluster have started.
    """
    offered = heuristic.candidates

    def chosen(*args: Any, **kinds: Any) -> Ways:
        wanted = {"rows": 64, "columns": 32, "lines": 1, "splits": 2, "once": 1}
        return only(offered(*args, **kinds), wanted, stages=2)

    monkeypatch.setattr(heuristic, "candidates", chosen)
    x, w = drawn(40, 136, 32, 2, BFLOAT16)
    ends = np.array([7, 33], np.int32)

    def behind(x: Any, w: Any, ends: Any) -> Any:
        grown = ops.cast(ops.exp(ops.cast(x, DataType.Float)), DataType.BFloat16)
        return ops.grouped_matmul(grown, w, ends)

    compiled = fuse(behind).lower(x, w, ends).compile()
    assert compiled.explain().startswith("2 kernels")
    assert compiled.verify(schedules=2).verdict == "clean"


def test_no_groups_by_definition() -> None:
    """One part has all rows, so its number is known; what memory says of it is not, to launches."""
    x, w = drawn(8, 16, 8, 0, BFLOAT16)
    ends = np.zeros(0, np.int32)
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(array, static_sizes=True) for array in (x, w, ends)]
        fd.add_output(fd.ops.grouped_matmul(*given))
    with knobs.scope(device="sim"):
        (y,) = fd.execute([x, w, ends])
    np.testing.assert_array_equal(y.astype(np.float64), np.zeros((8, 8)))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("dtype", "k", "n"), [(np.float32, 20, 24), (np.float64, 16, 9), (BFLOAT16, 33, 47)]
)
def test_threads_take_operands_that_lie_anyhow(dtype: Any, k: int, n: int) -> None:
    x, w = drawn(90, k, n, 5, dtype)
    ends = np.array([3, 3, 40, 77, 88])
    y = held(lambda x, w, e: ops.grouped_matmul(x, w, e), "matmul_by_threads", x, w, ends)
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


def test_operands_and_results_that_are_permuted() -> None:
    x, w = drawn(90, 32, 24, 3, np.float32)
    ends = np.array([30, 55, 90])

    def turned(x: Any, w: Any, ends: Any) -> Any:
        y = ops.grouped_matmul(ops.permute(x, [1, 0]), ops.permute(w, [0, 2, 1]), ends)
        return ops.permute(y, [1, 0])

    lying = [np.ascontiguousarray(array.swapaxes(-1, -2)) for array in (x, w)]
    y = held(turned, "matmul_by_threads", *lying, ends)
    np.testing.assert_allclose(y.T, by_group(x, w, ends), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_ends_outside_the_rows_write_nothing_outside(dtype: Any) -> None:
    """The simulator refuses accesses outside of tensors; ends count as the nearest row."""
    x, w = drawn(70, 64, 32, 4, dtype)
    ends = np.array([-(2**31), -1, 40, 2**31 - 1], np.int32)
    scheduler = "matmul" if dtype is BFLOAT16 else "matmul_by_threads"
    y = held(lambda x, w, e: ops.grouped_matmul(x, w, e), scheduler, x, w, ends)
    want = by_group(x, w, np.clip(ends, 0, 70))
    np.testing.assert_allclose(y, want, rtol=2**-7, atol=1e-2)


def test_one_kernel_serves_any_ends_and_none() -> None:
    compiled = []
    for rows, groups in ((200, 3), (200, 3), (0, 3), (200, 0)):
        x, w = drawn(rows, 64, 64, groups, BFLOAT16)
        ends = np.sort(np.random.default_rng(len(compiled)).integers(0, rows + 1, groups))
        y = np.asarray(grouped(x, w, ends)).astype(np.float64)
        np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)
        compiled.append(grouped.lower(x, w, ends).compile().explain())
    assert compiled[0] == compiled[1]
    assert "Tile rasterization order: column-major\n" in compiled[0]


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_all_operands_may_have_strides(dtype: Any) -> None:
    x, w = drawn(100, 128, 64, 6, dtype)
    x, w, ends = x[:, :64], w[::2, :, 64:], np.array([10, 5, 50, 6, 100, 7])[::2]
    scheduler = "matmul" if dtype is BFLOAT16 else "matmul_by_threads"
    y = held(lambda x, w, e: ops.grouped_matmul(x, w, e), scheduler, x, w, ends)
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


def test_what_is_computed_from_it_is_computed_beside_it() -> None:
    x, w = drawn(200, 64, 64, 3, BFLOAT16)
    ends, scale = np.array([50, 50, 170]), np.linspace(0.5, 2, 200, dtype=np.float32)[:, None]

    def scaled(x: Any, w: Any, ends: Any, scale: Any) -> Any:
        return ops.cast(ops.silu(ops.grouped_matmul(x, w, ends)) * scale, DataType.BFloat16)

    y = held(scaled, "matmul", x, w, ends, scale)
    h = by_group(x, w, ends)
    np.testing.assert_allclose(y, h / (1 + np.exp(-h)) * scale, rtol=2**-6, atol=2e-2)


def test_ends_and_rows_may_be_computed() -> None:
    x, w = drawn(150, 64, 64, 3, BFLOAT16)
    counts = np.array([100, 0, 30])
    y = fuse(lambda x, w, n: ops.grouped_matmul(x * 2, w, ops.cumsum(n, 0)))(x, w, counts)
    want = 2 * by_group(x, w, np.cumsum(counts))
    np.testing.assert_allclose(np.asarray(y).astype(np.float64), want, rtol=2**-7, atol=2e-2)


@pytest.mark.slow
def test_kernels_of_groups_are_kept_on_disk(tmp_path: Path) -> None:
    x, w = drawn(100, 64, 64, 3, BFLOAT16)
    ends = np.array([10, 40, 95])
    with knobs.scope(cache_dir=tmp_path, keep_emitted=True):
        first, again = (fuse(ops.grouped_matmul).lower(x, w, ends).compile() for _ in range(2))
        y = np.asarray(fuse(ops.grouped_matmul)(x, w, ends)).astype(np.float64)
    assert first.kernels == again.kernels
    assert len(list(tmp_path.glob("*.kernel"))) == 1
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=2**-7, atol=1e-2)


def test_operands_may_be_scaled_by_blocks() -> None:
    x, w = drawn(90, 256, 24, 3, ml_dtypes.float8_e4m3fn)
    ends, of_x = np.array([30, 55, 88]), np.linspace(0.5, 2, 180, dtype=np.float32).reshape(90, 2)

    def scaled(x: Any, w: Any, ends: Any, of_x: Any) -> Any:
        wide = ops.cast(x, DataType.Float) * ops.repeat_interleave(of_x, 128, 1)
        return ops.grouped_matmul(wide, ops.cast(w, DataType.Float), ends)

    y = held(scaled, "matmul_by_threads", x, w, ends, of_x)
    want = by_group(x.astype(np.float64) * np.repeat(of_x, 128, 1), w, ends)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-3)


def test_only_rows_of_a_grouped_product_are_split_by_groups() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.exp(x)
        fd.add_output(y)
        with pytest.raises(ScheduleError, match="WS0382"):
            split_by_group(y, 0, 64)
