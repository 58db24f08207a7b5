"""Arguments to operands: names looked up, constants converted, types compared."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from warpsmith.sim.isa import Flag, Kind, Op, Space, Type, Window
from warpsmith.sim.program import Operand
from warpsmith.sim.ptx.building import Builder
from warpsmith.sim.ptx.decode import Form, Role, Take
from warpsmith.sim.ptx.names import (
    SPECIALS,
    UNSUPPORTED,
    Entity,
    Memory,
    Register,
    Scope,
    Target,
    Targets,
)
from warpsmith.sim.ptx.numbers import WIDTH, constant, cut
from warpsmith.sim.ptx.refusal import Refusal
from warpsmith.sim.ptx.syntax import (
    Address,
    Argument,
    Function,
    Literal,
    Pair,
    Real,
    Scalar,
    Symbol,
    TensorAddress,
    Vector,
)
from warpsmith.values import dataclass

_SINK = Operand(Kind.SINK)
_WINDOWS = {
    Space.SHARED: int(Window.SHARED),
    Space.LOCAL: int(Window.LOCAL),
    Space.PARAM: int(Window.PARAM),
}
"""What makes an address within a state space a generic one; the others are generic already."""


@dataclass(slots=True)
class Reading:
    """The operands of one instruction, its labels, and what they change about its form."""

    operands: list[Operand] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    wider: list[Register] = field(default_factory=list)
    target: int = -1
    targets: tuple[int, ...] = ()


class Reader:
    """Reads the arguments of the instructions of one scope."""

    def __init__(self, built: Builder, scope: Scope) -> None:
        self.built = built
        self.scope = scope
        self.known: dict[str, tuple[Operand, Type]] = {}

    def operands(self, form: Form, arguments: tuple[Argument, ...], mnemonic: str) -> Reading:
        """All operands, in the order of the form."""
        reading = Reading()
        operands, groups = reading.operands, reading.groups
        for roles, argument in zip(form.roles, arguments, strict=True):
            role = roles[0]
            take = role.take
            if isinstance(argument, Vector):
                self.vector(role, argument, reading, mnemonic)
            elif isinstance(argument, Pair):
                for part, symbol in zip(roles, (argument.first, argument.second), strict=True):
                    operands.append(self.destination(part, symbol, reading))
                    groups.append(1)
            elif role.type is Type.B128 and take in (Take.DESTINATION, Take.SOURCE):
                self.halves(role, argument, reading)
            elif isinstance(argument, Address):
                operands.append(self.address(form, argument.base, reading))
                groups.append(1)
            elif isinstance(argument, TensorAddress):
                operands.append(self.address(form, argument.base, reading, is_map=True))
                groups.append(1)
                self.vector(role, Vector(argument.coordinates), reading, mnemonic)
            elif take is Take.DESTINATION:
                operands.append(self.destination(role, argument, reading))
                groups.append(1)
            elif take is Take.SOURCE:
                operands.append(self.source(role, argument, form.op))
                groups.append(1)
            elif take is Take.CONSTANT:
                if not isinstance(argument, Literal):
                    raise Refusal(f"`{mnemonic}` takes a constant, got `{_shown(argument)}`")
                operands.append(Operand(Kind.IMMEDIATE, value=cut(argument.value, 64)))
                groups.append(1)
            elif take is Take.LABEL:
                self.labels(argument, reading)
        if form.op is Op.CP_ASYNC and len(arguments) > 3 and form.flags & Flag.ZERO_FILL:
            last = arguments[3]
            entity = self.scope.find(last.name) if isinstance(last, Symbol) else None
            if isinstance(entity, Register) and entity.type is Type.PRED:
                reading.changes["flags"] = form.flags | Flag.PREDICATE
        return reading

    def vector(self, role: Role, vector: Vector, reading: Reading, mnemonic: str) -> None:
        items = vector.items
        if role.length >= 0 and len(items) != role.length:
            what = "coordinates" if role.take is Take.TENSOR else "elements"
            raise Refusal(f"`{mnemonic}` takes {role.length} {what}, got {len(items)} in braces")
        if role.type is Type.NONE:  # the parts of a value that is packed or unpacked
            role = replace(role, type=_part(mnemonic, len(items)))
        for item in items:
            if role.take is Take.DESTINATION:
                reading.operands.append(self.destination(role, item, reading))
            else:
                reading.operands.append(self.source(role, item, Op.NOP))
        reading.groups.append(len(items))

    def halves(self, role: Role, argument: Argument, reading: Reading) -> None:
        """A register of 128 bits, as two operands."""
        if role.take is Take.DESTINATION:
            low = self.destination(role, argument, reading)
        else:
            low = self.source(role, argument, Op.NOP)
        high = low if low.kind is Kind.SINK else replace(low, index=low.index + 1)
        reading.operands += [low, high]
        reading.groups.append(2)

    def predicate(self, symbol: Symbol) -> Operand:
        """The predicate of a guard."""
        entity = self.look(symbol.name)
        if not isinstance(entity, Register) or entity.type is not Type.PRED:
            raise Refusal(f"`{symbol.name}` is not a predicate register")
        return Operand(Kind.REGISTER, entity.slot, negated=symbol.negated)

    def look(self, name: str) -> Entity:
        entity = self.scope.find(name)
        if entity is None:
            if name.startswith(UNSUPPORTED):
                raise Refusal(f"special register `{name}` is not supported")
            raise Refusal(f"unknown name `{name}`")
        return entity

    def destination(self, role: Role, argument: Argument, reading: Reading) -> Operand:
        if not isinstance(argument, Symbol) or argument.offset or argument.negated:
            raise Refusal(f"expected a register to write, got `{_shown(argument)}`")
        name = argument.name
        if name == "_":
            return _SINK
        known = self.known.get(name) or self.remember(name)
        if known is None:
            raise Refusal(f"`{name}` is not a register that can be written")
        operand, type_ = known
        wanted = role.type
        if type_ is not wanted:
            self.agree(name, type_, role)
            if role.loose and WIDTH[type_] > WIDTH[wanted]:
                reading.wider.append(Register(operand.index, type_))
        return operand

    def remember(self, name: str) -> tuple[Operand, Type] | None:
        """A register's operand and type; None if the name stands for something else."""
        entity = self.look(name)
        if not isinstance(entity, Register):
            return None
        known = (Operand(Kind.REGISTER, entity.slot), entity.type)
        self.known[name] = known
        return known

    def agree(self, name: str, type_: Type, role: Role) -> None:
        """A register must be as wide as its place, or wider where the instruction allows it."""
        wanted = role.type
        if wanted is Type.NONE:
            return
        width, needed = WIDTH[type_], WIDTH[wanted]
        fits = width == needed or (role.loose and width > needed)
        if not fits or (type_ is Type.PRED) != (wanted is Type.PRED):
            raise Refusal(
                f"`{name}` is a .{type_.name.lower()} register; "
                f".{wanted.name.lower()} is expected here"
            )

    def source(self, role: Role, argument: Argument, op: Op) -> Operand:
        if isinstance(argument, Symbol):
            name = argument.name
            known = self.known.get(name)
            if known is None:
                special = self.special(argument, role, op)
                if special is not None:
                    return special
                known = self.remember(name)
            if known is None:
                return self.pointer(argument, role)
            operand, type_ = known
            if type_ is not role.type:
                self.agree(name, type_, role)
            if argument.offset:
                raise Refusal(f"`{_shown(argument)}`: an offset stands only in an address")
            if argument.negated:
                if type_ is not Type.PRED:
                    raise Refusal(f"`!{name}`: only a predicate can be complemented")
                return Operand(Kind.REGISTER, operand.index, negated=True)
            return operand
        if isinstance(argument, Literal | Real):
            return Operand(Kind.IMMEDIATE, value=constant(argument, role.type))
        raise Refusal(f"expected a register or a constant, got `{_shown(argument)}`")

    def special(self, symbol: Symbol, role: Role, op: Op) -> Operand | None:
        """A special register: as it is in a MOV, through a register of its own elsewhere."""
        name = symbol.name
        if name == "WARP_SZ":
            return Operand(Kind.IMMEDIATE, value=32)
        if name == "_":
            raise Refusal("`_` stands only for something that is written")
        found = SPECIALS.get(name)
        if found is None or self.scope.find(name) is not None:
            return None
        special, type_ = found
        if type_ is not role.type and WIDTH[role.type] != 16:
            self.agree(name, type_, role)
        if op is Op.MOV:
            return Operand(Kind.SPECIAL, int(special))
        register = self.built.fresh(name, type_)
        self.built.emit(Op.MOV, register, Operand(Kind.SPECIAL, int(special)), type=type_)
        return register

    def pointer(self, symbol: Symbol, role: Role) -> Operand:
        """The address of a variable, as a constant."""
        entity = self.look(symbol.name)
        if isinstance(entity, Memory):
            own = entity.space in (Space.SHARED, Space.SHARED_CLUSTER)
            return Operand(
                Kind.OWN_SHARED if own else Kind.IMMEDIATE, value=_address(symbol, entity)
            )
        if isinstance(entity, Function):
            raise Refusal(f"`{symbol.name}`: addresses of functions are not supported")
        raise Refusal(f"`{symbol.name}` is a label and stands only in a branch")

    def address(self, form: Form, base: Scalar, reading: Reading, is_map: bool = False) -> Operand:
        """`[register+offset]`, `[variable+offset]` or `[constant]`."""
        if isinstance(base, Literal):
            return Operand(Kind.ADDRESS, value=cut(base.value, 64))
        if not isinstance(base, Symbol) or base.negated:
            raise Refusal(f"`{_shown(base)}` is no address")
        entity = self.look(base.name)
        if isinstance(entity, Memory):
            if is_map or form.space is Space.GENERIC:
                window = _WINDOWS.get(entity.space, 0)
                return Operand(Kind.ADDRESS, value=_address(base, entity) + window)
            if form.space is Space.PARAM and entity.space is Space.LOCAL:
                reading.changes["space"] = entity.space
            elif entity.space is not form.space and form.op in (Op.LD, Op.ST):
                shared = (Space.SHARED, Space.SHARED_CLUSTER)
                if not (entity.space in shared and form.space in shared):
                    got = entity.space.name.lower()
                    raise Refusal(
                        f"`{base.name}` lies in .{got}, not in .{form.space.name.lower()}"
                    )
            return Operand(Kind.ADDRESS, value=_address(base, entity))
        if isinstance(entity, Register):
            if WIDTH[entity.type] < 32 or entity.type is Type.B128:
                raise Refusal(f"`{base.name}` cannot hold an address: it has the wrong width")
            if form.space is Space.PARAM and self.built.returns is not None:
                reading.changes["space"] = Space.LOCAL
            return Operand(Kind.ADDRESS, entity.slot, cut(base.offset, 64))
        raise Refusal(f"`{base.name}` is no address")

    def labels(self, argument: Argument, reading: Reading) -> None:
        """The target of a branch, as the number of its label."""
        if not isinstance(argument, Symbol):
            raise Refusal(f"expected a label, got `{_shown(argument)}`")
        entity = self.look(argument.name)
        if isinstance(entity, Target):
            reading.target = entity.number
        elif isinstance(entity, Targets) and entity.list.targets:
            numbers = []
            for name in entity.list.targets:
                target = self.look(name)
                if not isinstance(target, Target):
                    raise Refusal(f"`{name}` in `{argument.name}` is not a label")
                numbers.append(target.number)
            reading.targets = tuple(numbers)
        else:
            raise Refusal(f"`{argument.name}` is not a label")


