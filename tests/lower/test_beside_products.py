"""A step that awaits its own products awaits the next step's stage before them, and reads there
what it multiplies them by.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.support.lowering import lowered
from tests.support.machine_code import machine_lines
from tests.support.ping_pong_products import ping_pong_product
from tests.support.scaled import E4, fusion_of, kernel_of, program
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Const
from warpsmith.kernel.accesses import Access
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.effects import READ
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, For, Statement, Store, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, Multiply
from warpsmith.kernel.rings import Advance, ArriveByWarp, Await, AwaitCopies
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes import beside_products as room
from warpsmith.lower.passes.beside_products import beside_products
from warpsmith.protocol.checks import check_blocks
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.targets.hopper import H200

WORDS = {
    Await: "await",
    Multiply: "multiply",
    CommitProducts: "commit",
    AwaitProducts: "products",
    ArriveByWarp: "release",
    Advance: "advance",
}


def of_operands(kernel: Kernel) -> list[str]:
    """What who multiplies does about stages of operands, in the order of the text."""
    (load,) = (p for p in kernel.pipelines if p.producer == "load")
    (agent,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "compute")

    def told() -> Iterator[Statement]:
        for statement in walk(agent.body):
            barrier = getattr(statement, "barrier", None)
            if barrier is None or barrier in (load.full, load.empty):
                yield statement

    found = [WORDS[type(s)] for s in told() if type(s) in WORDS]
    return found[: found.index("release") + 1]


@pytest.mark.parametrize("passes", [1, 2])
def test_the_next_stage_is_awaited_behind_the_last_products(passes: int) -> None:
    kernel = kernel_of(fusion_of(), tile=(128 * passes, 128, 128), passes=passes, stages=3)
    said = ["await", "multiply", "commit", "await", "products", "release"]
    assert of_operands(kernel) == said
    assert beside_products(kernel) is kernel  # its loop waits for nothing at its start any more


@pytest.mark.parametrize("passes", [1, 2])
def test_scales_are_read_behind_the_first_products(passes: int) -> None:
    kernel = kernel_of(fusion_of(), tile=(128 * passes, 128, 128), passes=passes, stages=3)
    (load,) = (p for p in kernel.pipelines if p.producer == "load_scales")
    scales = {content.buffer.name for content in load.contents}
    (agent,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "compute")
    said = [
        "read" if isinstance(s, Store) else WORDS[type(s)]
        for s in walk(agent.body)
        if isinstance(s, Multiply | CommitProducts | AwaitProducts)
        or (isinstance(s, Store) and _loads(s, scales))
    ]
    assert said == ["multiply", "commit", "read", "read", "products"]


@pytest.mark.parametrize("passes", [1, 2])
def test_stores_that_have_been_read_are_awaited_beside_the_last_products(passes: int) -> None:
    """In the last step, and where k has none, behind the loop."""
    shape = {"chunk": 32, "store_stages": 1}
    kernel = kernel_of(fusion_of(), tile=(128 * passes, 64, 128), passes=passes, stages=2, **shape)
    (agent,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "compute")
    kinds = (CommitProducts, AwaitCopies, Synchronize, AwaitProducts)
    said = [type(s) for s in walk(agent.body) if isinstance(s, kinds)]
    stores = [AwaitCopies, Synchronize]
    assert said == [CommitProducts, *stores, AwaitProducts, *stores, Synchronize, AwaitCopies]
    values = {"T0_size0": 512, "T0_size1": 1024, "T1_size0": 512, "T1_size1": 1024}
    values |= {"T2_size0": 512, "T2_size1": 8, "T3_size0": 4, "T3_size1": 8}
    check_blocks(kernel, values, [(0, 0, 0)], target=H200)


def test_threads_meet_where_they_stand_if_the_last_step_touches_more_than_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shared(statement: Statement) -> Iterator[Access]:
        buffer = Buffer("S", DataType.Float, MemoryType.shared, Const(1))
        yield Access(buffer, Const(0), False, READ)

    monkeypatch.setattr(room, "accesses", shared)
    kernel = kernel_of(fusion_of(), tile=(128, 128, 128), stages=2, chunk=32, store_stages=1)
    kinds = (CommitProducts, Synchronize, AwaitProducts)
    (agent,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "compute")
    said = [type(s) for s in walk(agent.body) if isinstance(s, kinds)]
    assert said == [CommitProducts, AwaitProducts, Synchronize, Synchronize]


def _loads(store: Store, names: set[str]) -> bool:
    return any(getattr(getattr(e, "buffer", None), "name", "") in names for e in store.value.walk())


def test_four_steps_of_a_turn_are_written_out() -> None:
    """Eight of them are one turn, whose scales come at once."""
    kernel = kernel_of(fusion_of(), tile=(128, 128, 128), passes=1, stages=3)
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    multiply = [s for s in loops if any(isinstance(each, Multiply) for each in walk(s.body))]
    (steps,) = (s for s in multiply if s.unroll and any(isinstance(a, Advance) for a in s.body))
    (turn,) = (s for s in loops if steps in s.body)
    assert (steps.extent, turn.extent, turn.unroll) == (Const(4), Const(2), False)


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_a_tile_of_one_step_stays_as_it_is() -> None:
    """Nothing is added up there. With a wait beside its products ptxas awaited them once more, and
    the fastest schedule was left out.
    """
    with FusionDefinition() as fd:
        x, w = (fd.define_tensor([-1, 16], True, DataType.Half) for _ in range(2))
        fd.add_output(fd.ops.linear(x, w))
    operands = [np.empty((rows, 16), np.float16) for rows in (128, 64)]
    with knobs.scope(target="h200", device="sim"):
        (launch,) = Executable(fd.fusion).plan_for(operands).launches
    assert "matmul" in launch.compiled.kernel.name


def test_a_product_that_is_on_its_way_beside_the_next_wait_stays_as_it_is() -> None:
    kernel = lowered(ping_pong_product())
    assert beside_products(kernel) is kernel


def test_the_proof_refuses_to_wait_for_a_step_that_never_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room._Step, "goes_on", integers.TRUE)
    kernel = kernel_of(fusion_of(), tile=(128, 128, 128), passes=1, stages=3)
    values = {"T0_size0": 512, "T0_size1": 1024, "T1_size0": 512, "T1_size1": 1024}
    values |= {"T2_size0": 512, "T2_size1": 8, "T3_size0": 4, "T3_size1": 8}
    with pytest.raises(ProtocolError, match="never ends"):
        check_blocks(kernel, values, [(0, 0, 0)], target=H200)


def test_no_instruction_of_the_first_pass_waits_for_scales() -> None:
    """Where they were read behind the first of its instructions, ptxas multiplied them there. With
    lanes that meet first 256 x 128 takes 877 us, not 892, for 8192 x 8192 x 8192 (an H200).
    """
    args = [torch.empty(4096, 4096, dtype=E4) for _ in range(2)]
    args += [torch.empty(4096, 32), torch.empty(32, 32)]
    with knobs.scope(device="sim", target="h200"):
        (launch,) = Executable(program("blocks").lower(*args).fusion).plan_for(args).launches
    kernel = launch.compiled
    assert isinstance(launch.params, MatmulParams)
    assert launch.params.tile == (256, 128, 128)
    lines = [line.split()[0] for line in machine_lines(kernel.binary.cubin, kernel.name)]
    products = [n for n, line in enumerate(lines) if line.startswith("QGMMA")]
    assert len(products) == 4 * 2 * 4  # steps that are written out, passes, instructions
    for first in products[::4]:
        last = products[products.index(first) + 3]
        assert not {"LDS", "FMUL"}.intersection(lines[first:last])
