"""Tiles of products that are scaled by blocks of k: how many scales their columns have, which fill
rounds, and parts of few.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.scaled import KINDS, operands, program
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.matmul.blocks import Spread, at_once
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

PROBLEM = Problem(values={}, alignment={}, target=H200)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("tile", "passes", "chunk"),
    [((128, 160), 1, 32), ((256, 112), 2, 16), ((128, 144), 1, 16), ((192, 96), 1, 32)],
)
@pytest.mark.parametrize("kind", ["squares", "blocks"])
def test_tiles_whose_columns_have_several_scales(
    monkeypatch: pytest.MonkeyPatch, kind: str, tile: tuple[int, int], passes: int, chunk: int
) -> None:
    """The second tile begins inside 128 columns that share one; of nine steps one is a turn."""
    shape = {"passes": passes, "stages": 3, "chunk": chunk, "store_stages": 2, "group": 1}
    chosen = heuristic.choose
    given: dict[str, Any] = {
        "tile": (*tile, 128),
        "blocks": 2,
        "cluster": (1, 1),
        "stream": False,
        **shape,
    }
    monkeypatch.setattr(heuristic, "choose", lambda *asked: replace(chosen(*asked), **given))
    args, wanted = operands(136, 328, 1152, kind)
    with knobs.scope(device="sim"):
        scaled = program(kind, dtype=DataType.BFloat16)
        compiled = scaled.lower(*args).compile()
        assert compiled.verify(schedules=1).verdict == "clean"
        got = torch.as_tensor(scaled(*args))
    assert f"tile=({tile[0]}, {tile[1]}, 128)" in compiled.explain()
    assert float((got.double() - wanted).norm() / wanted.norm()) < 2**-8


def best(m: int, n: int, k: int) -> tuple[tuple[int, int], bool]:
    """The tile that is predicted to be fastest, and whether blocks have parts of the last ones."""
    ((params, _),) = work(m, n, k).best(PROBLEM)
    return params.tile[:2], params.stream


def work(m: int, n: int, k: int) -> Work:
    scales = (Spread(rows=True, share=128), Spread(rows=False, share=128))
    moved = Beside(staged=("T0",), out=2, widest=2)
    return Work(m=m, n=n, k=k, element=1, moved=moved, scales=scales)


def test_tiles_fill_rounds() -> None:
    """104 tiles of 256 x 128 are a round as 120 of 256 x 112. Eleven scales, of 176 columns, are
    too many.
    """
    assert best(512, 6656, 13312) == ((256, 112), False)
    assert best(1664, 1408, 11008) == ((128, 144), False)
    assert best(2688, 1920, 7936) == ((128, 160), False)
    many = work(4096, 7168, 16384).ranked(PROBLEM)
    assert not any(params.tile[1] == 176 for params, _ in many)


@pytest.mark.few(1)
@pytest.mark.parametrize(("m", "tile", "stream"), [(5, (64, 8), True), (20, (64, 24), False)])
@pytest.mark.parametrize("kind", ["squares", "blocks", "columns"])
def test_few_rows_are_columns_of_a_tile(
    monkeypatch: pytest.MonkeyPatch, kind: str, m: int, tile: tuple[int, int], stream: bool
) -> None:
    """So none of what is multiplied lies behind the last row, and scales are those of columns."""
    args, wanted = operands(m, 200, 1168, kind)

    def swapped(fusion: Any, problem: Problem) -> Any:
        ways = heuristic.ranked(fusion, problem)
        return next(p for p, _ in ways if p.swapped and (p.tile[:2], p.stream) == (tile, stream))

    monkeypatch.setattr(heuristic, "choose", swapped)
    with knobs.scope(device="sim"):
        scaled = program(kind, dtype=DataType.BFloat16)
        compiled = scaled.lower(*args).compile()
        assert compiled.verify(schedules=1).verdict == "clean"
        got = torch.as_tensor(scaled(*args))
    assert "swapped=True" in compiled.explain()
    assert float((got.double() - wanted).norm() / wanted.norm()) < 2**-8


def test_no_group_multiplies_what_lies_behind_the_last_row() -> None:
    """Copies of what lies outside take longer than of what lies inside."""
    for m, most in ((24, 64), (64, 64), (65, 128), (128, 128), (129, 192)):
        ways = work(m, 5120, 7808).ranked(PROBLEM)
        assert max(params.tile[0] for params, _ in ways) == most


def test_few_tiles_are_shared() -> None:
    """Of 58 tiles of 64 x 64 two blocks have parts of k each: their steps take as long however
    little they multiply.
    """
    assert best(16, 3712, 10112) == ((64, 64), True)
    assert best(216, 2944, 10112) == ((128, 96), True)
    assert not best(8, 1280, 1280)[1]


def test_tiles_of_few_rows_are_low() -> None:
    """One group of 64 rows: two take longer where half of what they have lies outside, and where
    one's steps are short anyhow. Rows are columns of a tile where those are up to 32.
    """
    assert best(128, 1408, 1792)[0] == (64, 32)
    assert best(416, 1152, 4224)[0] == (64, 64)
    for m, n, k in ((24, 5120, 7808), (8, 7808, 9984), (24, 4480, 3456)):
        plain = work(m, n, k)
        scales = tuple(each.swapped for each in plain.scales)
        turned = replace(plain, m=n, n=m, scales=scales, swapped=True, few=m)
        params, _ = heuristic.best_way((plain, turned), PROBLEM)
        assert params.swapped
        assert params.tile[:2] == (64, m)


@pytest.mark.parametrize(
    ("steps", "found"), [(3, 4), (8, 8), (10, 4), (12, 4), (16, 8), (20, 4), (33, 8), (56, 8)]
)
def test_scales_of_so_many_steps_come_at_once(steps: int, found: int) -> None:
    """Of eight, if these are not few, and four would not divide them where eight do not."""
    assert at_once(128 * steps) == found
    assert at_once(128 * steps - 16) == (4 if steps <= 12 and steps != 8 else 8)


@pytest.mark.parametrize("kind", ["blocks", "columns"])
def test_what_branches_on_a_product_finds_scales_past_the_last_row(kind: str) -> None:
    """Nobody wrote them: calls on the simulator were refused, though nothing of it is stored."""
    given, wanted = operands(68, 40, 256, kind)
    block_a, block_b = KINDS[kind]

    def squashed(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
        b, of_b = ops.transpose(b), ops.transpose(of_b)
        y = ops.scaled_matmul(a, b, of_a, of_b, precision="fast", block_a=block_a, block_b=block_b)
        return ops.tanh(y * 0.01)

    found = fuse(squashed)(*given).double()
    torch.testing.assert_close(found, torch.tanh(wanted * 0.01), rtol=1e-2, atol=1e-2)
