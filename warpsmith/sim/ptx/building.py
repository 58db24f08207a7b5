"""The program that PTX becomes, instruction by instruction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from warpsmith.sim.isa import Kind, Op, Space, Type
from warpsmith.sim.program import Instruction, Meaning, Operand, Place
from warpsmith.sim.ptx.layout import Area, Layout
from warpsmith.sim.ptx.names import Bank, Memory, Scope
from warpsmith.sim.ptx.refusal import Refusal
from warpsmith.sim.ptx.syntax import Location, Module

_MOST_LOCAL = 512 << 10  # bytes a thread, by the CUDA programming guide


class Builder:
    """The program under construction.

    `labels` has the index of the instruction that each label stands before. Until `finished`,
    `target` of an instruction is the number of a label.
    """

    def __init__(self, module: Module, globals_: Scope, layout: Layout) -> None:
        self.module = module
        self.globals = globals_
        self.bank: Bank = globals_.bank
        self.layout = layout
        self.local = Area()
        self.local_bytes = 0
        self.instructions: list[Instruction] = []
        self.labels: list[int] = []
        self.place = Place(line=0)
        self.text = ""
        self.guard: Operand | None = None
        self.returns: int | None = None  # the label behind the call that is being put in place

    def emit(
        self,
        op: Op,
        *operands: Operand,
        guard: Operand | None = None,
        target: int = -1,
        **fields: Any,
    ) -> None:
        """An instruction that PTX does not spell out, at the place of the present one."""
        self.instructions.append(
            Instruction(
                does=Meaning(op=op, **fields),
                place=self.place,
                guard=guard,
                operands=operands,
                groups=(1,) * len(operands),
                target=target,
                text=self.text,
            )
        )

    def fresh(self, name: str, type_: Type) -> Operand:
        """A register of its own."""
        return Operand(Kind.REGISTER, self.bank.take(name, type_).slot)

    def label(self) -> int:
        self.labels.append(-1)
        return len(self.labels) - 1

    def here(self, label: int) -> None:
        self.labels[label] = len(self.instructions)

    def allocate(self, size: int, align: int) -> Memory:
        """Local memory until the end of the scope."""
        start = self.local.place(size, align)
        self.local_bytes = max(self.local_bytes, self.local.end)
        if self.local_bytes > _MOST_LOCAL:
            raise Refusal(f"more than {_MOST_LOCAL} bytes of local memory a thread")
        return Memory(Space.LOCAL, start, size)

    def at(self, line: int, location: Location | None, text: str) -> None:
        self.text = text
        if location is None:
            self.place = Place(line=line)
        else:
            files = self.module.files
            name = files.get(location.file, "")
            number, caller_line = location.caller or (0, 0)
            self.place = Place(
                line=line,
                file=name,
                source_line=location.line,
                caller=f"{files.get(number, '')}:{caller_line}" if location.caller else "",
            )

    def finished(self) -> list[Instruction]:
        """The instructions, with indices for labels and an EXIT behind the last."""
        found = self.instructions
        last = found[-1] if found else None
        falls = last is None or last.op is not Op.EXIT or last.guard is not None
        if falls or len(found) in self.labels:
            self.text = "ret;"
            self.emit(Op.EXIT)
        for index, instruction in enumerate(found):
            if instruction.op is Op.BRA:
                found[index] = replace(instruction, target=self.labels[instruction.target])
            elif instruction.op is Op.BRX:
                targets = tuple(self.labels[label] for label in instruction.targets)
                found[index] = replace(instruction, targets=targets)
        return found
