"""Statements as a tree into which others are put, and the ways through it that always are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound
from warpsmith.kernel.effects import Orders, Verb
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.traversal import barriers, children, map_bodies, with_body
from warpsmith.values import dataclass


class Node:
    """A statement in its place; the root has none, and holds the statements of a scope.

    Attributes:
        body: what stands inside; None where nothing can.
        number: of the statement among all of its scope, in the order of the text.
    """

    __slots__ = ("body", "number", "parent", "statement")

    def __init__(self, statement: Statement | None, parent: Node | None, number: int) -> None:
        self.statement = statement
        self.parent = parent
        self.number = number
        self.body: list[Node] | None = None

    @property
    def siblings(self) -> list[Node]:
        assert self.parent is not None
        assert self.parent.body is not None
        return self.parent.body

    @property
    def place(self) -> int:
        """Position among its siblings."""
        return self.siblings.index(self)

    @property
    def is_loop(self) -> bool:
        return isinstance(self.statement, For)

    @property
    def repeats(self) -> bool:
        """Whether it is a loop that may run more than once."""
        loop = self.statement
        return isinstance(loop, For) and integers.constant(loop.extent) not in (0, 1)

    @property
    def elects(self) -> bool:
        """Whether one elected thread alone runs what stands inside."""
        return _elects(self.statement)

    @property
    def parts(self) -> bool:
        """Whether some threads run what stands inside, and others do not."""
        return isinstance(self.statement, If) and not self.statement.uniform

    def up(self) -> Iterator[Node]:
        """This node and those around it, the root last."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def walk(self) -> Iterator[Node]:
        """This node and all inside it."""
        yield self
        for node in self.body or ():
            yield from node.walk()

    def before(self, *statements: Statement) -> list[Node]:
        """Put statements before this one."""
        return self._put(self.place, statements)

    def after(self, *statements: Statement) -> list[Node]:
        """Put statements behind this one."""
        return self._put(self.place + 1, statements)

    def first(self, *statements: Statement) -> list[Node]:
        """Put statements at the start of what stands inside this one."""
        assert self.body is not None
        made = [tree(statement, self) for statement in statements]
        self.body[:0] = made
        return made

    def last(self, *statements: Statement) -> list[Node]:
        """Put statements at the end of what stands inside this one."""
        assert self.body is not None
        made = [tree(statement, self) for statement in statements]
        self.body += made
        return made

    def remove(self) -> None:
        del self.siblings[self.place]

    def _put(self, place: int, statements: Iterable[Statement]) -> list[Node]:
        made = [tree(statement, self.parent) for statement in statements]
        self.siblings[place:place] = made
        return made

    def built(self) -> Statement:
        """The statement with all that was put into it."""
        assert self.statement is not None
        if self.body is None:
            return self.statement
        return with_body(self.statement, self.statements())

    def statements(self) -> tuple[Statement, ...]:
        """What stands inside."""
        return tuple(node.built() for node in self.body or ())


def meets(statement: Statement | None) -> bool:
    """Whether threads meet: those of a block or group, or those of a whole cluster."""
    return statement is not None and statement.form.orders is Orders.MEETING


def arrives(statement: Statement | None) -> bool:
    """Whether threads arrive at an mbarrier, and so say that something is over."""
    return statement is not None and bool(barriers(statement, Verb.ARRIVE))


def root(statements: tuple[Statement, ...]) -> Node:
    """The tree of a scope, in which the elected thread does at once what it does in a row."""
    result = Node(None, None, -1)
    result.body = [tree(statement, result) for statement in _joined(statements)]
    for number, node in enumerate(result.walk()):
        node.number = number
    return result


def _joined(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements, and those inside, with what the elected thread does in a row made one."""
    result: list[Statement] = []
    for statement in statements:
        if children(statement):
            statement = map_bodies(statement, _joined)
        known = result[-1] if result else None
        if _elects(statement) and _elects(known):
            assert known is not None
            result[-1] = with_body(known, (*children(known), *children(statement)))
        else:
            result.append(statement)
    return tuple(result)


def _elects(statement: Statement | None) -> bool:
    return isinstance(statement, If) and statement.condition == ELECTED


def tree(statement: Statement, parent: Node | None) -> Node:
    """The tree of one statement, whose nodes have no numbers yet."""
    node = Node(statement, parent, -1)
    if statement.form.has_body:
        node.body = [tree(inner, node) for inner in children(statement)]
    return node


def common(a: Node, b: Node) -> Node:
    """The innermost node that holds both."""
    around = {id(node) for node in a.up() if node is not a}
    return next(node for node in b.up() if node is not b and id(node) in around)


def inside(node: Node, holder: Node) -> Node:
    """What stands directly in `holder` and is, or holds, the node."""
    return next(each for each in node.up() if each.parent is holder)


@dataclass(frozen=True, slots=True)
class Turns:
    """Whole iterations of a loop.

    Attributes:
        through: a statement that each of them comes by.
    """

    loop: Node
    count: int
    through: Node | None = None

    def nodes(self) -> Iterator[Node]:
        """What certainly runs in them."""
        for _ in range(self.count):
            yield from _certain(self.loop.body or (), self.through)


def straight(a: Node, b: Node, again: Turns | None = None) -> Iterator[Node]:
    """What certainly runs behind `a` and before `b`, which stands further down."""
    holder = common(a, b)
    yield from _onward(a, holder, again)
    first, last = inside(a, holder), inside(b, holder)
    yield from _certain(first.siblings[first.place + 1 : last.place])
    yield from _toward(last, b)


def carried(a: Node, b: Node, between: Turns, again: Turns | None = None) -> Iterator[Node]:
    """What certainly runs behind `a` in one iteration of a loop and before `b` in a later one."""
    loop = between.loop
    yield from _onward(a, loop, again)
    end = inside(a, loop)
    yield from _certain(end.siblings[end.place + 1 :])
    yield from between.nodes()
    start = inside(b, loop)
    yield from _certain(start.siblings[: start.place])
    yield from _toward(start, b)


def onward(a: Node) -> Iterator[Node]:
    """What stands behind `a` in its list, then in that around it, and so on."""
    for node in a.up():
        if node.parent is not None:
            yield from node.siblings[node.place + 1 :]


def backward(a: Node) -> Iterator[Node]:
    """What stands before `a` in its list, the nearest first, then in that around it, and so on."""
    for node in a.up():
        if node.parent is not None:
            yield from reversed(node.siblings[: node.place])


def _onward(a: Node, holder: Node, again: Turns | None) -> Iterator[Node]:
    for node in a.up():
        if node.parent is holder or node.parent is None:
            return
        yield from _certain(node.siblings[node.place + 1 :])
        if again is not None and node.parent is again.loop:
            yield from again.nodes()


def _toward(start: Node, b: Node) -> Iterator[Node]:
    """What runs inside `start` before `b`, where `start` holds it."""
    way = []
    for node in b.up():
        if node is start:
            break
        way.append(node)
    for node in reversed(way):
        yield from _certain(node.siblings[: node.place])


def _certain(nodes: Iterable[Node], through: Node | None = None) -> Iterator[Node]:
    """The nodes, with what the elected thread does, and loops that run at least once.

    Args:
        through: that what holds it certainly runs, too.
    """
    for node in nodes:
        yield node
        loop = node.statement
        runs = isinstance(loop, For) and lower_bound(loop.extent) >= 1
        if node.elects or runs or (through is not None and node in through.up()):
            yield from _certain(node.body or (), through)
