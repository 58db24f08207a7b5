"""Protocols that are right: roles of every kind, and rings without roles. All must pass."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.protocol.kernels import chain, fed_by, matmul
from tests.support import role_chains, role_groups, role_streams, role_sums
from tests.support.lowering import lowered
from tests.support.ring_cases import CASES as RINGS
from tests.support.ring_cases import Case
from tests.support.ring_loads import Kind, Ring
from tests.support.role_fault_edits import agent, meeting_of_the_block
from tests.support.role_feeds import Feed
from tests.support.role_kernels import CASES, streaming, turns
from warpsmith import DataType, FusionDefinition
from warpsmith.protocol import check, check_any_sizes, check_blocks
from warpsmith.protocol.sizes import symbols_of
from warpsmith.targets.hopper import H200


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_roles_by_hand(name: str) -> None:
    case = CASES[name]()
    for block in (0, 1):
        verdict = check(case.kernel, case.values, block=(block, 0, 0), target=H200)
        assert verdict.phases > 0
    fixed = {name: value for name, value in case.values.items() if name != "size"}
    assert check_any_sizes(case.kernel, fixed, target=H200)


@pytest.mark.parametrize("producers", range(2, 6))
def test_producers(producers: int) -> None:
    case = fed_by(producers)
    verdict = check(case.kernel, case.values, target=H200)
    assert [ring.fills for ring in verdict.rings] == [47] * producers
    assert [ring.bytes for ring in verdict.rings] == [512] * producers
    assert verdict.actors == producers + 2
    assert len(check_any_sizes(case.kernel, target=H200)) > 10


@pytest.mark.parametrize("groups", range(1, 5))
@pytest.mark.parametrize("share", range(1, 4))
@pytest.mark.parametrize("rounds", range(1, 3))
def test_groups_in_turn(groups: int, share: int, rounds: int) -> None:
    for size in (1000, 3000, 9000, 9300):
        case = turns(size=size, groups=groups, share=share, rounds=rounds)
        verdict = check(case.kernel, case.values, target=H200)
        (ring,) = verdict.rings
        assert ring.empty == 4
        assert ring.stages == groups * share * rounds


def test_the_facts_of_a_chain() -> None:
    case = chain(tiles=60)
    verdict = check(case.kernel, case.values, target=H200)
    raw, stored, made = verdict.rings
    assert (raw.full, raw.empty, raw.bytes, raw.fills) == (1, 2, 1024, 60)
    assert (made.full, made.empty, made.bytes, made.fills) == (2, 2, 0, 60)
    assert (stored.full, stored.empty, stored.bytes, stored.fills) == (2, 1, 0, 60)
    assert verdict.taken < verdict.steps


def test_the_facts_of_a_matmul() -> None:
    case = matmul(tiles=16, depth=128)
    verdict = check(case.kernel, case.values, target=H200)
    assert [ring.fills for ring in verdict.rings] == [16 * 128]
    assert verdict.taken < verdict.steps / 3


def test_a_meeting_of_a_role() -> None:
    """The same by the block's barrier is a fault."""
    case = streaming()
    kernel = agent("add", barrier=1)(meeting_of_the_block(case.kernel))
    assert check(kernel, case.values, target=H200).phases == 24


LOWERED: dict[str, Callable[[Feed], FusionDefinition]] = {
    "one loader": lambda feed: role_streams.single_dim(feed, ("load_a", "load_a")),
    "two loaders": lambda feed: role_streams.single_dim(feed, ("load_a", "load_b")),
    "five loaders": lambda feed: role_streams.single_dim(feed, tuple("abcde")),
    "different stages": role_streams.different_stages,
    "several dims": role_streams.several_dims,
    "unrolled": role_streams.unrolled,
    "tiles": role_streams.tiles,
    "unequal work": role_streams.unequal_work,
    "narrow": lambda feed: role_streams.narrow(feed, DataType.Half),
    "mixed kinds": role_streams.mixed_kinds,
    "transformed": role_chains.transformed,
    "transformed twice": lambda feed: role_chains.transformed(feed, transforms=2),
    "transformed and stored": lambda feed: role_chains.transformed(feed, stores=True),
    "stored by a role": role_chains.stored_by_role,
    "copied": role_chains.copied,
    "forked": role_chains.forked,
    "two outputs": role_chains.two_outputs,
    "two stores": role_chains.two_stores,
    "sums of rows": role_sums.inner,
    "sums of rows by blocks": lambda feed: role_sums.inner(feed, blocks=2),
    "moments of rows": role_sums.welford,
}


