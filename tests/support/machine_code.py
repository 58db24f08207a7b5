"""Machine code as lines, and as a graph: blocks, and which branches decide on them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import pytest

from warpsmith.errors import CompileError, DeviceError
from warpsmith.runtime.sass import disassemble

_CODE = re.compile(r"(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\(([^)]+)\)")
_JUMPS = ("BRA", "JMP", "BRX", "JMX")
_ENDS = ("EXIT", "RET", "KILL")


def machine_lines(cubin: bytes, entry: str = "k") -> tuple[str, ...]:
    """Instructions and labels of a kernel, without addresses and encodings.

    The test is skipped where nothing can disassemble it.
    """
    try:
        text = disassemble(cubin)
    except DeviceError as error:
        pytest.skip(str(error))
    lines = (re.sub(r"/\*.*?\*/", "", line).strip() for line in text.splitlines())
    body = [line for line in lines if line and line != ";"]
    return tuple(body[body.index(f".text.{entry}:") :])


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as nvdisasm prints it.

    Attributes:
        guard: the predicate that it is executed under, with `!` where negated; empty if always.
        opcode: with its modifiers, such as `UTMASTG.2D`.
        operands: without `.reuse`.
    """

    guard: str
    opcode: str
    operands: tuple[str, ...]

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".")[0]

    @property
    def target(self) -> str:
        """The label that a branch or a call names; empty if none."""
        found = _TARGET.search(self.operands[-1]) if self.operands else None
        return found[1] if found else ""

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".strip()


@dataclass(frozen=True)
class Code:
    """The instructions of a kernel, with labels by the place of the instruction behind them."""

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]

    @cached_property
    def blocks(self) -> tuple[range, ...]:
        """Runs of instructions that are entered at their start and left at their end."""
        starts = {0, *self.labels.values()}
        for place, instruction in enumerate(self.instructions):
            if instruction.name in (*_JUMPS, *_ENDS):
                starts.add(place + 1)
        bounds = [*sorted(s for s in starts if s < len(self.instructions)), len(self.instructions)]
        return tuple(range(a, b) for a, b in pairwise(bounds))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that may follow each block; the kernel's end is number `len(blocks)`."""
        numbers = {block.start: number for number, block in enumerate(self.blocks)}
        end = len(self.blocks)
        numbers[len(self.instructions)] = end
        return tuple(
            self._after(self.instructions[block[-1]], number + 1, numbers, end)
            for number, block in enumerate(self.blocks)
        )

    def _after(
        self, last: Instruction, behind: int, numbers: Mapping[int, int], end: int
    ) -> tuple[int, ...]:
        if last.name in _ENDS:
            return (behind, end) if last.guard else (end,)
        if last.name not in _JUMPS:
            return (behind,)
        to = [self.labels[last.target]] if last.target else sorted(set(self.labels.values()))
        found = tuple(numbers[place] for place in to)
        always = not last.guard and len(last.operands) == 1
        return found if always else tuple(dict.fromkeys((behind, *found)))

    @cached_property
    def deciders(self) -> tuple[frozenset[int], ...]:
        """Blocks whose last instruction decides whether each block is executed (again)."""
        after = self._postdominators
        found: list[set[int]] = [set() for _ in self.blocks]
        for number, following in enumerate(self.successors):
            if len(following) < 2:
                continue
            for successor in following:
                for block in after[successor]:
                    if block < len(self.blocks) and (block == number or block not in after[number]):
                        found[block].add(number)
        return tuple(map(frozenset, found))

    @cached_property
    def _postdominators(self) -> tuple[frozenset[int], ...]:
        """Blocks that every way from each block to the end goes through, itself among them."""
        end = len(self.blocks)
        everything = frozenset(range(end + 1))
        after = [everything] * end + [frozenset((end,))]
        changed = True
        while changed:
            changed = False
            for number in reversed(range(end)):
                ways = [after[s] for s in self.successors[number]]
                found = frozenset.intersection(*ways) | {number}
                changed |= found != after[number]
                after[number] = found
        return tuple(after)


def parsed(sass: str) -> Code:
    """The first kernel in machine code that `disassemble` printed.

    Raises CompileError where there is none.
    """
    _, found, text = sass.partition("\n.text.")
    if not found:
        raise CompileError("there is no kernel in this machine code")
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in _bare(text.partition("\n.section")[0].splitlines()[1:]):
        if label := re.fullmatch(r"([.$\w]+):", line):
            labels[label[1]] = len(instructions)
        elif code := _CODE.fullmatch(line):
            operands = code[3].replace(".reuse", "")
            split = tuple(operand.strip() for operand in operands.split(",") if operand.strip())
            instructions.append(Instruction(code[1] or "", code[2], split))
    return Code(tuple(instructions), labels)


def _bare(lines: Sequence[str]) -> list[str]:
    """The lines without addresses and encodings."""
    return [re.sub(r"/\*.*?\*/", "", line).strip() for line in lines]
