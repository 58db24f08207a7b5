"""Tiles of every size, stored from registers, that few blocks loop over over all batches."""

from dataclasses import replace
from math import gcd
from typing import Any

import pytest

from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.schedulers.matmul import candidates, heuristic
from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.room import Room
from warpsmith.targets.hopper import SM90A

TILES = (*candidates.TILES, *candidates.SMALL)


LARGE = Beside(staged=("", ""), out=6, widest=4)
"""More than any of these tests stores: a result of floats and one of 16 bits."""


def forced(monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int]) -> None:
    """Two blocks with these tiles, whatever would be chosen."""
    chosen = heuristic.choose

    def choose(*args: Any) -> heuristic.MatmulParams:
        params = chosen(*args)
        chunk = min(params.chunk, gcd(tile[1], 64))
        return replace(
            params,
            tile=(*tile, params.tile[2]),
            chunk=chunk,
            stages=int(Room(tile, SM90A.limits, LARGE).stages(chunk)),
            group=2,
            blocks=2,
            cluster=(1, 1),
            splits=1,
            stream=False,
            ping_pong=0,
        )

    monkeypatch.setattr(heuristic, "choose", choose)


@pytest.mark.few(2)
@pytest.mark.parametrize("tile", TILES)
def test_fragments_of_every_tile(monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int]) -> None:
    forced(monkeypatch, tile)
    x, weight, residual = values((140, 72), 1), values((270, 72), 2), values((140, 270), 3)

    def body(ops: Any, a: Any, b: Any, r: Any) -> Any:
        made = ops.add(ops.linear(a, b), r)
        return ops.cast(made, DataType.Float), ops.relu(made)

    sums, positive = run([x, weight, residual], body)
    wanted = wide(x) @ wide(weight).T + wide(residual)
    close(sums, wanted, 72)
    close(positive, wanted.clip(0), 72)


@pytest.mark.few(2)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("n", [136, 133])
def test_batches_of_every_tile(
    monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int], n: int
) -> None:
    """Tiles of two batches, of which the last ones are cut short; staged where n allows."""
    forced(monkeypatch, tile)
    a, b = values((2, 140, 72), 4), values((2, n, 72), 5)
    (result,) = run([a, b], lambda ops, x, y: ops.matmul(x, ops.transpose(y)))
    close(result, wide(a) @ wide(b).swapaxes(1, 2), 72)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [88, 87])
def test_nothing_races_under_other_schedules(n: int) -> None:
    a, b, row = values((2, 70, 136), 6), values((2, n, 136), 7), values((n,), 8)
    with FusionDefinition() as fd:
        x, y, c = (fd.from_pytorch(array) for array in (a, b, row))
        made = fd.ops.add(fd.ops.matmul(x, fd.ops.transpose(y)), c)
        fd.add_output(made)
        if n % 2:
            fd.add_output(fd.ops.gt(made, 0.0))
    with knobs.scope(device="sim"):
        verification = fd.verify([a, b, row], schedules=6)
    assert [report.verdict for report in verification.reports] == ["clean"]
