"""Exchanges: each block of a cluster gives parts to all, and waits until a barrier counted them.

The check runs one block, and takes what others give to it as given by itself, where the block
announces the bytes. That all blocks do alike does not make them do it at once: a block may be one
exchange ahead of another. So what the check does not run, it asks of the text:

  * whatever is given once, in no loop, may stay unread as long as it likes;
  * in a loop stages are taken in turn, and before the first of them all blocks meet. So who gives
    into a stage again has met the others since they read it: it is read between the wait and the
    end of the turn.

Which threads give how many bytes to whom is counted, thread by thread: to all blocks the same, and
no two of them to one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol, evaluate
from warpsmith.kernel.clusters import RANK, StoreAsync, SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.rings import Advance, Await, Expect, InitBarriers, Jump
from warpsmith.kernel.traversal import barriers, children, walk
from warpsmith.protocol.accesses import accesses

Body = tuple[Statement, ...]
Extents = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Gift:
    """What the blocks of a cluster give to each of them at a time.

    Attributes:
        stores: one for each buffer that gets a part.
        shares: bytes that come to each of these buffers, in every block.
    """

    stores: tuple[StoreAsync, ...]
    shares: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """That come to a block."""
        return sum(self.shares)


def gifts(kernel: Kernel) -> dict[str, Gift]:
    """The exchanges that the check can take as a block's own, by the names of their barriers."""
    blocks = kernel.launch.cluster_blocks
    x, y, z = (integers.constant(extent) for extent in kernel.launch.block)
    if blocks == 1 or x is None or y is None or z is None:
        return {}
    found: dict[str, Gift] = {}
    for body, place, looped in _places(kernel.body, looped=False):
        stores = _sent(body[place])
        name = stores[0].barrier.name
        if all(_is_apart(kernel, store, stores) for store in stores) and _is_in_turn(
            kernel, body, place, looped=looped
        ):
            lets = {s.symbol.name: s.value for s in walk(kernel.body) if isinstance(s, Let)}
            amounts = _given(body[place], blocks, (x, y, z), lets)
            first = {store.buffer.name: store for store in reversed(stores)}
            if amounts is not None:
                found[name] = Gift(tuple(first.values()), tuple(amounts[b] for b in first))
    return found


def _places(body: Body, *, looped: bool) -> Iterator[tuple[Body, int, bool]]:
    """(list, position, whether in a loop) of statements that do nothing but send."""
    for place, statement in enumerate(body):
        if _sent(statement):
            yield body, place, looped
        elif isinstance(statement, For):
            yield from _places(statement.body, looped=True)


def _sent(statement: Statement) -> list[StoreAsync]:
    """What is sent inside a statement that does nothing else; empty where it does."""
    inner = [s for s in walk((statement,)) if not children(s)]
    sent = [s for s in inner if isinstance(s, StoreAsync)]
    return sent if len(sent) == len(inner) else []


def _is_apart(kernel: Kernel, store: StoreAsync, stores: Sequence[StoreAsync]) -> bool:
    """Whether a barrier serves one exchange, and its phases end with one announcement."""
    name = store.barrier.name
    using = [s for s in walk(kernel.body) if any(b.name == name for b in barriers(s))]
    others = [s for s in using if not any(s is each for each in stores)]
    counts = [
        count
        for s in walk(kernel.body)
        if isinstance(s, InitBarriers)
        for buffer, count in s.arrivals
        if buffer.name == name
    ]
    return (
        name == stores[0].barrier.name
        and store.stage == stores[0].stage
        and len(others) == 2
        and sum(isinstance(s, Expect) for s in others) == 1
        and sum(isinstance(s, Await) for s in others) == 1
        and counts == [integers.ONE]
    )


