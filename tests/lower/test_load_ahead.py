"""First tiles of weights are loaded while the kernel before is still running."""

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition
from warpsmith.engine.lowered import Compiled, lower_call
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.succession import AwaitPrevious
from warpsmith.kernel.traversal import walk


def chain(rows: int, inner: int = 64, *, depth: int = 64, last: int = 136) -> Compiled:
    """Two products, one behind the other."""
    with FusionDefinition() as fd:
        x, first, second = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(3))
        fd.add_output(fd.ops.linear(fd.ops.linear(x, first), second))
    random = np.random.default_rng(0)
    shapes = (rows, depth), (inner, depth), (last, inner)
    given = [random.standard_normal(s).astype(ml_dtypes.bfloat16) / 8 for s in shapes]
    return lower_call(fd.fusion, given).compile(target="h200")


def ahead(kernel: Kernel) -> list[TileCopy]:
    """Copies that stand before the wait."""
    place = [isinstance(s, AwaitPrevious) for s in kernel.body].index(True)
    return [s for s in walk(kernel.body[:place]) if isinstance(s, TileCopy)]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("inner", "last"),
    [(64, 136), (1792, 72), (64, 9000), (2048, 64)],
    ids=["fewer steps than stages", "more", "several tiles a block", "parts of k"],
)
def test_weights_are_loaded_before_the_wait(inner: int, last: int) -> None:
    call = chain(8, inner, last=last)
    first, second = (each.kernel for each in call.kernels)
    assert not any(isinstance(s, AwaitPrevious) for s in first.body)
    assert {copy.memory.name for copy in ahead(second)} == {"T2"}
    assert second.settled == ("T2",)
    assert call.verify(schedules=2).verdict == "clean"


def test_what_many_blocks_read_waits() -> None:
    second = chain(512).kernels[1].kernel
    assert not ahead(second)
    assert second.settled == ()
