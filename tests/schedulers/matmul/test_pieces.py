"""Tiles of an operand that lies along n come in pieces of 128 bytes, more than a tile may have."""

import numpy as np
import pytest

from tests.support.product_programs import close, forcing, values, wide
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.room import loaded_columns
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

STAGES, DEPTH = 3, 64


def along_n() -> FusionDefinition:
    """`x [m, k] @ weight [k, n]`."""
    with FusionDefinition() as fd:
        x, weight = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.matmul(x, weight))
    return fd


USUAL = {"ping_pong": 0, "splits": 1, "parts": 1, "stages": STAGES, "group": 1, "chunk": 16}
force = forcing(**USUAL, stream=False, swapped=False, passes=1)


@pytest.mark.few(1)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize(("columns", "held"), [(16, 16), (32, 32), (48, 64), (80, 128), (112, 128)])
def test_whole_pieces_are_loaded(
    monkeypatch: pytest.MonkeyPatch, columns: int, held: int, cluster: tuple[int, int]
) -> None:
    """What the last one has of the next tile, or past the end, is multiplied by nobody."""
    force(monkeypatch, tile=(64, columns, DEPTH), cluster=cluster, blocks=4)
    x, weight = values((136, 72), 1), values((72, 264), 2)
    fd = along_n()
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
        assert fd.verify([x, weight], schedules=2).verdict == "clean"
        (launch,) = Executable(fd.fusion).plan_for([x, weight]).launches
    close(result, wide(x) @ wide(weight), 72)
    sizes = {buffer.name: buffer.size for buffer in launch.compiled.kernel.shared}
    stages = [int(size.value) for size in sizes.values() if hasattr(size, "value")]
    assert STAGES * DEPTH * held in stages
    assert loaded_columns(columns, 2, turned=True) == held
    assert loaded_columns(columns, 2, turned=False) == columns


def test_stages_have_room_for_whole_pieces() -> None:
    """Two pieces hold 80 columns as well as 128: as many bytes, and as many stages."""
    problem = Problem(values={}, alignment={}, target=H200)
    ways = [p for p, _ in Work(m=4096, n=4096, k=4096, turned=(False, True)).ranked(problem)]
    stages = {
        p.tile[1]: p.stages
        for p in ways
        if p.tile[0] == 128 and p.ping_pong == 0 and p.splits == 1 and p.chunk == 16
    }
    assert stages[80] == stages[112]
    along_k = [p for p, _ in Work(m=4096, n=4096, k=4096).ranked(problem)]
    assert stages[80] < max(p.stages for p in along_k if p.tile[:2] == (128, 80))


def test_tiles_of_any_multiple_of_8_columns_leave_no_round_nearly_empty() -> None:
    """1320 columns are 8 of 168, nearly: a tile for each multiprocessor."""
    problem = Problem(values={}, alignment={}, target=H200)
    (best, us), *others = Work(m=1984, n=1320, k=12720).ranked(problem)
    of_32 = next(time for params, time in others if params.tile[1] % 32 == 0)
    assert best.tile[1] == 168
    assert us < 0.96 * of_32
    assert np.isfinite(us)
