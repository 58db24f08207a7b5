"""What names stand for, scope within scope."""

from __future__ import annotations

from warpsmith.sim.isa import Space, Special, Type
from warpsmith.sim.ptx.syntax import Function, TargetList
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A register: its slot and declared type."""

    slot: int
    type: Type


@dataclass(frozen=True, slots=True)
class Memory:
    """A variable or parameter; `address` is None for one that is only declared elsewhere."""

    space: Space
    address: int | None
    size: int


@dataclass(frozen=True, slots=True)
class Target:
    """A label, by its number in the program."""

    number: int


@dataclass(frozen=True, slots=True)
class Targets:
    """A list of labels for `brx.idx`."""

    list: TargetList


Entity = Register | Memory | Target | Targets | Function


class Bank:
    """Hands out register slots, and remembers the name of each."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def take(self, name: str, type_: Type) -> Register:
        slot = len(self.names)
        self.names.append(name)
        if type_ is Type.B128:
            self.names.append(name)
        return Register(slot, type_)


class Scope:
    """The names of one pair of braces; a register gets its slot when it is first looked up."""

    def __init__(self, bank: Bank, parent: Scope | None = None) -> None:
        self.bank = bank
        self.parent = parent
        self.known: dict[str, Entity] = {}
        self.declared: dict[str, Type] = {}
        self.ranges: dict[str, tuple[int, Type]] = {}

    def define(self, name: str, entity: Entity) -> None:
        self.known[name] = entity

    def declare(self, name: str, count: int | None, type_: Type) -> None:
        """A register, or `name<count>`."""
        if count is None:
            self.declared[name] = type_
        else:
            self.ranges[name] = (count, type_)

    def find(self, name: str) -> Entity | None:
        """What a name stands for here, from the inside out; None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            entity = scope.known.get(name) or scope._register(name)
            if entity is not None:
                return entity
            scope = scope.parent
        return None

    def _register(self, name: str) -> Register | None:
        type_ = self.declared.get(name)
        if type_ is None and self.ranges:
            split = len(name)
            while split > 1 and "0" <= name[split - 1] <= "9":
                split -= 1
                found = self.ranges.get(name[:split])
                digits = name[split:]
                if found and _is_index(digits, found[0]):
                    type_ = found[1]
                    break
        if type_ is None:
            return None
        register = self.bank.take(name, type_)
        self.known[name] = register
        return register


def _is_index(digits: str, count: int) -> bool:
    """Whether the digits name a register of a range."""
    if len(digits) > 9 or (digits[0] == "0" and digits != "0"):
        return False
    return int(digits) < count


def _specials() -> dict[str, tuple[Special, Type]]:
    """`%tid.x` and so on; 64-bit ones are the clocks and times."""
    found = {}
    for special in Special:
        name = special.name.lower()
        axis = name[-2:] if name[-2:] in ("_x", "_y", "_z") else ""
        if axis:
            name = f"{name[:-2]}.{axis[1]}"
        type_ = Type.U32
        if special in (Special.CLOCK64, Special.GLOBALTIMER, Special.GRIDID):
            type_ = Type.U64
        elif special is Special.IS_EXPLICIT_CLUSTER:
            type_ = Type.PRED
        found[f"%{name}"] = (special, type_)
    return found


UNSUPPORTED = ("%envreg", "%reserved_smem_offset_", "%pm", "%current_graph_exec")
"""Beginnings of special registers that have no meaning here."""

SPECIALS = _specials()
"""Special registers by their PTX name, with their type."""
