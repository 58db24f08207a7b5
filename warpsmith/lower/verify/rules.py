"""The rules that a kernel keeps between any two passes, each a function that says what is wrong.

They cost little, since statements that a pass left as they were are not looked at again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.elected import ELECTED_LANE, ELECTED_WARP
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.shared_memory import SharedLayout
from warpsmith.lower.verify.outline import Outline, Outlines
from warpsmith.lower.verify.rule import Fault, Rule
from warpsmith.values import dataclass

Kinds = tuple[type[Statement], ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What may stand in a kernel behind a pass.

    Attributes:
        names: sizes, strides and users' scalars that a launch knows.
        gone: statements of passes that are over.
        coming: statements of passes that are still to come, or that nobody asks for.
    """

    names: frozenset[str]
    gone: frozenset[type[Statement]] = frozenset()
    coming: frozenset[type[Statement]] = frozenset()

    def behind(self, *, ends: Kinds, makes: Kinds) -> Expected:
        """The same behind a pass that ends some statements and makes others."""
        if not ends and not makes:
            return self
        return replace(self, gone=self.gone.union(ends), coming=self.coming.difference(makes))


def broken(kernel: Kernel, expected: Expected, outlines: Outlines) -> Iterator[Fault]:
    """All that is wrong with a kernel."""
    look = _Look(kernel, outlines.of_list(kernel.body), outlines)
    yield from look.whole.faults
    yield from _stages(look, expected)
    yield from _names(look, expected)
    yield from _memory(look)
    yield from _barriers(look)
    yield from _orders(look)
    if kernel.layout is not None:
        yield from _layout(kernel, kernel.layout)


@dataclass(frozen=True, slots=True)
class _Look:
    """A kernel with its outline."""

    kernel: Kernel
    whole: Outline
    outlines: Outlines

    def fault(self, rule: Rule, what: str, field: str, item: object) -> Fault:
        """A broken rule, by the first statement in whose outline the field has the item."""
        return Fault(rule, what, self.outlines.where(self.kernel.body, field, item))


def _stages(look: _Look, expected: Expected) -> Iterator[Fault]:
    """Statements stand in a kernel between the pass that makes them and the one that ends them."""
    wrong = (
        (expected.gone, "is left of a pass that is over"),
        (expected.coming, "is there before the pass that makes it"),
    )
    for kinds, words in wrong:
        for kind in sorted(look.whole.items & kinds, key=str):
            what = f"{getattr(kind, '__name__', '')} {words}"
            yield look.fault(Rule.STAGES, what, "items", kind)


def _names(look: _Look, expected: Expected) -> Iterator[Fault]:
    """What is used was defined before, around it, or by the launch."""
    kernel, launch = look.kernel, look.kernel.launch
    extents = (*launch.grid, *launch.block)
    axes = zip((*GRID_TYPES, *BLOCK_TYPES), extents, strict=True)
    known = {kind.name for kind, extent in axes if extent != integers.ONE}
    known |= {ELECTED.name, ELECTED_WARP.name, ELECTED_LANE.name, RANK}
    if kernel.scalars:
        known |= {symbol.name for symbol in kernel.scalars}
    else:
        known |= expected.names | {symbol.name for symbol, _ in kernel.derived}
        nodes = (node for extent in extents for node in extent.walk())
        known |= {node.name for node in nodes if isinstance(node, Symbol)}
        for reciprocal in kernel.reciprocals:
            known |= {reciprocal.magic.name, reciprocal.shift.name}
    for name in sorted(look.whole.needs - known):
        what = f"`{name}` is used where nothing defines it"
        yield look.fault(Rule.NAMES, what, "needs", name)


def _memory(look: _Look) -> Iterator[Fault]:
    """Buffers that are no registers are the kernel's, once each, as it declares them.

    What blocks send each other is counted at barriers that come with the stages, when these are
    lowered.
    """
    declared: dict[str, Buffer] = {}
    for buffer in (*look.kernel.parameters, *look.kernel.shared):
        if buffer.name in declared:
            yield Fault(Rule.MEMORY, f"`{buffer.name}` is declared twice")
        declared[buffer.name] = buffer
    for pipeline in look.kernel.pipelines:
        if pipeline.full.name not in look.whole.begun:
            declared.setdefault(pipeline.full.name, pipeline.full)
    for item in look.whole.items:
        if not isinstance(item, int):
            continue
        used = look.outlines.memory[item]
        same = declared.get(used.name)
        if used is not same and used != same:
            known = "no buffer of the kernel" if same is None else f"declared as {same}, not {used}"
            yield look.fault(Rule.MEMORY, f"`{used.name}` is {known}", "items", item)


def _barriers(look: _Look) -> Iterator[Fault]:
    """Behind the initialization in the order of statements, roles one after the other."""
    for name in sorted(look.whole.used):
        what = f"`{name}` is used before it is initialized"
        yield look.fault(Rule.BARRIERS, what, "used", name)


def _orders(look: _Look) -> Iterator[Fault]:
    """What orders accesses is there, under a number that nothing of another kind has."""
    kernel, whole = look.kernel, look.whole
    numbers = sorted((i for i in whole.items if isinstance(i, tuple)), key=lambda each: each[0])
    counts = Counter(number for number, _ in numbers)
    for number, count in counts.items():
        if count > 1:
            yield Fault(Rule.ORDERS, f"statements of {count} kinds have the number {number}")
    recorded = {number for order in kernel.orders for number in order.statements}
    for number in sorted(recorded - counts.keys()):
        yield Fault(Rule.ORDERS, f"statement {number}, which orders something, is gone")
    for number, kind in numbers:
        if number not in recorded:
            what = f"the statement of number {number} orders nothing"
            yield look.fault(Rule.ORDERS, what, "items", (number, kind))


def _layout(kernel: Kernel, layout: SharedLayout) -> Iterator[Fault]:
    """Every shared buffer has its place: aligned, inside, and apart from those alive with it."""
    if Counter(place.buffer for place in layout.places) != Counter(kernel.shared):
        yield Fault(Rule.LAYOUT, "the buffers that are laid out are not those of the kernel")
    total = integers.constant(layout.bytes)
    spans: list[tuple[int, int, str]] = []
    for place in layout.places:
        start, size = integers.constant(place.start), integers.constant(place.bytes)
        if start is None or size is None:
            continue
        name = place.buffer.name
        if start % place.buffer.alignment:
            yield Fault(
                Rule.LAYOUT, f"`{name}` at {start} is to be aligned to {place.buffer.alignment}"
            )
        if total is not None and start + size > total:
            yield Fault(Rule.LAYOUT, f"`{name}` ends at {start + size}, and the layout at {total}")
        spans.append((start, start + size, name))
    yield from _overlaps(kernel, sorted(spans))


def _overlaps(kernel: Kernel, spans: list[tuple[int, int, str]]) -> Iterator[Fault]:
    """Only what was placed by lifetimes may lie over something else that was."""
    placed = {name for name, _ in kernel.offsets}
    end, before = 0, ""
    for start, stop, name in spans:
        if start < end and not {name, before} <= placed:
            yield Fault(Rule.LAYOUT, f"`{name}` lies over `{before}`")
        if stop > end:
            end, before = stop, name
