"""Where the variables of a module lie, and what is in them at the start."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from warpsmith.sim.isa import Space, Type, Window
from warpsmith.sim.program import Parameter, Variable
from warpsmith.sim.ptx.declare import SIZES
from warpsmith.sim.ptx.names import Memory, Scope
from warpsmith.sim.ptx.numbers import constant
from warpsmith.sim.ptx.refusal import Refusal, refuse
from warpsmith.sim.ptx.syntax import Declaration, Function, Initial, Literal, Symbol
from warpsmith.values import dataclass

_LARGEST: Final = 1 << 32
_LARGEST_INITIAL: Final = 1 << 28
_STARTS = {"global": int(Window.MODULE), "const": int(Window.CONST)}


@dataclass(slots=True)
class Area:
    """Grows as variables are put into it."""

    end: int = 0

    def place(self, size: int, align: int) -> int:
        """The address of a new variable."""
        start = -(-self.end // align) * align
        self.end = start + size
        return start


@dataclass(slots=True)
class Layout:
    """The memory of one program: an area for each state space, and the variables in them."""

    areas: dict[str, Area] = field(
        default_factory=lambda: {
            "global": Area(),
            "const": Area(),
            "shared": Area(int(Window.SHARED_START)),
        }
    )
    variables: list[Variable] = field(default_factory=list)
    placed: dict[int, Memory] = field(default_factory=dict)
    pending: list[tuple[Declaration, int]] = field(default_factory=list)

    def static(self, declaration: Declaration) -> Memory:
        """A `.global`, `.const` or `.shared` variable: one place, however often it is met."""
        known = self.placed.get(id(declaration))
        if known is not None:
            return known
        space = {"global": Space.GLOBAL, "const": Space.CONST, "shared": Space.SHARED}[
            declaration.space
        ]
        size = size_of(declaration)
        if declaration.external:
            memory = Memory(space, None, size)
        else:
            start = self.areas[declaration.space].place(size, align_of(declaration))
            if start + size > _LARGEST:
                refuse(declaration.line, f"`{declaration.name}` is larger than the memory there is")
            memory = Memory(space, _STARTS.get(declaration.space, 0) + start, size)
            self.pending.append((declaration, len(self.variables)))
            self.variables.append(
                Variable(
                    name=declaration.name,
                    space=space,
                    address=_STARTS.get(declaration.space, 0) + start,
                    size=size,
                )
            )
        self.placed[id(declaration)] = memory
        return memory

    def dynamic(self, declarations: list[Declaration]) -> int | None:
        """Put the `.extern .shared` arrays behind the static ones, all at one place: where?"""
        if not declarations:
            return None
        align = max(align_of(declaration) for declaration in declarations)
        start = -(-self.areas["shared"].end // align) * align
        for declaration in declarations:
            self.placed[id(declaration)] = Memory(Space.SHARED, start, 0)
        return start

    def initialize(self, scope: Scope) -> None:
        """Fill in what the declarations say, once all variables have addresses."""
        for declaration, index in self.pending:
            if declaration.initial is None and declaration.text is None:
                continue
            old = self.variables[index]
            self.variables[index] = Variable(
                name=old.name,
                space=old.space,
                address=old.address,
                size=old.size,
                initial=_initial(declaration, old.size, scope),
            )
        self.pending.clear()


def elements(declaration: Declaration) -> int:
    """How many scalars a variable has; an open dimension counts what the initializer gives."""
    count = declaration.vector
    for size in declaration.dimensions:
        if size < 0:
            row = count * _product(declaration.dimensions[1:])
            given = len(declaration.initial or ())
            if declaration.text is not None:
                given = len(declaration.text) + 1
            return -(-given // max(row, 1)) * row
    return count * _product(declaration.dimensions)


def _product(sizes: tuple[int, ...]) -> int:
    product = 1
    for size in sizes:
        product *= max(size, 0)
    return product


def size_of(declaration: Declaration) -> int:
    """Bytes of a variable."""
    if declaration.type not in SIZES:
        refuse(declaration.line, f"`{declaration.name}`: .{declaration.type} is not for memory")
    return elements(declaration) * SIZES[declaration.type]


def align_of(declaration: Declaration) -> int:
    """The alignment of a variable: what it asks for, or that of its type."""
    natural = SIZES.get(declaration.type, 1) * declaration.vector
    return max(declaration.align, natural)


def parameters_of(function: Function) -> tuple[Parameter, ...]:
    """The parameters of an entry, at the offsets of the parameter buffer."""
    area = Area()
    found = []
    for declaration in function.parameters:
        size, align = size_of(declaration), align_of(declaration)
        if declaration.space != "param":
            refuse(declaration.line, f"`{declaration.name}`: a kernel takes .param parameters")
        found.append(
            Parameter(
                name=declaration.name,
                offset=area.place(size, align),
                size=size,
                align=align,
                type=_type(declaration),
                is_array=bool(declaration.dimensions),
            )
        )
    return tuple(found)


def _type(declaration: Declaration) -> Type:
    return Type.__members__.get(declaration.type.upper(), Type.B64)


def _initial(declaration: Declaration, size: int, scope: Scope) -> bytes:
    width = SIZES[declaration.type]
    type_ = _type(declaration)
    scalars = declaration.initial or ()
    if size > _LARGEST_INITIAL:
        refuse(declaration.line, f"`{declaration.name}` has initial values and {size} bytes")
    if declaration.text is not None:
        return declaration.text[:size].ljust(size, b"\0")
    if len(scalars) * width > max(size, width):
        refuse(declaration.line, f"`{declaration.name}` has more initial values than elements")
    content = bytearray()
    for scalar in scalars:
        try:
            value = _scalar(scalar, type_, scope)
        except Refusal as refusal:
            refuse(declaration.line, f"`{declaration.name}`: {refusal}")
        content += (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(content).ljust(size, b"\0")


def _scalar(scalar: Initial, type_: Type, scope: Scope) -> int:
    value = scalar.value
    if not isinstance(value, Symbol):
        if isinstance(value, Literal) or not scalar.masked:
            return constant(value, type_)
        raise Refusal("a mask takes an address")
    entity = scope.find(value.name)
    if isinstance(entity, Function):
        return 0  # calls through it are refused
    if not isinstance(entity, Memory):
        raise Refusal(f"unknown name `{value.name}`")
    if entity.address is None:
        raise Refusal(f"`{value.name}` is declared here and defined elsewhere")
    address = entity.address + value.offset
    return address >> scalar.shift & 0xFF if scalar.masked else address
