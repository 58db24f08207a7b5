"""Calls: the body of the function put in their place, or what the runtime's function does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from warpsmith.sim.isa import Kind, Op, Space, Type
from warpsmith.sim.program import Operand
from warpsmith.sim.ptx.building import Builder
from warpsmith.sim.ptx.layout import align_of, size_of
from warpsmith.sim.ptx.names import Memory, Register, Scope
from warpsmith.sim.ptx.numbers import WIDTH, constant
from warpsmith.sim.ptx.operands import Reader
from warpsmith.sim.ptx.refusal import Refusal
from warpsmith.sim.ptx.syntax import (
    Block,
    Call,
    Declaration,
    Function,
    Literal,
    Real,
    Scalar,
    Symbol,
)

_DEEPEST = 60  # calls within calls

# What the runtime's functions take, as types of their parameters, and what they return.
_ASSERT = (Type.B64, Type.B64, Type.B32, Type.B64, Type.B64)
_PRINT = (Type.B64, Type.B64)


class Calls:
    """Puts calls in place; `inside` has the functions whose calls are being put in place.

    Args:
        built: the program.
        block: puts a function's body behind what there is of it.
    """

    def __init__(self, built: Builder, block: Callable[[Block, Scope], None]) -> None:
        self.built = built
        self.block = block
        self.inside: list[str] = []

    def call(self, call: Call, reader: Reader) -> None:
        """One call. Raises Refusal when it cannot be put in place."""
        function = reader.scope.find(call.name)
        if isinstance(function, Register):
            raise Refusal(f"`{call.text}` is an indirect call; only direct calls are supported")
        if not isinstance(function, Function):
            raise Refusal(f"unknown function `{call.name}`")
        built = self.built
        skipped = built.label()
        if call.guard is not None:
            guard = reader.predicate(call.guard)
            skip = replace(guard, negated=not guard.negated)
            built.emit(Op.BRA, guard=skip, target=skipped)
        built.guard = None
        if function.body is None:
            self.runtime(call, function, reader)
            built.here(skipped)
            return
        if call.name in self.inside:
            path = " -> ".join((*self.inside, call.name))
            raise Refusal(f"`{call.name}` calls itself ({path}); recursion is not supported")
        if len(self.inside) >= _DEEPEST:
            raise Refusal(f"more than {_DEEPEST} calls within calls")
        self.inline(call, function, reader)
        built.here(skipped)

    def inline(self, call: Call, function: Function, reader: Reader) -> None:
        built = self.built
        behind = built.label()
        assert function.body is not None
        for what, formal, actual in (
            ("arguments", function.parameters, call.arguments),
            ("results", function.results, call.results),
        ):
            if len(formal) != len(actual):
                raise Refusal(
                    f"`{function.name}` has {len(formal)} {what}, the call gives {len(actual)}"
                )
        scope = Scope(built.bank, built.globals)
        mark = built.local.end
        inner = Reader(built, scope)
        for declaration, value in zip(function.parameters, call.arguments, strict=True):
            self.bind(declaration, value, scope, reader, is_result=False)
        for declaration, value in zip(function.results, call.results, strict=True):
            self.bind(declaration, value, scope, reader, is_result=True)
        place, text, returns = built.place, built.text, built.returns
        built.returns = behind
        self.inside.append(function.name)
        self.block(function.body, scope)
        self.inside.pop()
        built.returns = returns
        built.here(behind)
        built.place, built.text = place, text
        for declaration, value in zip(function.results, call.results, strict=True):
            self.fetch(declaration, value, inner, reader)
        built.local.end = mark

    def bind(
        self, formal: Declaration, actual: Scalar, scope: Scope, reader: Reader, is_result: bool
    ) -> None:
        """Give a parameter its value: a `.param` variable is passed on as it is."""
        built = self.built
        variable = self.variable(actual, reader)
        if formal.space == "param":
            size = size_of(formal)
            if variable is not None:
                if variable.size < size:
                    raise Refusal(f"`{formal.name}` has {size} bytes, got {variable.size}")
                scope.define(formal.name, variable)
                return
            memory = built.allocate(size, align_of(formal))
            scope.define(formal.name, memory)
            if not is_result:
                type_ = _type(formal)
                value = self.value(actual, type_, reader)
                built.emit(Op.ST, _address(memory), value, type=type_, space=Space.LOCAL)
            return
        type_ = _type(formal)
        scope.declare(formal.name, None, type_)
        if is_result:
            return
        register = scope.find(formal.name)
        assert isinstance(register, Register)
        target = Operand(Kind.REGISTER, register.slot)
        if variable is not None:
            built.emit(Op.LD, target, _address(variable), type=type_, space=Space.LOCAL)
        else:
            built.emit(Op.MOV, target, self.value(actual, type_, reader), type=type_)

    def fetch(self, formal: Declaration, actual: Scalar, inner: Reader, reader: Reader) -> None:
        """Bring a result to where the call wants it."""
        built = self.built
        variable = self.variable(actual, reader)
        own = inner.scope.find(formal.name)
        if isinstance(own, Memory):
            if variable is None and not _sunk(actual):
                type_ = _type(formal)
                target = self.target(actual, type_, reader)
                built.emit(Op.LD, target, _address(own), type=type_, space=Space.LOCAL)
            return
        assert isinstance(own, Register)
        type_ = _type(formal)
        source = Operand(Kind.REGISTER, own.slot)
        if variable is not None:
            built.emit(Op.ST, _address(variable), source, type=type_, space=Space.LOCAL)
        elif not _sunk(actual):
            target = self.target(actual, type_, reader)
            built.emit(Op.MOV, target, source, type=type_)

    def variable(self, actual: Scalar, reader: Reader) -> Memory | None:
        if not isinstance(actual, Symbol) or _sunk(actual):
            return None
        entity = reader.scope.find(actual.name)
        if isinstance(entity, Memory):
            if entity.space is not Space.LOCAL or entity.address is None:
                raise Refusal(f"`{actual.name}` is no .param variable of a call")
            return Memory(entity.space, entity.address + actual.offset, entity.size)
        return None

    def value(self, actual: Scalar, type_: Type, reader: Reader) -> Operand:
        if isinstance(actual, Literal | Real):
            return Operand(Kind.IMMEDIATE, value=constant(actual, type_))
        return self.target(actual, type_, reader)

    def target(self, actual: Scalar, type_: Type, reader: Reader) -> Operand:
        register = reader.look(actual.name) if isinstance(actual, Symbol) else None
        if not isinstance(register, Register) or WIDTH[register.type] != WIDTH[type_]:
            raise Refusal(f"a call passes a register of type .{type_.name.lower()} here")
        return Operand(Kind.REGISTER, register.slot)

    def runtime(self, call: Call, function: Function, reader: Reader) -> None:
        """`vprintf` and `__assertfail`; nothing else is known without a body."""
        built = self.built
        if function.name == "vprintf" and len(call.arguments) == 2:
            arguments = self.fetched(call, _PRINT, reader)
            result = Operand(Kind.SINK)
            if call.results and not _sunk(call.results[0]):
                result = built.fresh("vprintf", Type.B32)
            built.emit(Op.PRINTF, result, *arguments)
            if result.kind is Kind.REGISTER:
                variable = self.variable(call.results[0], reader)
                if variable is not None:
                    built.emit(
                        *(Op.ST, _address(variable), result), type=Type.B32, space=Space.LOCAL
                    )
                else:
                    target = self.target(call.results[0], Type.B32, reader)
                    built.emit(Op.MOV, target, result, type=Type.B32)
        elif function.name == "__assertfail" and len(call.arguments) == 5:
            built.emit(Op.ASSERT, *self.fetched(call, _ASSERT, reader))
        else:
            raise Refusal(
                f"`{function.name}` has no body in this text; only vprintf and __assertfail "
                "are known without one"
            )

    def fetched(self, call: Call, types: tuple[Type, ...], reader: Reader) -> list[Operand]:
        """The arguments of a runtime function, in registers."""
        found = []
        for actual, type_ in zip(call.arguments, types, strict=True):
            variable = self.variable(actual, reader)
            if variable is None:
                found.append(self.value(actual, type_, reader))
                continue
            register = self.built.fresh(_name(actual), type_)
            self.built.emit(Op.LD, register, _address(variable), type=type_, space=Space.LOCAL)
            found.append(register)
        return found


def _type(declaration: Declaration) -> Type:
    """The type by which a scalar parameter is passed."""
    if declaration.dimensions or declaration.vector > 1:
        raise Refusal(f"`{declaration.name}` is an array: pass it as a .param variable")
    return Type[declaration.type.upper()]


def _address(memory: Memory) -> Operand:
    assert memory.address is not None
    return Operand(Kind.ADDRESS, value=memory.address)


def _sunk(actual: Scalar) -> bool:
    return isinstance(actual, Symbol) and actual.name == "_"


def _name(actual: Scalar) -> str:
    return actual.name if isinstance(actual, Symbol) else "argument"
