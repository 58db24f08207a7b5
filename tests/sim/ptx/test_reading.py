"""Whole texts: which kernel is read, and what is said of it."""

import pytest

from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Op
from warpsmith.sim.ptx import read

TWO = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry first() .maxntid 128, 2 .minnctapersm 3 { ret; }
.visible .entry second(.param .u64 a, .param .align 64 .b8 map[128])
.reqntid 32 .maxnreg 40 .explicitcluster .reqnctapercluster 2
{ exit; }
"""


def test_a_kernel_is_chosen_by_name() -> None:
    second = read(TWO, "second")
    assert (second.name, second.version, second.target) == ("second", (8, 7), "sm_90a")
    assert [i.op for i in second.instructions] == [Op.EXIT]
    assert [(p.offset, p.size, p.align, p.is_array) for p in second.parameters] == [
        (0, 8, 8, False),
        (64, 128, 64, True),
    ]
    assert (second.bound, second.max_registers, second.cluster) == (32, 40, (2, 1, 1))
    first = read(TWO, "first")
    assert (first.bound, first.min_blocks, first.cluster) == (256, 3, None)


@pytest.mark.parametrize("name", [None, "third"])
def test_kernels_are_listed_when_the_name_does_not_tell(name: str | None) -> None:
    with pytest.raises(SimulationError, match="`first`, `second`"):
        read(TWO, name)
