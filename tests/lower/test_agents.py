"""Kinds of agents follow from what their tensors are; registers follow from kinds."""

import pytest

from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from tests.support.ring_loads import Kind as Carrier
from tests.support.role_chains import transformed
from tests.support.role_feeds import Feed
from tests.support.role_groups import shaped
from warpsmith import FusionDefinition, ParallelType
from warpsmith.engine.budgets import settle_registers
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.printer import kernel_text
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.hopper import H200


def agents_of(fd: FusionDefinition) -> dict[str, Agent]:
    kernel = lowered(fd)
    found = [s.agent for s in kernel.body if isinstance(s, Branch)]
    text = kernel_text(kernel)
    assert all(f"agent {agent.name}: {agent.kind.value}, " in text for agent in found)
    return {agent.name: agent for agent in found}


TMA, CP_ASYNC = Feed(Carrier.tma, 2), Feed(Carrier.cp_async, 2)
KINDS = {
    "loads, work, stores": (
        lambda: transformed(TMA, stores=True),
        {"load": "copy", "transform_0": "compute", "compute": "compute", "store": "store"},
        {"load", "store"},
    ),
    "threads load": (
        lambda: transformed(CP_ASYNC),
        {"load": "copy", "transform_0": "compute", "compute": "compute"},
        set(),
    ),
    "a product, which its groups store": (
        lambda: ping_pong_product(stored_by="threads"),
        {"load": "copy", "compute": "multiply"},
        {"load"},
    ),
    "a product, which a role stores": (
        ping_pong_product,
        {"load": "copy", "compute": "multiply", "store": "store"},
        {"load", "store"},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_follow_from_tensors(name: str) -> None:
    make, kinds, elected = KINDS[name]
    agents = agents_of(make())
    assert {name: agent.kind.value for name, agent in agents.items()} == kinds
    assert {name for name, agent in agents.items() if agent.elected} == elected


def test_a_pair_of_registers_is_for_those_that_move_and_those_that_compute() -> None:
    """Threads that load are given few as well; they had as many as those who compute."""
    fd = shaped(CP_ASYNC, (128, 1, 1), ParallelType.block_x, (40, 232))
    kernel = lowered(fd)
    settled = settle_registers(kernel, compiled_never, H200)
    agents = [s.agent for s in settled.kernel.body if isinstance(s, Branch)]
    assert {agent.name: agent.registers for agent in agents} == {"load": 40, "compute": 232}
    assert not any(agent.elected for agent in agents)


def compiled_never(source: Source) -> Binary:
    raise AssertionError(f"{source.entry} is compiled")
