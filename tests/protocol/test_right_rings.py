"""The protocol check passes every schedule of rings by TMA: the deepest rings, and shallow ones."""

import pytest

from tests.support.lowering import lowered
from tests.support.ring_cases import CASES, Case
from tests.support.ring_loads import Kind, Ring, rings
from warpsmith.engine.proofs import prove
from warpsmith.targets.hopper import H200


def sizes(case: Case, extent: int) -> dict[str, int]:
    """Sizes and strides of the inputs, by the names of the kernel's scalars."""
    values: dict[str, int] = {}
    for number, shape in enumerate(case.shapes(extent)):
        step = 1
        for place in reversed(range(len(shape))):
            values[f"T{number}_size{place}"] = shape[place]
            values[f"T{number}_stride{place}"] = step
            step *= shape[place]
    return values


def chosen(kind: Kind) -> tuple[Ring, Ring]:
    """The first and the last ring of the matrix."""
    every = list(rings(kind))
    return every[0], every[-1]


@pytest.mark.few(15)
@pytest.mark.parametrize(
    ("case", "ring"),
    [
        pytest.param(case, ring, id=f"{case.name}-{ring}")
        for case in CASES
        for kind in (Kind.bulk, Kind.tma)
        if kind in case.kinds
        for ring in chosen(kind)
    ],
)
def test_rings_of_every_schedule_pass(case: Case, ring: Ring) -> None:
    kernel = lowered(case.schedule(ring))
    prove(kernel, sizes(case, extent=128), H200)
