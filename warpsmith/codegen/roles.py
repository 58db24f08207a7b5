"""Which warps run which role: an if-else tree over the number of a warp."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.traversal import expressions, walk
from warpsmith.protocol.registers import change, entry_registers
from warpsmith.targets.family import WARP, WARP_GROUP, Limits
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Bundle:
    """Warp groups that belong together: those of one role, or one that several roles share.

    Attributes:
        start, end: its warps, multiples of a warp group's, but for the end of a block that is cut
            short; None where the end is not known before the launch.
        branches: in the order of their warps.
    """

    start: int
    end: int | None
    branches: tuple[Branch, ...]

    @property
    def registers(self) -> int | None:
        """That each of its threads asks for."""
        asked = {b.agent.registers for b in self.branches if b.agent.registers is not None}
        if len(asked) > 1:
            names = ", ".join(branch.agent.name for branch in self.branches)
            raise InternalError(f"{names} share a warp group, and have different registers")
        return asked.pop() if asked else None


def branches_of(kernel: Kernel) -> tuple[Branch, ...]:
    """The bodies of the kernel's roles, which end its own; none without roles.

    Only the blocks of a cluster may meet behind them.
    """
    found, body = kernel.branches, kernel.body
    if found and isinstance(body[-1], SynchronizeCluster):
        body = body[:-1]
    if found and body[-len(found) :] != found:
        raise InternalError(f"{kernel.name}: statements follow the branch of a role")
    if sum(isinstance(s, Branch) for s in walk(kernel.body)) != len(found):
        raise InternalError(f"{kernel.name}: the branch of a role stands inside a statement")
    return found


def bundles(branches: tuple[Branch, ...], warps: int | None) -> tuple[Bundle, ...]:
    """The branches by the warp groups that they have, in the order of warps.

    Args:
        warps: of the block, if known.
    """
    result: list[Bundle] = []
    for branch in sorted(branches, key=lambda b: b.agent.first_warp):
        start, last = _warps(branch)
        begin = start // WARP_GROUP * WARP_GROUP
        end = None if last is None else -(-last // WARP_GROUP) * WARP_GROUP
        if end is not None and warps is not None:
            end = min(end, warps)
        before = result[-1] if result else None
        if before is not None:
            taken = _warps(before.branches[-1])[1]
            if taken is None or taken > start:
                other = before.branches[-1].agent.name
                raise InternalError(f"{other} and {branch.agent.name} have warp {start} in common")
        if before is not None and before.end is not None and before.end > begin:
            result[-1] = Bundle(before.start, end, (*before.branches, branch))
        else:
            result.append(Bundle(begin, end, (branch,)))
    return tuple(result)


def conditions(
    ranges: tuple[tuple[int, int | None], ...], start: int, end: int | None
) -> Iterator[str]:
    """What tells these ranges of warps from each other, tested in order, among start .. end - 1.

    Empty where all warps that are left belong to the range.
    """
    for first, last in ranges:
        if first == start and (last is None or last == end):
            yield ""
        elif last == first + 1:
            yield f"warp == {first}"
        else:
            below = [] if last is None else [f"warp < {last}"]
            yield " && ".join([*([f"warp >= {first}"] if first > start else []), *below])
        start = start if last is None else last


def warps_of(branches: tuple[Branch, ...]) -> tuple[tuple[int, int | None], ...]:
    """The first warp of each branch, and the one after its last."""
    return tuple(map(_warps, branches))


def _warps(branch: Branch) -> tuple[int, int | None]:
    agent = branch.agent
    if agent.elected:
        return agent.first_warp, agent.first_warp + 1
    threads = integers.constant(agent.threads)
    return agent.first_warp, None if threads is None else agent.first_warp + -(-threads // WARP)


def asks_for(symbol: Symbol, statements: tuple[Statement, ...]) -> bool:
    """Whether an expression of a statement has this symbol."""
    return any(
        node == symbol for s in walk(statements) for expr in expressions(s) for node in expr.walk()
    )


def bounds(kernel: Kernel) -> tuple[int | None, int]:
    """Threads of a block, if known, and blocks of a multiprocessor; 0 leaves these to ptxas.

    Without both of them ptxas ignores `setmaxnreg`.
    """
    threads = integers.constant(integers.mul(*kernel.launch.block))
    blocks = kernel.launch.blocks_per_sm
    if not any(branch.agent.registers is not None for branch in branches_of(kernel)):
        return threads, blocks
    if threads is None or threads % (WARP_GROUP * WARP):
        raise InternalError(
            f"{kernel.name}: roles have registers, and a block is not made of whole warp groups"
        )
    return threads, max(blocks, 1)


def register_lines(bundle: Bundle, kernel: Kernel, limits: Limits) -> list[str]:
    """The statement by which a warp group gives registers away, or asks for more, if it does."""
    threads, blocks = bounds(kernel)
    if bundle.registers is None or threads is None:
        return []
    direction = change(bundle.registers, entry_registers(threads, limits, blocks))
    calls = {"dec": "ws_fewer_registers", "inc": "ws_more_registers"}
    return [f"{calls[direction]}<{bundle.registers}>();"] if direction else []
