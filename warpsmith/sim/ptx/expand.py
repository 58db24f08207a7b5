"""A kernel's body, its calls put in place, as a list of instructions.

Every scope gives its names new registers, labels and local memory, so that a function that is
called twice stands there twice and shares nothing.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.sim.isa import Kind, Op, Type
from warpsmith.sim.program import Instruction, Meaning, Operand
from warpsmith.sim.ptx.building import Builder
from warpsmith.sim.ptx.calls import Calls
from warpsmith.sim.ptx.declare import SIZES
from warpsmith.sim.ptx.decode import Form, find
from warpsmith.sim.ptx.layout import Layout, align_of, size_of
from warpsmith.sim.ptx.names import Register, Scope, Target, Targets
from warpsmith.sim.ptx.numbers import SIGNED, WIDTH
from warpsmith.sim.ptx.operands import Reader
from warpsmith.sim.ptx.refusal import Refusal, refuse
from warpsmith.sim.ptx.syntax import (
    Block,
    Call,
    Declaration,
    Label,
    Module,
    Registers,
    Statement,
    TargetList,
)

_MOST = 2_000_000  # instructions of a program
_DEEPEST = 200  # scopes within scopes, those of calls included
_REGISTERS = frozenset((*SIZES, "pred")) - {"texref", "surfref", "samplerref"}


class Expansion(Builder):
    """Walks the blocks of a program that is under construction, and of the functions it calls."""

    def __init__(self, module: Module, globals_: Scope, layout: Layout) -> None:
        super().__init__(module, globals_, layout)
        self.calls = Calls(self, self.block)
        self.depth = 0

    def block(self, block: Block, parent: Scope) -> None:
        """One scope. Labels can be used before they stand, all other names only behind."""
        scope = Scope(self.bank, parent)
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Refusal(f"more than {_DEEPEST} scopes within scopes")
        mark = self.local.end
        for item in block.items:
            if isinstance(item, Label):
                if item.name in scope.known:
                    refuse(item.line, f"label `{item.name}` stands twice in one scope")
                scope.define(item.name, Target(self.label()))
            elif isinstance(item, TargetList):
                scope.define(item.name, Targets(item))
        reader = Reader(self, scope)
        for item in block.items:
            if isinstance(item, Statement):
                self.statement(item, reader)
            elif isinstance(item, Label):
                target = scope.known[item.name]
                assert isinstance(target, Target)
                self.here(target.number)
            elif isinstance(item, Registers):
                self.registers(item, scope)
                reader.known.clear()  # a name of an outer scope may have been looked up before
            elif isinstance(item, Declaration):
                self.declaration(item, scope)
                reader.known.clear()
            elif isinstance(item, Call):
                self.at(item.line, item.location, item.text)
                try:
                    self.calls.call(item, reader)
                except Refusal as refusal:
                    refuse(item.line, str(refusal))
            elif isinstance(item, Block):
                self.block(item, scope)
        self.local.end = mark
        self.depth -= 1

    def registers(self, item: Registers, scope: Scope) -> None:
        if item.type not in _REGISTERS:
            refuse(item.line, f"registers of type `.{item.type}` are not supported")
        type_ = Type[item.type.upper()]
        for name, count in item.names:
            scope.declare(name, count, type_)

    def declaration(self, item: Declaration, scope: Scope) -> None:
        if item.space in ("local", "param"):
            try:
                scope.define(item.name, self.allocate(size_of(item), align_of(item)))
            except Refusal as refusal:
                refuse(item.line, f"`{item.name}`: {refusal}")
        else:
            scope.define(item.name, self.layout.static(item))

    def statement(self, statement: Statement, reader: Reader) -> None:
        self.at(statement.line, statement.location, statement.text)
        try:
            form = find(statement.mnemonic, statement.shape)
            self.instruction(form, statement, reader)
        except Refusal as refusal:
            refuse(statement.line, str(refusal))
        if len(self.instructions) > _MOST:
            refuse(statement.line, f"calls expand to more than {_MOST} instructions")

    def instruction(self, form: Form, statement: Statement, reader: Reader) -> None:
        guard = None if statement.guard is None else reader.predicate(statement.guard)
        self.guard = guard
        if form.op is Op.EXIT and statement.mnemonic.startswith("ret") and self.returns is not None:
            self.emit(Op.BRA, guard=guard, target=self.returns)
            return
        read = reader.operands(form, statement.arguments, statement.mnemonic)
        operands, groups = read.operands, read.groups
        if form.type is Type.B128 and form.op in (Op.MOV, Op.PACK, Op.UNPACK):
            self.halves(operands, groups)
            return
        does: Meaning = form
        if form.op is Op.WGMMA:
            self.complete(form, operands, groups)
        elif form.op is Op.CVT and read.wider:
            does = replace(form, vector=WIDTH[read.wider[0].type] // 8)
        if read.changes:
            does = replace(does, **read.changes)
        self.instructions.append(
            Instruction(
                does=does,
                place=self.place,
                guard=guard,
                operands=tuple(operands),
                groups=tuple(groups),
                target=read.target,
                targets=read.targets,
                text=self.text,
            )
        )
        if form.op is Op.LD and form.type in SIGNED:
            for register in read.wider:
                self.extend(form, register)

    def extend(self, form: Form, register: Register) -> None:
        """`ld.s8` into a wider register: the sign goes to all of its bits."""
        operand = Operand(Kind.REGISTER, register.slot)
        size = WIDTH[register.type]
        wide = {16: Type.S16, 32: Type.S32, 64: Type.S64}[size]
        self.emit(
            *(Op.CVT, operand, operand),
            type=wide,
            type2=form.type,
            guard=self.guard,
        )

    def halves(self, operands: list[Operand], groups: list[int]) -> None:
        """A move of 128 bits, as one of each half."""
        outs, ins = operands[: groups[0]], operands[groups[0] :]
        for half in (0, 1):
            to = outs[half * len(outs) // 2 : (half + 1) * len(outs) // 2]
            of = ins[half * len(ins) // 2 : (half + 1) * len(ins) // 2]
            op = Op.PACK if len(of) > 1 else Op.UNPACK if len(to) > 1 else Op.MOV
            self.instructions.append(
                Instruction(
                    does=Meaning(op=op, type=Type.B64),
                    place=self.place,
                    guard=self.guard,
                    operands=(*to, *of),
                    groups=(len(to), len(of)),
                    text=self.text,
                )
            )

    def complete(self, form: Form, operands: list[Operand], groups: list[int]) -> None:
        """The scales and transpositions that some forms of `wgmma` leave out, or one of them."""
        one, no = Operand(Kind.IMMEDIATE, value=1), Operand(Kind.IMMEDIATE, value=0)
        if len(groups) == 4:
            operands += [one, one]
            groups += [1, 1]
        elif len(groups) == 7:  # A in registers cannot be transposed
            operands.insert(-1, no)
            groups.append(1)
