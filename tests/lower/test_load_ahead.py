"""First tiles of weights are loaded while the kernel before is still running."""

from math import ceil

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.frontends.lowered import Compiled, lower_call
from warpsmith.ir import integers
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For
from warpsmith.kernel.rings import Expect, TileCopy
from warpsmith.kernel.succession import AwaitPrevious
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.load_ahead import LATENCY_NS
from warpsmith.targets.hopper import H200


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


@pytest.mark.few(1)
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


def clocks(kernel: Kernel) -> list[AwaitClock]:
    return [s for s in walk(kernel.body) if isinstance(s, AwaitClock)]


def test_no_more_is_asked_for_beside_the_kernel_before_than_the_memory_brings() -> None:
    first, second = (each.kernel for each in chain(8, 2048, last=64).kernels)
    assert not clocks(first)  # nobody is waited for
    (clock,) = clocks(second)
    parts = ([*walk((statement,))] for statement in second.body)
    (filling,) = (part for part in parts if any(isinstance(s, StartClock) for s in part))
    assert {*ahead(second), clock} <= {*filling}
    (stage,) = (integers.constant(s.bytes) for s in filling if isinstance(s, Expect))
    assert stage
    assert clock.nanoseconds == round(1000 * stage / H200.sm_memory)
    loop = next(s for s in filling if isinstance(s, For) and clock in s.body)
    assert clock.times == integers.sub(loop.symbol, ceil(LATENCY_NS / clock.nanoseconds))


def test_all_stages_are_asked_for_at_once_where_the_knob_says_so() -> None:
    with knobs.scope(pace=False):
        _, second = (each.kernel for each in chain(8, 2048, last=64).kernels)
    assert ahead(second)
    assert not clocks(second)