def _part(mnemonic: str, count: int) -> Type:
    """The type of each part of a value in `mov.b64 %rd, {%r1, %r2}`."""
    width = {"b16": 16, "b32": 32, "b64": 64, "b128": 128}[mnemonic.rpartition(".")[2]]
    parts = {8: Type.B8, 16: Type.B16, 32: Type.B32, 64: Type.B64}
    if count not in (2, 4) or width // count not in parts:
        raise Refusal(f"`{mnemonic}` takes 2 or 4 parts of at least 8 bits, got {count}")
    return parts[width // count]


def _address(symbol: Symbol, memory: Memory) -> int:
    if memory.address is None:
        raise Refusal(f"`{symbol.name}` is declared here and defined elsewhere")
    return cut(memory.address + symbol.offset, 64)


def _shown(argument: Argument) -> str:
    """An argument as PTX writes it, more or less."""
    if isinstance(argument, Symbol):
        offset = f"{argument.offset:+d}" if argument.offset else ""
        return f"{'!' * argument.negated}{argument.name}{offset}"
    if isinstance(argument, Literal):
        return str(argument.value)
    if isinstance(argument, Real):
        return f"0{'f' if argument.width == 32 else 'd'}{argument.bits:0{argument.width // 4}X}"
    if isinstance(argument, Vector):
        return "{" + ", ".join(_shown(item) for item in argument.items) + "}"
    if isinstance(argument, Pair):
        return f"{argument.first.name}|{argument.second.name}"
    return f"[{_shown(argument.base)}]"
