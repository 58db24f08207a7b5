"""Products of few rows or columns, which are the columns of one instruction of tensor cores."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.errors import PlanWarning
from warpsmith.ir.program import Program
from warpsmith.schedulers.matmul import heuristic, model
from warpsmith.schedulers.matmul.heuristic import MatmulParams
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

Array = np.ndarray
Forcing = Callable[..., list[MatmulParams]]


@pytest.fixture
def forcing(monkeypatch: pytest.MonkeyPatch) -> Forcing:
    """Takes the first candidate with such parameters, and keeps it in a list."""

    def force(**wanted: Any) -> list[MatmulParams]:
        taken: list[MatmulParams] = []

        def choose(fusion: Program, problem: Problem) -> MatmulParams:
            found = (params for params, _ in heuristic.ranked(fusion, problem))
            params = next(p for p in found if all(getattr(p, n) == v for n, v in wanted.items()))
            taken.append(params)
            return params

        monkeypatch.setattr(heuristic, "choose", choose)
        return taken

    return force


def laid(array: Array, *, turned: bool) -> Array:
    """The same matrices, of which columns lie beside each other in memory."""
    return array.swapaxes(-1, -2).copy().swapaxes(-1, -2) if turned else array


def linear(x: Array, weight: Array, *, turned: str = "") -> Array:
    """`x @ weight.T` of matrices of any extents, 1 among them, whose lines may have gaps."""
    with FusionDefinition() as fd:
        tensors = [
            fd.define_tensor(
                [-1, -1],
                [False, True],
                DataType.BFloat16,
                stride_order=[0, 1] if name in turned else None,
            )
            for name in "xw"
        ]
        fd.add_output(fd.ops.linear(*tensors))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
    found: Array = result
    return found


def columns(m: int, turned: str) -> int:
    """Of a tile: pieces of x that lie along m are of 16."""
    step = 16 if "x" in turned else 8
    return -(-m // step) * step


@pytest.mark.few(3)
@pytest.mark.parametrize("turned", ["", "x", "w", "xw"])
@pytest.mark.parametrize(("splits", "lines"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("m", [2, 3, 8, 17, 64])
def test_the_weights_come_first(
    forcing: Forcing, m: int, splits: int, lines: int, turned: str
) -> None:
    taken = forcing(swapped=True, splits=splits, tile=(64, columns(m, turned), 64 * lines))
    x, weight = (
        laid(values((rows, 200), rows), turned=name in turned)
        for name, rows in zip("xw", (72, 136), strict=True)
    )
    x = x[:m]
    close(linear(x, weight, turned=turned), wide(x) @ wide(weight).T, 200)
    assert taken


@pytest.mark.parametrize(
    ("n", "k"),
    [(2560, 4096), (4096, 4096), (12288, 4096), (28672, 4096), (4096, 14336), (8192, 8192)],
)
def test_weights_are_predicted_to_come_at_the_rate_of_the_memory(n: int, k: int) -> None:
    """But for a start, and what waits for the last of uneven rounds; all cores load weights."""
    problem = Problem(values={}, alignment={}, target=H200)
    work = heuristic.Work(m=n, n=8, k=k, swapped=True, few=8, moved=Beside())
    (best, us), *_ = work.ranked(problem)
    rate = model.MEMORY_SHARE * model.ONCE_TIMES * H200.rates.memory
    floor = model.START_US + 2 * (n + 8) * k / rate
    assert 0.97 * floor < us < 1.14 * floor + model.CLUSTER_US + model.JOIN_US
    assert best.stages * best.tile[0] * best.tile[2] * 2 >= 64 * 1024  # in flight
    assert not best.ping_pong


def test_clusters_spread_blocks_of_a_kernel_alone() -> None:
    """In a chain of kernels others start sooner, where multiprocessors are free."""
    alone = Problem(values={}, alignment={}, target=H200)
    work = heuristic.Work(m=4096, n=8, k=4096, swapped=True, few=8, moved=Beside())
    assert work.ranked(alone)[0][0].cluster == (4, 1)
    early = work.ranked(replace(alone, chained=True))
    assert {params.cluster for params, _ in early} == {(1, 1)}
    assert early[0][0].splits == 2


def test_many_rows_are_not_offered_the_weights_first() -> None:
    """Unless results leave through shared memory, as those of 16 bits do. And whoever is offered
    candidates by name, as autotuning is, has the same, in that order.
    """
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in "xy")
        fd.add_output(fd.ops.linear(x, y))
    candidate = select(fd.fusion, H200)
    for m, n in ((256, 73), (257, 73), (257, 72)):
        sizes = {"T0_size0": m, "T0_size1": 640, "T1_size0": n, "T1_size1": 640}
        problem = Problem(values=sizes, alignment={}, target=H200)
        found = [params for params, _ in heuristic.ranked(candidate.fusion, problem)]
        assert any(params.swapped for params in found)
        assert list(dict(candidate.alternatives(problem)).values()) == found
        assert candidate.choose(problem)[0] == found[0]


TYPES: tuple[tuple[Any, dict[str, str], DataType, tuple[int, ...]], ...] = (
    (np.float16, {}, DataType.Float, (2, 3)),
    (np.float32, {"precision": "tf32"}, DataType.BFloat16, (8,)),
    (ml_dtypes.float8_e4m3fn, {"precision": "fast"}, DataType.Half, (7,)),
    (np.int8, {}, DataType.Int32, (40,)),
)


@pytest.mark.few(2)
@pytest.mark.parametrize(("dtype", "asked", "out", "rows"), TYPES)
def test_types_and_batches(
    forcing: Forcing, dtype: Any, asked: dict[str, str], out: DataType, rows: tuple[int, ...]
) -> None:
    """Whole numbers, whose sums are exact; 40 columns are none that integers' instructions have."""
    taken = forcing(swapped=True)
    random = np.random.default_rng(3)
    x, w = (random.integers(-3, 4, s).astype(dtype) for s in ((2, *rows, 96), (2, 88, 96)))
    if len(rows) > 1:
        x, w = x[0], w[0]

    def body(ops: Any, a: Any, b: Any) -> Any:
        return ops.cast(ops.matmul(a, ops.transpose(b), **asked), out)

    (result,) = run([x, w], body)
    np.testing.assert_array_equal(wide(result), wide(x) @ wide(w).swapaxes(-1, -2))
    assert taken[-1].tile[1] == -(-rows[-1] // 8) * 8 + 8 * (dtype is np.int8)


@pytest.mark.parametrize("splits", [1, 4])
def test_what_follows_has_the_loops_of_the_product(forcing: Forcing, splits: int) -> None:
    """Bias along n, a residual, a result along m of two columns at once, and one along n."""
    forcing(swapped=True, splits=splits)
    x, w, bias = values((6, 264), 4), values((72, 264), 5), values((72,), 6)
    residual = values((6, 72), 7)

    def body(ops: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
        made = ops.add(ops.add(ops.linear(a, b), c), r)
        return ops.relu(made), ops.permute(ops.cast(made, DataType.Float), [1, 0])

    positive, turned = run([x, w, bias, residual], body)
    wanted = wide(x) @ wide(w).T + wide(bias) + wide(residual)
    close(positive, wanted.clip(0), 264)
    close(turned, wanted.T, 264)


@pytest.mark.parametrize("n", [1, 16, 40, 48])
def test_few_columns_need_no_exchange_of_operands(forcing: Forcing, n: int) -> None:
    forcing(tile=(128, -(-n // 8) * 8, 64), swapped=False)
    x, w = values((136, 72), 8), values((n, 72), 9)
    close(linear(x, w), wide(x) @ wide(w).T, 72)


@pytest.mark.parametrize(("m", "splits", "lines"), [(5, 3, 4), (24, 1, 1)])
def test_nothing_races_and_the_proof_holds(
    forcing: Forcing, m: int, splits: int, lines: int
) -> None:
    """Tiles that blocks loop over more than once, under several orders of warps and copies."""
    forcing(swapped=True, splits=splits, lines=lines)
    x, weight = values((m, 520), 10), values((136, 520), 11)
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(array) for array in (x, weight))
        fd.add_output(fd.ops.linear(a, b))
    with knobs.scope(device="sim", verify="all"), warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        verification = fd.verify([x, weight], schedules=4)
    assert [report.verdict for report in verification.reports] == ["clean"]


@pytest.mark.parametrize(("cluster", "name"), [((1, 1), "load"), ((1, 2), "multicast")])
def test_what_one_cluster_reads_is_the_first_to_leave_the_l2(
    forcing: Forcing, cluster: tuple[int, int], name: str
) -> None:
    """Of two tiles of columns each reads the rows again, unless they are of one cluster."""
    taken = forcing(tile=(64, 40, 64), cluster=cluster, swapped=False, splits=1, ping_pong=0)
    x, w = values((136, 72), 8), values((72, 72), 9)
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(array) for array in (x, w))
        fd.add_output(fd.ops.linear(a, b))
    with knobs.scope(device="sim"):
        (y,) = fd.execute([x, w])
        (launch,) = Executable(fd.fusion).plan_for([x, w]).launches
    close(y, wide(x) @ wide(w).T, 72)
    assert taken[-1].once_read == (cluster == (1, 2), False)
    text = launch.compiled.asm["cuda"]
    assert (f"ws_tensor_{name}_once(" in text) == (cluster == (1, 2))
