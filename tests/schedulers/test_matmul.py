"""The matmul scheduler: what it takes, and that its kernels are right on the simulator."""

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np
import pytest

from tests.support.matmuls import check, linear, operands
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.schedulers.matmul import applicability, candidates, heuristic
from warpsmith.schedulers.matmul.params import kept
from warpsmith.schedulers.matmul.room import Room
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

SIZES = (
    (128, 256, 64),
    (256, 512, 512),
    (200, 264, 72),
    (8, 8, 8),
    (129, 520, 200),
)
MORE = ((128, 256, 512), (384, 256, 320), (64, 64, 64), (1, 1000, 136), (300, 8, 1000))
EMPTY = ((64, 64, 0), (0, 64, 64), (64, 0, 64))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "size", [*SIZES, *EMPTY, *(pytest.param(s, marks=pytest.mark.slow) for s in MORE)]
)
def test_products_are_right(size: tuple[int, int, int]) -> None:
    x, weight = operands(*size, seed=1)
    with knobs.scope(device="sim"):
        (result,) = linear().execute([x, weight])
    check(result, x, weight)


@pytest.mark.parametrize(
    ("turned", "size", "dtype"),
    [
        ("b", (200, 136, 200), DataType.BFloat16),
        ("b", (64, 40, 72), DataType.Half),
        ("a", (200, 264, 72), DataType.Half),
        ("ab", (136, 328, 136), DataType.BFloat16),
    ],
)
def test_operands_along_m_and_n_need_no_copy(
    turned: str, size: tuple[int, int, int], dtype: DataType
) -> None:
    with FusionDefinition() as fd:
        orders = [[0, 1] if name in turned else None for name in "ab"]
        tensors = [fd.define_tensor([-1, -1], True, dtype, stride_order=o) for o in orders]
        fd.add_output(fd.ops.linear(*tensors))
    x, weight = operands(*size, seed=4, dtype=dtype)
    given = [
        np.asfortranarray(t) if n in turned else t for n, t in zip("ab", (x, weight), strict=True)
    ]
    with knobs.scope(device="sim"):
        (result,) = fd.execute(given)
    check(result, x, weight)
    assert fd.explain().startswith("1 kernel")
    assert "scheduler   matmul\n" in fd.explain()


def test_rows_of_several_dimensions_along_m() -> None:
    """The tile's rows walk both, and its batches the third."""
    random = np.random.default_rng(5)
    a, b = (random.uniform(-2, 2, s).astype(np.float16) for s in ((2, 40, 6, 16), (2, 40, 72)))
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1] * t.ndim, True, DataType.Half) for t in (a, b))
        fd.add_output(fd.ops.einsum("zkij,zkn->zijn", x, y))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    wanted = np.einsum("zkij,zkn->zijn", a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=1e-3, atol=1e-2)
    assert "scheduler   matmul\n" in fd.explain()


@pytest.mark.few(2)
@pytest.mark.parametrize("depth", [64, 128, 192])
def test_a_known_number_of_steps(depth: int) -> None:
    """ptxas serialized the products of a loop that it knew to run."""
    with FusionDefinition() as fd:
        x, weight = (fd.define_tensor([-1, depth], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.linear(x, weight))
    a, b = operands(136, 72, depth, seed=3)
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    check(result, a, b)


def test_half_as_well() -> None:
    x, weight = operands(136, 264, 200, seed=2, dtype=DataType.Half)
    with knobs.scope(device="sim"):
        (result,) = linear(DataType.Half).execute([x, weight])
    check(result, x, weight)


def test_pointwise_work_on_the_result() -> None:
    """A bias for each column, a residual, and an activation, all in the product's registers."""
    with FusionDefinition() as fd:
        x, weight, residual = (
            fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(3)
        )
        bias = fd.define_tensor([-1], True, DataType.BFloat16)
        fd.add_output(fd.ops.relu(fd.ops.add(fd.ops.linear(x, weight, bias), residual)))
    a, b = operands(136, 264, 72, seed=5)
    other, row = operands(136, 1, 264, seed=6)
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b, other, row[0]])
    wide = a.astype(np.float64) @ b.astype(np.float64).T
    wanted = np.maximum(wide + row[0].astype(np.float64) + other.astype(np.float64), 0)
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=2**-7, atol=2**-7)


