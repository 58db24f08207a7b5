"""Products whose agents hand turns, tiles or rows on in a wrong way: refused, and found."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.roles import test_hand_offs as turns
from tests.roles import test_rows_ahead as rows
from tests.roles import test_tile_scheduler as tiles
from tests.support.role_fault_edits import flipped
from tests.support.role_fault_kernels import Change, each, omitting
from tests.support.role_faults import simulated
from warpsmith.engine.proofs import prove
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import Arrive, ArriveByWarp, Await
from warpsmith.kernel.tile_scheduler import WithTile
from warpsmith.sim.report import Report
from warpsmith.targets.hopper import H200

Right = tuple[Callable[[], Kernel], Mapping[str, int], Callable[[Kernel], Report]]
TURNS: Right = turns.product, turns.SIZES, lambda kernel: simulated(kernel, turns.SIZES)
TILES: Right = tiles.product, tiles.SIZES, tiles.report_of
OPERANDS = (*rows.operands(0), rows.ENDS)
ROWS: Right = rows.product, rows.SIZES, lambda kernel: rows.report_of(kernel, *OPERANDS)


def free(wait: Await) -> Await:
    """The first wait passes for every group, as if each had been handed the turn."""
    symbols = (part for part in wait.parity.walk() if isinstance(part, Symbol))
    phase = next(symbol for symbol in symbols if symbol.name.endswith("_phase"))
    return replace(wait, parity=integers.sub(1, phase))


def to_itself(arrival: ArriveByWarp) -> ArriveByWarp:
    return replace(arrival, stage=Symbol("block_y", low=0, extent=integers.index(2)))


OF_TURNS: Mapping[str, tuple[Callable[..., Change], str, str]] = {
    "handed on twice": (lambda at: each(ArriveByWarp, lambda s: (s, s), **at), "WS0904", "WS0904"),
    "not handed on": (lambda at: omitting(ArriveByWarp, **at), "WS0901", "WS0901"),
    "handed on to itself": (lambda at: each(ArriveByWarp, to_itself, **at), "WS0901", "WS0901"),
    "the other group begins": (lambda at: each(Await, flipped, **at), "WS0901", "WS0901"),
    "both groups begin": (lambda at: each(Await, free, **at), "WS0903", "WS0901"),
    "not waited for": (lambda at: omitting(Await, **at), "WS0902", ""),
}
"""What refuses each at the hand-off of the tensor cores, and at that of the epilogue.

Groups stage their tiles apart: an epilogue that does not wait is early, and harms nobody.
"""

FULL, EMPTY = {"barrier": "ring0_full"}, {"barrier": "ring0_empty"}

MISTAKES: Mapping[str, tuple[Right, Change, str]] = {
    **{
        f"turns: {name}, {barrier}": (TURNS, change({"barrier": barrier}), code)
        for name, (change, *codes) in OF_TURNS.items()
        for barrier, code in zip((turns.MAIN, turns.EPILOGUE), codes, strict=True)
        if code
    },
    "tiles: read before they are there": (TILES, omitting(Await, "compute", **FULL), "WS0907"),
    "tiles: written where others are read": (TILES, omitting(Await, "tiles", **EMPTY), "WS0901"),
    "tiles: not handed on": (TILES, omitting(Arrive, "tiles", **FULL), "WS0901"),
    "tiles: not given back": (TILES, omitting(ArriveByWarp, "compute", **EMPTY), "WS0901"),
    "tiles: gone on behind the last": (
        *(TILES, each(WithTile, lambda s: s.body, "load"), "WS0901"),
    ),
    "rows: read before they are there": (ROWS, omitting(Await, "compute", **FULL), "WS0907"),
    "rows: written where others are read": (ROWS, omitting(Await, "rows", **EMPTY), "WS0902"),
    "rows: not handed on": (ROWS, omitting(Arrive, "rows", **FULL), "WS0901"),
    "rows: not given back": (ROWS, omitting(ArriveByWarp, "compute", **EMPTY), "WS0901"),
}


@pytest.mark.parametrize("right", [TURNS, TILES, ROWS], ids=["turns", "tiles", "rows"])
def test_the_right_ones(right: Right) -> None:
    product, sizes, report_of = right
    prove(product(), sizes, H200)
    report = report_of(product())
    assert report.verdict == "clean", str(report)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", MISTAKES)
def test_is_refused_and_found(name: str) -> None:
    (product, sizes, report_of), change, code = MISTAKES[name]
    wrong = change(product())
    with pytest.raises(ProtocolError) as caught:
        prove(wrong, sizes, H200)
    assert caught.value.code == code
    assert "compute" in caught.value.roles
    assert report_of(wrong).verdict == "findings"