TURNS: dict[str, Callable[[], FusionDefinition]] = {
    "slices of a stage": lambda: role_groups.sliced(Feed(Kind.bulk, 3), groups=2, position=2),
    "stages of a group": lambda: role_groups.sliced(Feed(Kind.tma, 4), groups=2, position=3),
    "a row a stage": lambda: role_groups.sliced(Feed(Kind.bulk, 12), groups=3, position=4),
    "a weight": lambda: role_groups.with_weight(Feed(Kind.bulk, 4), groups=2),
    "sums and rows again": lambda: role_sums.groups(Feed(Kind.bulk, 4), count=2),
    "row sums": lambda: role_groups.row_sums(Feed(Kind.bulk, 3), groups=3),
    "ping-pong": lambda: role_groups.ping_pong(Feed(Kind.tma, 4), groups=2),
    "ping-pong in stages of nobody": lambda: role_groups.ping_pong(Feed(Kind.bulk, 3), groups=2),
    "three groups in order": lambda: role_groups.ping_pong(Feed(Kind.bulk, 4), groups=3),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TURNS)
def test_groups_as_lowered(name: str) -> None:
    kernel = lowered(TURNS[name]())
    assert len(check_any_sizes(kernel, target=H200)) > 5
    for size in (1, 7, 130, 300):
        check(kernel, dict.fromkeys(symbols_of(kernel), size), target=H200)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("feed", [Feed(Kind.bulk, 2), Feed(Kind.tma, 3)], ids=str)
def test_roles_as_lowered(name: str, feed: Feed) -> None:
    kernel = lowered(LOWERED[name](feed))
    assert check_any_sizes(kernel, target=H200)
    values = dict.fromkeys(symbols_of(kernel), 300)
    assert check(kernel, values, target=H200).phases > 0


def ringed() -> Iterator[object]:
    """Rings without roles; each schedule with a few numbers of stages."""
    for number, case in enumerate(RINGS):
        for kind in case.kinds:
            for stages, prefetch in ((2, 1), (4, (number + kind.value.count("a")) % 4)):
                ring = Ring(kind, stages, prefetch)
                yield pytest.param(case, ring, id=f"{case.name}-{ring}")


@pytest.mark.few(12)
@pytest.mark.parametrize(("case", "ring"), list(ringed()))
def test_rings_without_roles(case: Case, ring: Ring) -> None:
    kernel = lowered(case.schedule(ring))
    inputs = [buffer for buffer in kernel.parameters if not buffer.written]
    for extent in case.extents:
        values = dict.fromkeys(symbols_of(kernel), 1)
        for buffer, shape in zip(inputs, case.shapes(extent), strict=True):
            values |= {f"{buffer.name}_size{place}": size for place, size in enumerate(shape)}
        verdict = check(kernel, values, target=H200)
        assert verdict.steps > 0 or ring.kind is Kind.registers


TOGETHER = {**CASES, "chain": lambda: chain(90), "matmul": lambda: matmul(14, 53)}


@pytest.mark.parametrize("name", TOGETHER)
def test_blocks_that_are_checked_together(name: str) -> None:
    """Nothing but the work is less than that for each of them alone."""
    case = TOGETHER[name]()
    blocks = [(n, 0, 0) for n in (0, 1, 0)]
    together = check_blocks(case.kernel, case.values, blocks, target=H200)
    alone = tuple(check(case.kernel, case.values, block=block, target=H200) for block in blocks)
    assert [replace(v, taken=0) for v in together] == [replace(v, taken=0) for v in alone]
    assert [v.taken <= w.taken for v, w in zip(together, alone, strict=True)] == [True] * 3
    assert together[2].taken < alone[2].taken or alone[2].taken == alone[2].steps