def test_tiles_that_a_block_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks for five tiles, in groups of two rows of tiles of which the last is cut short."""
    with_params(monkeypatch, blocks=2, group=2)
    x, weight = operands(600, 256, 128, seed=3)
    with knobs.scope(device="sim"):
        (result,) = linear().execute([x, weight])
    check(result, x, weight)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [columns for _, columns in candidates.TILES])
def test_tiles_of_every_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    tile, chunk = (128, columns, 64), gcd(columns, 64)
    number = int(Room(tile[:2], H200.family.limits).stages(chunk))
    with_params(monkeypatch, tile=tile, stages=number, chunk=chunk, blocks=2)
    x, weight = operands(200, 264, 136, seed=7)
    with knobs.scope(device="sim"):
        (result,) = linear().execute([x, weight])
    check(result, x, weight)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("cluster", "columns"),
    [((2, 1), 136), ((4, 1), 136), ((1, 2), 136), ((2, 2), 136), ((2, 2), 129)],
)  # stored by TMA, but for the last, which the threads store
def test_blocks_that_load_for_each_other(
    monkeypatch: pytest.MonkeyPatch, cluster: tuple[int, int], columns: int
) -> None:
    tile = (128, 64, 64)
    with_params(monkeypatch, tile=tile, stages=4, blocks=4, group=1, cluster=cluster)
    x, weight = operands(300, columns, 136, seed=7)
    fd = linear()
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
    check(result, x, weight)
    assert f"cluster={cluster}" in fd.explain()
    for blocks in (2, 4):
        assert fd.explain().count(f"by multicast to {blocks} blocks") == cluster.count(blocks)


def test_batches_whose_blocks_load_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with_params(monkeypatch, tile=(64, 64, 64), stages=3, blocks=2, cluster=(2, 1))
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.matmul(x, fd.ops.permute(y, [0, 2, 1])))
    pairs = [operands(200, 72, 136, seed=seed) for seed in range(3)]
    a, b = (np.stack(each) for each in zip(*pairs, strict=True))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    for each, (left, right) in zip(result, pairs, strict=True):
        check(each, left, right)
    assert "by multicast to 2 blocks" in fd.explain()


@pytest.mark.few(1)
@pytest.mark.parametrize(("turned", "cluster"), [("ab", (2, 2)), ("b", (2, 1)), ("a", (1, 2))])
def test_blocks_load_operands_along_m_and_n_for_each_other(
    monkeypatch: pytest.MonkeyPatch, turned: str, cluster: tuple[int, int]
) -> None:
    """Pieces of 64 rows or columns, of which each block brings its share to all of them."""
    tile = (128, 128, 64)
    with_params(monkeypatch, tile=tile, chunk=64, stages=2, blocks=4, group=1, cluster=cluster)
    fd = right_of_halves(operands(304, 264, 136, seed=8, dtype=DataType.Half), turned)
    assert fd.explain().count("by multicast to 2 blocks") == sum(b > 1 for b in cluster)


def right_of_halves(
    given: tuple[np.ndarray, np.ndarray], turned: str, out: DataType = DataType.Half
) -> FusionDefinition:
    """`linear`, of which operands `a`, `b` or both are turned, once it has given what it should."""
    with FusionDefinition() as fd:
        orders = [[0, 1] if name in turned else None for name in "ab"]
        a, b = (fd.define_tensor([-1, -1], True, DataType.Half, stride_order=o) for o in orders)
        fd.add_output(fd.ops.cast(fd.ops.linear(a, b), out))
    arrays = [np.asfortranarray(t) if n in turned else t for n, t in zip("ab", given, strict=True)]
    with knobs.scope(device="sim"):
        (result,) = fd.execute(arrays)
    check(result, *given)
    return fd


def with_params(monkeypatch: pytest.MonkeyPatch, **params: object) -> None:
    """The heuristic takes a schedule of one block a tile, and of groups that share it, but for what
    is said here.
    """
    chosen = heuristic.choose
    given: Any = {"splits": 1, "parts": 1, "ping_pong": 0, "cluster": (1, 1), "stream": False}
    given |= {"swapped": False, "passes": 1, **params}
    monkeypatch.setattr(heuristic, "choose", lambda *args: replace(chosen(*args), **given))


def test_rows_that_tma_cannot_copy_are_left_to_threads() -> None:
    x, weight = operands(64, 64, 60, seed=4)
    fd = linear()
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
    check(result, x, weight)
    assert "rows of 60 elements, 120 bytes" in fd.explain()


def refused(**changes: object) -> str:
    """What the scheduler says of a product with something changed."""
    dtype = changes.get("dtype", DataType.BFloat16)
    order = changes.get("order")
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype)
        y = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=dtype, stride_order=order)
        for _ in range(int(changes.get("products", 1))):  # type: ignore[call-overload]
            result = fd.ops.linear(x, y)
        if changes.get("reduced"):
            result = fd.ops.sum(result, 0)
        if changes.get("twice"):
            fd.add_output(fd.ops.relu(result))
        fd.add_output(fd.ops.cast(result, DataType.Float) if changes.get("wide") else result)
    return applicability.refusal(fd.fusion, H200)


def test_what_is_refused_in_words() -> None:
    assert refused() == ""
    assert refused(order=[0, 1]) == ""
    wide = refused(order=[0, 1], dtype=DataType.Int8)
    assert wide == "T1, an operand of its product, is not contiguous along k"
    assert refused(dtype=DataType.Float) == "T0, an operand of its product, is float"
    assert refused(twice=True) == refused(wide=True) == ""
    assert refused(products=2) == "it has 2 matrix products"
    assert refused(reduced=True) == "it has other operations than pointwise ones beside the product"


@pytest.mark.parametrize(
    ("m", "n", "k", "columns"),
    [
        (8192, 8192, 8192, (256, 192)),
        (4096, 4096, 4096, (256,)),
        (2048, 2048, 2048, (256,)),
        (1024, 1024, 1024, (64,)),
        (512, 512, 512, (64,)),
    ],
)
def test_tiles_that_were_measured_to_be_fastest(
    m: int, n: int, k: int, columns: tuple[int, ...]
) -> None:
    """The best of four on an H200: docs/lessons/matmul.md."""
    problem = Problem(values={}, alignment={}, target=H200)
    measured = [(128, wide, 64) for wide in (256, 192, 128, 64)]
    every = [p for p in heuristic.candidates(m, n, problem) if p.cluster == (1, 1)]
    work = heuristic.Work(m=m, n=n, k=k)
    best = min(
        (params for params in every if params.tile in measured),
        key=lambda params: work.predicted(params, H200),
    )
    assert best.tile[1] in columns


def test_blocks_share_what_lies_badly() -> None:
    """Rows that touch two lines of the L2 come by clusters of eight."""
    problem = Problem(values={}, alignment={}, target=H200)
    down, across = heuristic.Work(m=3648, n=480, k=8632).best(problem)[0][0].cluster
    assert down * across == 8


@pytest.mark.few(24)
@pytest.mark.parametrize("tiles", range(1, 200))
def test_few_places_of_a_group_are_empty(tiles: int) -> None:
    problem = Problem(values={}, alignment={}, target=H200)
    group = next(iter(heuristic.candidates(128 * tiles, 256, problem))).group
    assert min(tiles, 6) <= group <= 33
    assert -(-tiles // group) * group - tiles < max(1, tiles / 8)


@pytest.mark.few(1)
@pytest.mark.parametrize("turned", ["", "ab"])
@pytest.mark.parametrize(
    ("tile", "splits"), [((64, 32), 4), ((64, 64), 4), ((64, 64), 2), ((128, 64), 2)]
)
@pytest.mark.parametrize("out", [DataType.Half, DataType.Float])
@pytest.mark.parametrize("once", [False, True])
def test_blocks_of_a_cluster_have_parts_of_k(
    monkeypatch: pytest.MonkeyPatch,
    tile: tuple[int, int],
    splits: int,
    turned: str,
    out: DataType,
    once: bool,
) -> None:
    """Three parts of k, which four blocks share, or two; tiles that few clusters loop over, or one
    each has, and then one place for sums. Each block keeps a share of the results, but for that of
    8 columns which are staged.
    """
    own = int(kept(tile[1], splits, staged=True))
    given = {"tile": (*tile, 64), "chunk": own, "splits": splits, "once": once}
    with_params(monkeypatch, stages=2, blocks=2 * splits, group=1, **given)
    fd = right_of_halves(operands(136, 104, 136, seed=9, dtype=DataType.Half), turned, out)
    said = fd.explain()
    assert f"splits={splits}" in said
    places = 1 if once else 2
    assert f"exchange0: {places} stage" in said


def test_sums_of_one_tile_leave_room_for_stages() -> None:
    """28 KB for each step of 128 x 96: 4 stages were 1.2 times as slow as cuBLAS (an H100)."""
    problem = Problem(values={}, alignment={}, target=H200)

    def stages(m: int) -> int:
        found = heuristic.candidates(m, 192, problem)
        return next(p.stages for p in found if (p.tile[:2], p.splits) == ((128, 96), 3))

    assert (stages(15 * 128), stages(16 * 128)) == (5, 4)


def test_long_sums_of_few_tiles_are_shared_out() -> None:
    """As they were timed on an H200: docs/lessons/matmul.md."""
    problem = Problem(values={}, alignment={}, target=H200)

    def splits(m: int, n: int, k: int) -> int:
        ways = heuristic.candidates(m, n, problem)
        us = heuristic.Work(m=m, n=n, k=k).priced(ways, H200)
        return int(ways.splits[us.argmin()])

    assert splits(64, 320, 9152) > 1
    assert splits(120, 416, 14520) > 1
    assert splits(4096, 4096, 4096) == splits(2048, 2048, 1024) == 1
