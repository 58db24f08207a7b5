"""The protocol check: whether the roles of a kernel keep what they promise each other.

    verdict = check(kernel, {"T0_size0": 8192, "T0_size1": 4096}, target=H200)

runs the synchronization of one block, or of one cluster whose blocks reach each other, and nothing
else, and concludes about all interleavings; see `machine.py`. It takes milliseconds, since
data is not touched and long loops are cut short where their state repeats (`repeats.py`). A kernel
that fails must not be launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from itertools import chain

from warpsmith.errors import InternalError
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.pipelines import with_contents
from warpsmith.protocol.accesses import divisions
from warpsmith.protocol.clusters import runs_together
from warpsmith.protocol.extract import skeleton_of
from warpsmith.protocol.launched import launch_values
from warpsmith.protocol.machine import Machine
from warpsmith.protocol.memory import check_shared
from warpsmith.protocol.numbers import Prepared
from warpsmith.protocol.repeats import LEAST, Cycles, Repeats
from warpsmith.protocol.resources import check_resources
from warpsmith.protocol.rules import Broken
from warpsmith.protocol.shortest import explained
from warpsmith.protocol.sizes import Block, blocks_of, cut, sizes_for, symbols_of
from warpsmith.protocol.skeleton import Skeleton
from warpsmith.protocol.walks import TooLongError
from warpsmith.targets.family import Limits
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

CUTS = (1024, 256, 64, 16)
"""Iterations that loops of a block may have whose whole run is too long. More than a few turns of a
ring show nothing new, unless loops of very different lengths meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """What the check found of one ring.

    Attributes:
        full, empty: arrivals that end a phase of each barrier; `empty` is 0 where there is none.
        bytes: that the latest fill announced; 0 where threads fill the stages.
        fills: stages that were filled in this block.
    """

    name: str
    stages: int
    producer: str
    consumers: tuple[str, ...]
    full: int
    empty: int
    bytes: int
    fills: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A protocol that holds, and how it was found.

    Attributes:
        actors: warps, or representatives of equal warps.
        steps: of all actors in the block's whole run.
        taken: those that were run, not concluded.
        phases: of all barriers together that were completed.
        shared_bytes: of the block.
        shortened: iterations to which loops were cut, since the block's whole run is too long to be
            listed; 0 where nothing was.
    """

    actors: int
    steps: int
    taken: int
    phases: int
    shared_bytes: int
    rings: tuple[RingFacts, ...] = ()
    shortened: int = 0


def check(
    kernel: Kernel, values: Mapping[str, int], *, target: Target, block: Block = (0, 0, 0)
) -> Verdict:
    """Prove that one block of a launch synchronizes rightly, whatever the order of events.

    Where blocks of a cluster reach each other, all of its cluster are proved together.

    Args:
        kernel: lowered.
        values: of sizes and whatever other scalars the launch gives; derived ones may be left out.
        target: that runs it.
        block: index in the grid.

    Raises:
        ProtocolError: with the rule that is broken, where, by whom, and the shortest run.
    """
    return check_blocks(kernel, values, (block,), target=target)[0]


def check_blocks(
    kernel: Kernel, values: Mapping[str, int], blocks: Iterable[Block], *, target: Target
) -> tuple[Verdict, ...]:
    """`check`, for several blocks of one launch, which cost less together.

    Raises:
        ProtocolError: as `check` does.
    """
    known = launch_values(kernel, values, (0, 0, 0))
    prepared = Prepared(divisions(kernel, known), frozenset(known))
    common = _Common(prepared, target.family.limits)
    if runs_together(kernel):
        blocks = dict.fromkeys(_first_of(block, kernel.launch.cluster) for block in blocks)
    return tuple([_check(kernel, values, block, common) for block in blocks])


def _first_of(block: Block, cluster: Block) -> Block:
    """The first block of a block's cluster."""
    x, y, z = (at // extent * extent for at, extent in zip(block, cluster, strict=True))
    return x, y, z


@dataclass(frozen=True, slots=True)
class _Common:
    """What is found of one block and serves another one, too.

    Attributes:
        cycles: of blocks, by all that they synchronize by but their lists of steps.
    """

    prepared: Prepared
    limits: Limits
    cycles: dict[object, Cycles] = field(default_factory=dict)

    def cycles_of(self, skeleton: Skeleton) -> Cycles:
        weights = tuple(actor.weight for actor in skeleton.actors)
        key = (weights, skeleton.barriers, skeleton.places, skeleton.meetings)
        return self.cycles.setdefault(key, {})


def _check(kernel: Kernel, values: Mapping[str, int], block: Block, common: _Common) -> Verdict:
    for count in (0, *CUTS):
        short, sizes = cut(kernel, values, block, count) if count else (kernel, values)
        try:
            verdict = _verdict(short, sizes, block, common, whole=not count)
        except TooLongError:
            continue
        except Broken as broken:
            found = broken.found
        else:
            if count and not verdict.steps:
                continue  # it shows nothing
            return replace(verdict, shortened=count)
        raise explained(short, sizes, block, found, common.limits)
    raise InternalError(f"{kernel.name}: loops of {CUTS[-1]} iterations have too many steps")


def check_any_sizes(
    kernel: Kernel, fixed: Mapping[str, int] | None = None, *, target: Target
) -> tuple[Verdict, ...]:
    """Check with loops of 0, 1, S - 1, S, S + 1 and 2 S + 1 iterations, for the longest ring's S.

    Sizes that the launch decides take the values that make loops so long; all of them together, and
    each alone while the others make loops of S + 1. First and last blocks are checked.

    Args:
        fixed: values of scalars that are not to be changed, such as numbers of threads.

    Raises:
        ProtocolError: as `check` does.
    """
    given = dict(fixed or {})
    names = tuple(name for name in symbols_of(kernel) if name not in given)
    start = {**dict.fromkeys(names, 1), **given}
    deepest = max((each.stages for each in with_contents(kernel.pipelines)), default=2)
    verdicts: dict[tuple[tuple[str, int], ...], tuple[Verdict, ...]] = {}
    for values in _sizes(kernel, start, names, deepest):
        key = tuple(sorted(values.items()))
        if key not in verdicts:
            blocks = blocks_of(kernel, values)
            verdicts[key] = check_blocks(kernel, values, blocks, target=target)
    return tuple(chain.from_iterable(verdicts.values()))


def _sizes(
    kernel: Kernel, start: dict[str, int], names: tuple[str, ...], deepest: int
) -> Iterable[dict[str, int]]:
    origin = (0, 0, 0)
    middle = sizes_for(kernel, start, origin, names, deepest + 1)
    if middle is None:
        yield start
        return
    for count in (0, 1, deepest - 1, deepest, deepest + 1, 2 * deepest + 1):
        together = sizes_for(kernel, start, origin, names, count)
        assert together is not None
        yield together
        for name in names:
            alone = sizes_for(kernel, middle, origin, (name,), count)
            if alone is not None:
                yield alone
                if count:  # the last iteration has less to do
                    yield {**alone, name: max(alone[name] - 1, 1)}


def _verdict(
    kernel: Kernel, values: Mapping[str, int], block: Block, common: _Common, *, whole: bool
) -> Verdict:
    """What a block shows; `whole` where nothing of the kernel was cut short."""
    known = launch_values(kernel, values, block)
    total = check_shared(kernel, known, common.limits)
    if any(evaluate(extent, known) < 1 for extent in kernel.launch.grid):
        return Verdict(actors=0, steps=0, taken=0, phases=0, shared_bytes=total)
    check_resources(kernel, known, common.limits)
    skeleton = skeleton_of(kernel, known, common.prepared if whole else None)
    machine, repeats = run(skeleton, common.cycles_of(skeleton) if whole else None)
    return Verdict(
        actors=len(skeleton.actors),
        steps=skeleton.steps,
        taken=skeleton.steps - repeats.jumped,
        phases=sum(barrier.done for barrier in machine.barriers),
        shared_bytes=total,
        rings=_facts(kernel, skeleton, machine),
    )


def run(skeleton: Skeleton, cycles: Cycles | None = None) -> tuple[Machine, Repeats]:
    """Run a skeleton to its end, without the parts that repeat.

    Args:
        cycles: of skeletons that differ in nothing but lists of steps; new ones are added.

    Raises:
        Broken: a rule is.
    """
    machine, repeats = Machine(skeleton), Repeats({} if cycles is None else cycles)
    if skeleton.steps < LEAST:
        while machine.round():
            pass
    else:
        while machine.round():
            repeats.look(machine)
    machine.finish()
    return machine, repeats


def _facts(kernel: Kernel, skeleton: Skeleton, machine: Machine) -> tuple[RingFacts, ...]:
    result = []
    for ring in with_contents(kernel.pipelines):
        empty = ring.empty.name if ring.empty is not None else ""
        stages = enumerate(skeleton.barriers)
        full = [n for n, b in stages if b.name == ring.full.name and not b.block]
        counts = {stage.name: stage.count for stage in skeleton.barriers}
        result.append(
            RingFacts(
                name=ring.name,
                stages=ring.stages,
                producer=ring.producer,
                consumers=ring.consumers,
                full=counts.get(ring.full.name, 0),
                empty=counts.get(empty, 0),
                bytes=max((machine.barriers[n].previous.expected for n in full), default=0),
                fills=sum(machine.barriers[n].done for n in full),
            )
        )
    return tuple(result)


# --- explanations --------------------------------------------------------------------------------
