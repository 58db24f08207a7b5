"""The inside of a function: declarations, labels, instructions and nested scopes."""

from __future__ import annotations

from warpsmith.sim.ptx.cursor import Cursor, number
from warpsmith.sim.ptx.declare import parse_declarations
from warpsmith.sim.ptx.syntax import (
    Address,
    Argument,
    Block,
    Call,
    Item,
    Label,
    Literal,
    Location,
    Pair,
    Registers,
    Scalar,
    Statement,
    Symbol,
    TargetList,
    TensorAddress,
    Vector,
)

_DEEPEST = 100  # scopes within scopes
_MOST_REGISTERS = 1 << 20


def parse_block(cursor: Cursor) -> Block:
    """`{ ... }`, the body of a function."""
    return _Body(cursor).block(0)


class _Body:
    """One function: `location` is what the last `.loc` said; operands of one word are shared."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.location: Location | None = None
        self.inlined: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.simple: dict[str, Argument] = {}

    def block(self, depth: int) -> Block:
        cursor = self.cursor
        words = cursor.words
        if depth > _DEEPEST:
            cursor.fail(f"at most {_DEEPEST} nested scopes")
        cursor.expect("{")
        items: list[Item] = []
        while True:
            word = words[cursor.index]
            if not word:
                cursor.fail("`}` at the end of a function")
            first = word[0]
            if first == "}":
                cursor.index += 1
                return Block(tuple(items))
            if first == "{":
                items.append(self.block(depth + 1))
            elif first == ".":
                self.directive(word, items)
            elif first == ";":
                cursor.index += 1
            elif words[cursor.index + 1] == ":":
                self.label(items)
            else:
                items.append(self.instruction())

    def directive(self, word: str, items: list[Item]) -> None:
        cursor = self.cursor
        if word == ".loc":
            self.loc()
        elif word == ".reg":
            items.append(_registers(cursor))
        elif word in (".local", ".shared", ".param", ".global", ".const"):
            items += parse_declarations(cursor)
        elif word == ".pragma":
            cursor.take()
            cursor.string()
            while cursor.accept(","):
                cursor.string()
            cursor.expect(";")
        elif word in (".extern", ".visible", ".weak"):
            cursor.take()
            if cursor.word not in (".shared", ".global", ".const"):
                cursor.fail("a variable after a linking directive")
            items += parse_declarations(cursor, external=word == ".extern")
        else:
            cursor.fail("an instruction, or a directive among .reg, .local, .shared, .param, .loc")

    def loc(self) -> None:
        """`.loc file line column[, function_name label[+n]][, inlined_at file line column]`"""
        cursor = self.cursor
        cursor.take()
        here = (cursor.integer(), cursor.integer(), cursor.integer())
        caller: tuple[int, int, int] | None = None
        while cursor.accept(","):
            word = cursor.take()
            if word == "function_name":
                cursor.scalar()
            elif word == "inlined_at":
                caller = (cursor.integer(), cursor.integer(), cursor.integer())
            else:
                cursor.index -= 1
                cursor.fail("`function_name` or `inlined_at`")
        if caller is None:
            self.location = Location(*here[:2])
            return
        # A call that is inlined itself has a `.loc` of its own before this one: the chain ends at
        # the kernel's line, which is the one to show.
        caller = self.inlined.get(caller, caller)
        self.inlined[here] = caller
        self.location = Location(*here[:2], caller[:2])

    def label(self, items: list[Item]) -> None:
        cursor = self.cursor
        line = cursor.line
        name = cursor.name("a label")
        cursor.expect(":")
        if cursor.accept(".branchtargets"):
            targets = [cursor.name("a label")]
            while cursor.accept(","):
                targets.append(cursor.name("a label"))
            cursor.expect(";")
            items.append(TargetList(line, name, tuple(targets)))
        elif cursor.word in (".callprototype", ".calltargets"):
            # Both serve indirect calls, which are refused where they stand.
            while not cursor.accept(";"):
                cursor.take()
            items.append(TargetList(line, name, ()))
        else:
            items.append(Label(line, name))

    def instruction(self) -> Statement | Call:
        cursor = self.cursor
        words = cursor.words
        begin = cursor.index
        guard: Symbol | None = None
        if words[begin] == "@":
            cursor.index += 1
            negated = cursor.accept("!")
            guard = Symbol(cursor.name("a predicate"), negated=negated)
        line = cursor.line
        mnemonic = cursor.name("an instruction")
        if mnemonic == "call" or mnemonic == "call.uni":
            return self.call(begin, line, guard)
        arguments: list[Argument] = []
        shape = ""
        if words[cursor.index] != ";":
            while True:
                index = cursor.index
                after = words[index + 1] if words[index] else ""
                if after == "," or after == ";":
                    word = words[index]
                    argument = self.simple.get(word) or self.remember(word)
                    cursor.index = index + 1
                else:
                    argument = self.argument()
                    after = words[cursor.index]
                arguments.append(argument)
                shape += argument.shape
                if after == ",":
                    cursor.index += 1
                elif after == ";":
                    break
                else:
                    cursor.fail("`,` or `;`")
        text = self.text(begin)
        cursor.index += 1
        return Statement(line, mnemonic, tuple(arguments), shape, guard, self.location, text)

    def remember(self, word: str) -> Argument:
        """An operand of one word."""
        argument: Argument
        if word[0].isalpha() or word[0] in "_$%":
            argument = Symbol(word)
        else:
            value = number(word)
            if value is None:
                self.cursor.fail("an operand")
            argument = Literal(value) if isinstance(value, int) else value
        self.simple[word] = argument
        return argument

    def argument(self) -> Argument:
        cursor = self.cursor
        word = cursor.word
        if word == "[":
            return self.address()
        if word == "{":
            return Vector(self.listed("{", "}"))
        if word in ("|", ",", ";"):
            cursor.fail("an operand")
        scalar = cursor.scalar()
        if cursor.word == "|" and isinstance(scalar, Symbol):
            cursor.index += 1
            return Pair(scalar, Symbol(cursor.name("a second destination")))
        return scalar

    def listed(self, opened: str, closed: str) -> tuple[Scalar, ...]:
        """Scalars with commas between them, of a vector or in parentheses."""
        cursor = self.cursor
        cursor.expect(opened)
        items: list[Scalar] = []
        while not cursor.accept(closed):
            if items:
                cursor.expect(",")
            items.append(cursor.scalar())
        return tuple(items)

    def address(self) -> Argument:
        cursor = self.cursor
        cursor.expect("[")
        base = cursor.scalar()
        if cursor.accept(","):
            coordinates = self.listed("{", "}")
            if cursor.word == ",":
                cursor.fail("`]`: offsets of im2col are not supported")
            cursor.expect("]")
            return TensorAddress(base, coordinates)
        cursor.expect("]")
        return Address(base)

    def call(self, begin: int, line: int, guard: Symbol | None) -> Call:
        cursor = self.cursor
        results: tuple[Scalar, ...] = ()
        arguments: tuple[Scalar, ...] = ()
        if cursor.word == "(":
            results = self.listed("(", ")")
            cursor.expect(",")
        name = cursor.name("the function to call")
        if cursor.accept(","):
            if cursor.word == "(":
                arguments = self.listed("(", ")")
                if cursor.accept(","):
                    cursor.name("a prototype")
            else:
                cursor.name("a prototype")
        if cursor.word != ";":
            cursor.fail("`;`")
        text = self.text(begin)
        cursor.index += 1
        return Call(line, name, results, arguments, guard, self.location, text)

    def text(self, begin: int) -> str:
        """From the word at `begin` to the present one, on one line."""
        tokens = self.cursor.tokens
        text = tokens.text[tokens.starts[begin] : tokens.end(self.cursor.index)]
        if "//" in text or "/*" in text:
            return " ".join(tokens.words[begin : self.cursor.index + 1])
        return " ".join(text.split())


def _registers(cursor: Cursor) -> Registers:
    line = cursor.line
    cursor.take()
    type_ = cursor.word
    if not type_.startswith("."):
        cursor.fail("a type such as `.b32`")
    cursor.take()
    names: list[tuple[str, int | None]] = []
    while True:
        name = cursor.name("the name of a register")
        count: int | None = None
        if cursor.accept("<"):
            word = cursor.word
            value = number(word)
            if not isinstance(value, int) or value > _MOST_REGISTERS:
                cursor.fail(f"a count of registers up to {_MOST_REGISTERS}")
            count = value
            cursor.take()
            cursor.expect(">")
        names.append((name, count))
        if not cursor.accept(","):
            break
    cursor.expect(";")
    return Registers(line, type_[1:], tuple(names))