def _is_in_turn(kernel: Kernel, body: Body, place: int, *, looped: bool) -> bool:
    """Whether a block that is one exchange ahead touches nothing that others still read."""
    stores = _sent(body[place])
    name, stage = stores[0].barrier.name, stores[0].stage
    announced = [
        (at, s)
        for at, statement in enumerate(body[:place])
        for s in walk((statement,))
        if isinstance(s, Expect) and s.barrier.name == name
    ]
    waits = [
        (at, s)
        for at, s in enumerate(body)
        if at > place and isinstance(s, Await) and s.barrier.name == name
    ]
    if len(announced) != 1 or len(waits) != 1:
        return False
    (_, expect), (wait, awaiting) = announced[0], waits[0]
    if not (expect.stage == stage == awaiting.stage and expect.arrives and awaiting.of_cluster):
        return False
    if not looped:
        return stage == integers.ZERO == awaiting.parity
    moves = [s for s in walk(kernel.body) if isinstance(s, Advance | Jump)]
    ends = [
        (at, s.cursor)
        for at, s in enumerate(body)
        if isinstance(s, Advance) and s.by == 1 and s.cursor.stage == stage and s.cursor.stages > 1
    ]
    if len(ends) != 1:
        return False
    end, cursor = ends[0]
    return (
        sum(s.cursor.name == cursor.name for s in moves) == 1
        and end > wait
        and awaiting.parity == cursor.phase
        and any(_meets_around(s, stage) for s in body[:place])
        and _is_read_inside(kernel, stores, body[wait:end])
    )


def _meets_around(statement: Statement, stage: Expr) -> bool:
    """Whether blocks meet where the stages come round."""
    if not isinstance(statement, If):
        return False
    around = Apply("eq", (stage, integers.ZERO), DataType.Bool)
    meets = any(isinstance(s, SynchronizeCluster) for s in statement.body)
    return meets and statement.uniform and statement.condition == around


def _is_read_inside(kernel: Kernel, stores: Sequence[StoreAsync], turn: Body) -> bool:
    """Whether parts are touched nowhere but by the stores and in these statements."""
    names = {store.buffer.name for store in stores}

    def count(statements: Body) -> int:
        return sum(access.buffer.name in names for s in walk(statements) for access in accesses(s))

    return count(kernel.body) == count(turn)


# --- who gives what ----------------------------------------------------------------------------


class _Values(dict[str, int]):
    """Values of symbols by name; names of expressions get theirs when they are asked for."""

    def __init__(self, known: Mapping[str, int], lets: Mapping[str, Expr]) -> None:
        super().__init__(known)
        self._lets = lets

    def __missing__(self, name: str) -> int:
        return evaluate(self._lets[name], self)

    def having(self, **more: int) -> _Values:
        """These values, and others."""
        return _Values({**self, **more}, self._lets)


def _given(
    statement: Statement, blocks: int, block: Extents, lets: Mapping[str, Expr]
) -> dict[str, int] | None:
    """Bytes that come to each buffer, in each block; None where blocks get different ones, or one
    element twice.
    """
    amounts: list[dict[str, int]] = [{} for _ in range(blocks)]
    places: set[tuple[str, int, int]] = set()
    count = 0
    kinds = [kind.name for kind in BLOCK_TYPES]
    for thread in product(*map(range, block)):
        names = _Values(dict(zip(kinds, thread, strict=True)), lets)
        try:
            for store, known in _stores(statement, names):
                rank = evaluate(store.rank, known)
                if not 0 <= rank < blocks:
                    return None
                name = store.buffer.name
                amounts[rank][name] = amounts[rank].get(name, 0) + store.bytes * blocks
                for own in range(blocks):
                    index = evaluate(store.index, known.having(**_stage(store), **{RANK: own}))
                    places.add((store.buffer.name, rank, index))
                    count += 1
        except KeyError:
            return None
    alike = all(amount == amounts[0] for amount in amounts) and len(places) == count
    return amounts[0] if alike else None


def _stage(store: StoreAsync) -> dict[str, int]:
    """The first one, for all are alike."""
    return {node.name: 0 for node in store.stage.walk() if isinstance(node, Symbol)}


def _stores(statement: Statement, known: _Values) -> Iterator[tuple[StoreAsync, _Values]]:
    """What one thread stores, with the values of the loops around it."""
    match statement:
        case StoreAsync():
            yield statement, known
        case If(condition=condition, body=body):
            if evaluate(condition, known):
                for inner in body:
                    yield from _stores(inner, known)
        case For(symbol=symbol, extent=extent, body=body):
            for number in range(evaluate(extent, known)):
                for inner in body:
                    yield from _stores(inner, known.having(**{symbol.name: number}))
