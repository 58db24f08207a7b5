"""Control flow: basic blocks and where the paths of a branch meet again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from warpsmith.reach import reached
from warpsmith.sim.isa import Op
from warpsmith.sim.program import Instruction
from warpsmith.values import dataclass

_JUMPS = (Op.BRA, Op.BRX)
_ENDS = (Op.EXIT, Op.TRAP)
_MOST_ENDS = 16  # that are considered as the one where a kernel ends
EXIT = -1
"""Stands for the end of the kernel among successors."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Basic blocks: where each starts, where the last one ends, and what follows each."""

    starts: tuple[int, ...]
    end: int
    successors: tuple[tuple[int, ...], ...]

    def extent(self, block: int) -> tuple[int, int]:
        """First instruction of a block, and the one behind its last."""
        after = self.starts[block + 1] if block + 1 < len(self.starts) else self.end
        return self.starts[block], after


def graph_of(instructions: Sequence[Instruction]) -> Graph:
    """The basic blocks of a program whose targets are instruction indices.

    A lane that meets a guarded `exit` or `trap` is gone: such an end is no path of its own, and
    neither is an unguarded `trap`.
    """
    leaders = {0}
    for index, instruction in enumerate(instructions):
        if instruction.op in _JUMPS:
            leaders.update(instruction.targets or (instruction.target,))
            leaders.add(index + 1)
        elif instruction.op in _ENDS:
            leaders.add(index + 1)
    count = len(instructions)
    starts = tuple(sorted(leader for leader in leaders if leader < count))
    number = {start: block for block, start in enumerate(starts)}
    successors = []
    for block, start in enumerate(starts):
        after = starts[block + 1] if block + 1 < len(starts) else count
        last = instructions[after - 1]
        following = [number.get(after, EXIT)]
        if last.op in _JUMPS:
            jumps = [number[target] for target in last.targets or (last.target,)]
            following = jumps + (following if last.guard is not None else [])
        elif last.op in _ENDS and last.guard is None:
            following = [EXIT] if last.op is Op.EXIT else []
        successors.append(tuple(dict.fromkeys(following)))
        assert start < after
    return Graph(starts, count, tuple(successors))


def post_dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate post-dominator of each block, EXIT where there is none before the end.

    Only paths that reach the end count. Blocks from which no path does (they trap, or loop for
    ever) are judged as if their region ended at its traps or, without one, at its last block.
    """
    count = len(successors)
    reaching = _reaching(successors, {b for b in range(count) if EXIT in successors[b]})
    immediate = _immediate(successors, reaching)
    stuck = [block for block in range(count) if block not in reaching]
    if stuck:
        extended = [list(following) for following in successors]
        ends = [block for block in stuck if not extended[block]]
        for block in (*ends, *reversed(stuck)):
            if block not in reaching:
                extended[block].append(EXIT)
                reaching = _reaching(extended, reaching | {block})
        complete = _immediate(extended, reaching)
        for block in stuck:
            immediate[block] = complete[block]
    return immediate


def early_meetings(successors: Sequence[Sequence[int]], blocks: Iterable[int]) -> dict[int, int]:
    """Where the paths of branches meet that have no post-dominator, since some lanes end early.

    Before: if (a) { if (b) return; x } y    the branch on `a` is dominated by the end alone
    After:  its lanes meet at y, without those that returned; the branch on `b` has no meeting

    The end that most blocks lead to is taken for the only one, for branches that do not lead to it
    the next, and so on. A side that never reaches it, or only through the branch itself, has no
    part in a meeting.
    """
    found: dict[int, int] = {}
    ends = [block for block, following in enumerate(successors) if EXIT in following]
    if len(ends) < 2:
        return found
    pending = set(blocks)
    leading = [(_reaching(successors, {end}), end) for end in ends[-_MOST_ENDS:]]
    for reaching, end in sorted(leading, key=lambda one: (-len(one[0]), -one[1])):
        pruned = [[s for s in f if s != EXIT or b == end] for b, f in enumerate(successors)]
        above = _immediate(pruned, reaching)
        for block in pending & reaching:
            sides = [s for s in pruned[block] if s in reaching]
            alive = sum(not _passes(above, side, block) for side in sides)
            if alive > 1 and above[block] != EXIT:
                found[block] = above[block]
        pending -= reaching
    return found


def _passes(above: Sequence[int], start: int, block: int) -> bool:
    """Whether `block` stands on all paths from `start`, by the tree of post-dominators."""
    while start != EXIT and start != block:
        start = above[start]
    return start == block


def _reaching(successors: Sequence[Sequence[int]], goals: set[int]) -> set[int]:
    """Blocks from which a path leads to one of `goals`."""
    before: list[list[int]] = [[] for _ in successors]
    for block, following in enumerate(successors):
        for successor in following:
            if successor != EXIT:
                before[successor].append(block)
    return {*reached(goals, before.__getitem__)}


def _immediate(successors: Sequence[Sequence[int]], among: set[int]) -> list[int]:
    """Cooper, Harvey and Kennedy's algorithm on the reversed graph of the blocks in `among`."""
    count = len(successors)
    before: list[list[int]] = [[] for _ in range(count)]
    roots = []
    for block in among:
        for successor in successors[block]:
            if successor == EXIT:
                roots.append(block)
            elif successor in among:
                before[successor].append(block)
    order = _postorder(before, roots)
    rank = {block: place for place, block in enumerate(order)}
    rank[EXIT] = len(order)
    immediate: dict[int, int] = {EXIT: EXIT}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = immediate[a]
            while rank[b] < rank[a]:
                b = immediate[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            new: int | None = None
            for successor in successors[block]:
                if successor in immediate:
                    new = successor if new is None else meet(successor, new)
            if new is not None and immediate.get(block) != new:
                immediate[block] = new
                changed = True
    return [immediate.get(block, EXIT) for block in range(count)]


def _postorder(edges: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(edges[root]))]
        while stack:
            block, rest = stack[-1]
            for following in rest:
                if following not in seen:
                    seen.add(following)
                    stack.append((following, iter(edges[following])))
                    break
            else:
                order.append(block)
                stack.pop()
    return order


def with_meetings(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions, each guarded branch with the index where its paths meet again.

    Before: `BRA target=7`   After: `BRA target=7 reconverge=9`
    """
    graph = graph_of(instructions)
    immediate = post_dominators(graph.successors)
    found = list(instructions)
    branches: dict[int, int] = {}
    for block in range(len(graph.starts)):
        last = graph.extent(block)[1] - 1
        instruction = found[last]
        if instruction.op is Op.BRX or (instruction.op is Op.BRA and instruction.guard is not None):
            branches[block] = last
    lost = [block for block in branches if immediate[block] == EXIT]
    early = early_meetings(graph.successors, lost)
    for block, last in branches.items():
        meeting = early.get(block, immediate[block])
        if meeting != EXIT:
            found[last] = replace(found[last], reconverge=graph.starts[meeting])
    return tuple(found)
