"""Statements of a kernel as what one kind of actor does: segments, conditions and loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.elected import ELECTED_WARP, ByLane, CopyIf
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile, WithTile
from warpsmith.kernel.traversal import walk
from warpsmith.protocol.accesses import Access, Way, accesses, synchronizes
from warpsmith.protocol.scalars import Scalar, UnknownError
from warpsmith.protocol.steps import Steps
from warpsmith.protocol.walks import Condition, Loop, Node, Segment, loops_of, moved_by, scalars_of

_THREADS = frozenset(kind.name for kind in BLOCK_TYPES)

_Touch = tuple[str, int, Way, bool]


def _key(access: Access) -> _Touch:
    return access.buffer.name, id(access.index), access.way, access.remote


class Body(Steps):
    """Makes statements ready to be walked.

    Raises:
        Broken: only some threads of a warp or group come by a barrier.
    """

    def nodes(self, statements: Iterable[Statement]) -> tuple[Node, ...]:
        """The statements, all but those that synchronization does not depend on."""
        return self._sealed(self._list(tuple(statements)))

    def _list(self, statements: Sequence[Statement]) -> list[Node]:
        result: list[Node] = []
        touched: dict[_Touch, Access] = {}
        for statement in statements:
            sends = id(statement) in self._runner.sends
            if sends or not synchronizes(statement, self._shared.prepared.synchronizing):
                if isinstance(statement, If) and statement.uniform:
                    self._flush(result, touched)
                    self._extend(result, self._condition(statement))
                    continue
                for access in self._data(statement):
                    touched.setdefault(_key(access), access)
                if sends:
                    self._flush(result, touched)
                    self._extend(result, [Segment(list(self._sent(statement)))])
                continue
            for access in self._own(statement):
                touched.setdefault(_key(access), access)
            self._flush(result, touched)
            if isinstance(statement, If):
                self._extend(result, self._condition(statement))
            elif isinstance(statement, WithTile):
                below = Apply("lt", (statement.symbol, statement.count), DataType.Bool)
                there = If(below, statement.body, uniform=True)
                self._extend(result, self._condition(there))
            elif isinstance(statement, For):
                self._extend(result, self._loop(statement))
            elif isinstance(statement, CopyIf):  # what copies leave out, they move no bytes of
                self._extend(result, self._list(statement.body))
            elif isinstance(statement, ByLane):
                self._extend(result, self._by(1, statement.body))
            else:
                self._extend(result, [Segment(list(self._leaves(statement)))])
        self._flush(result, touched)
        return result

    def _extend(self, result: list[Node], nodes: Iterable[Node]) -> None:
        """Append nodes; neighbouring segments become one."""
        for node in nodes:
            if isinstance(node, Segment) and result and isinstance(result[-1], Segment):
                result[-1].items.extend(node.items)
            elif not isinstance(node, Segment) or node.items:
                result.append(node)

    def _sealed(self, nodes: list[Node]) -> tuple[Node, ...]:
        places = frozenset(cursor.name for cursor in self._scope.cursors.values())
        for node in nodes:
            if isinstance(node, Segment):
                node.seal(places)
        return tuple(nodes)

    def _own(self, statement: Statement) -> tuple[Access, ...]:
        """What a statement touches, without those inside it."""
        known = self._shared.prepared.accesses
        found = known.get(id(statement))
        if found is None:
            found = known[id(statement)] = accesses(statement)
        return found

    def _data(self, statement: Statement) -> tuple[Access, ...]:
        """What a statement without synchronization may touch, and those inside it.

        Names that it gives to expressions are remembered.
        """
        prepared = self._shared.prepared
        found = prepared.accesses.get(id(statement))
        if found is None:
            inner = tuple(walk((statement,)))
            found = tuple(access for each in inner for access in accesses(each))
            prepared.accesses[id(statement)] = found
            prepared.lets[id(statement)] = tuple(s for s in inner if isinstance(s, Let))
        for let in prepared.lets[id(statement)]:
            self._scope.let(let.symbol.name, let.value)
        return found

    def _condition(self, statement: If) -> list[Node]:
        names = set(statement.condition.walk())
        try:
            holds = self._scope.scalar(statement.condition)
        except UnknownError as error:
            if not synchronizes(statement, self._shared.prepared.synchronizing):
                return self._list(statement.body)
            if statement.uniform and error.name not in _THREADS:
                return self._list(statement.body)
            self._parted(statement)
        if holds.constant == 0:
            return []
        if ELECTED in names:
            body = self._by(1, statement.body)
        elif ELECTED_WARP in names:
            body = self._by(self._threads, statement.body)
        else:
            body = self._list(statement.body)
        if holds.constant is not None:
            return body
        return [Condition(holds, self._sealed(body))] if body else []

    def _by(self, threads: int, statements: Sequence[Statement]) -> list[Node]:
        """What so many threads of the warp that has the elected one do, and no other warp."""
        outside = self._threads, self._elected
        self._threads, self._elected = threads, True
        found = self._list(statements)
        self._threads, self._elected = outside
        return found

    def _loop(self, loop: For) -> list[Node]:
        try:
            extent = self._scope.scalar(self._turns(loop))
        except UnknownError:
            self._parted(loop)
        if extent.constant == 0:
            return []
        index = loop.symbol.name
        if index in self._scope.loops:
            raise InternalError(f"a loop over {index} stands in another one")
        self._scope.enter(index)
        body = self._sealed(self._list(loop.body))
        self._scope.leave(index)
        if not body:
            return []
        cursors = {cursor.name for cursor in self._scope.cursors.values()}
        moved = tuple(sorted(cursors & moved_by(body)))
        watched = {id(scalar): scalar for scalar in scalars_of(body) if index in scalar.names}
        nested = tuple((each.name, each.extent) for each in loops_of(body))
        key = self._key(extent, body, cursors) if self._scope.loops else None
        return [Loop(index, extent, body, moved, tuple(watched.values()), nested, key)]

    def _turns(self, loop: For) -> Expr:
        """Iterations of a loop.

        Who is handed which tiles, no block knows. Here the first block is handed all, in their
        order, and each other one the last of them; then both find that there are no more.
        """
        head = next((s for s in loop.body if isinstance(s, ReadTile | TakeTile)), None)
        tile = next((s for s in loop.body if isinstance(s, WithTile)), None)
        if head is None or tile is None:
            return loop.extent
        first = Apply("eq", (Symbol(ParallelType.grid_x.name), integers.ZERO), DataType.Bool)
        last = integers.minimum(tile.count, 1)
        count = Apply("where", (first, tile.count, last), DataType.Index)
        before = integers.sub(tile.count, count)
        self._scope.let(head.symbol.name, integers.add(before, loop.symbol))
        return integers.add(count, 1)

    def _key(self, extent: Scalar, body: Sequence[Node], cursors: set[str]) -> tuple[str, ...]:
        """Names of all that a loop's steps depend on: places of cursors, and indices around it."""
        used = extent.names.union(moved_by(body), *(s.names for s in scalars_of(body)))
        return tuple(sorted(used & (cursors | self._scope.loops)))

    def _flush(self, result: list[Node], touched: dict[_Touch, Access]) -> None:
        """What was touched since the last step becomes steps."""
        if touched:
            self._extend(result, [Segment([self._touched(touched.values())])])
            touched.clear()
