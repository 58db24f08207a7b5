"""A step that awaits its own products awaits the next step's stage before them."""

from collections.abc import Iterator

import pytest

from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from tests.support.scaled import fusion_of, kernel_of
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.products import AwaitProducts, CommitProducts, Multiply
from warpsmith.kernel.rings import Advance, ArriveByWarp, Await
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes import await_ahead as room
from warpsmith.lower.passes.await_ahead import await_ahead
from warpsmith.protocol.checks import check_blocks
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
    assert await_ahead(kernel) is kernel  # its loop waits for nothing at its start any more


def test_a_product_that_is_on_its_way_beside_the_next_wait_stays_as_it_is() -> None:
    kernel = lowered(ping_pong_product())
    assert await_ahead(kernel) is kernel


def test_the_proof_refuses_to_wait_for_a_step_that_never_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room._Step, "goes_on", integers.TRUE)
    kernel = kernel_of(fusion_of(), tile=(128, 128, 128), passes=1, stages=3)
    values = {"T0_size0": 512, "T0_size1": 1024, "T1_size0": 512, "T1_size1": 1024}
    values |= {"T2_size0": 512, "T2_size1": 8, "T3_size0": 4, "T3_size1": 8}
    with pytest.raises(ProtocolError, match="never ends"):
        check_blocks(kernel, values, [(0, 0, 0)], target=H200)
