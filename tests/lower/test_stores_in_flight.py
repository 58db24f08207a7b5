"""A role that stores by the TMA unit keeps stores on their way, and releases stages behind them."""

from dataclasses import replace

import pytest

from tests.protocol.edits import edited, instead, refused
from tests.support import role_chains as chains
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind
from tests.support.role_feeds import Feed
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If
from warpsmith.kernel.rings import Arrive, AwaitCopies
from warpsmith.kernel.traversal import walk
from warpsmith.protocol import check
from warpsmith.protocol.sizes import symbols_of
from warpsmith.targets.hopper import H200


def pending(kernel: Kernel) -> list[int]:
    """Groups that may be open behind each wait for stores, in the order of the text."""
    return [s.pending for s in walk(kernel.body) if isinstance(s, AwaitCopies) and s.bulk]


@pytest.mark.parametrize("stages", [2, 3, 8])
def test_all_stages_but_the_one_that_threads_fill_may_be_on_their_way(stages: int) -> None:
    kernel = lowered(chains.stored_by_role(Feed(Kind.tma, stages)))
    assert pending(kernel) == [stages - 1, 0]
    (branch,) = [s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "store"]
    late = [s for s in walk(branch.body) if isinstance(s, If) and isinstance(s.body[0], Arrive)]
    assert len(late) == 1
    assert sum(isinstance(s, Arrive) for s in walk(branch.body)) == 1


@pytest.mark.parametrize(("stages", "open_stores"), [(2, [0]), (3, [1, 0]), (8, [3, 0])])
def test_loads_by_the_tma_unit_keep_half_of_the_stages(stages: int, open_stores: list[int]) -> None:
    """With two, a store is waited for at once: what ends with that needs no wait at its end."""
    assert pending(lowered(chains.copied(Feed(Kind.tma, stages)))) == open_stores


def test_one_store_more_on_its_way_is_refused() -> None:
    kernel = lowered(chains.stored_by_role(Feed(Kind.tma, 3)))
    more = edited(kernel, instead(AwaitCopies, lambda a: replace(a, pending=3), pending=2))
    values = dict.fromkeys(symbols_of(kernel), 3000)
    check(kernel, values, target=H200)
    refused(more, values, "WS0906")
