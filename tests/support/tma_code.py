"""Who issues copies of the TMA unit in machine code: whole warps, elected lanes, or any lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from tests.support.machine_code import Code, Instruction, parsed

_COPY = re.compile(r"U(?:TMA(?:LDG|STG|REDG|PF)|BLK(?:CP|RED|PF))(?:\.|$)")
_REGISTER = re.compile(r"(?<![\w])(?:R(\d+)|P(\d))\b")
_PREDICATE = re.compile(r"P[\dT]")
_FIRST_PREDICATE = 256

_EQUAL_SOURCES = re.compile(r"SR_(?:CTAID|NCTAID|Cga|VIRTUAL|GRIDID|SMEMSZ|NTID)|SRZ")
_LOADS = ("LD", "LDG", "LDS", "LDL", "LDSM", "ATOM", "ATOMG", "ATOMS", "TEX", "TLD", "P2R")
_PRODUCTS = ("HGMMA", "IGMMA", "QGMMA")
_ANSWERS = ("VOTE", "VOTEU", "REDUX", "B2R")
_NO_RESULT = ("BAR", "BRA", "BRX", "BSSY", "BSYNC", "BREAK", "DEPBAR", "NANOSLEEP", "WARPSYNC")


class Lanes(IntEnum):
    """Between which lanes of a warp a value differs, or which of them come to an instruction.

    WARP: it is equal in all; all come, or none.
    ELECTED: it may differ between the lane that `elect.sync` chose and the others.
    SOME: it may differ between any, as far as is known here.
    """

    WARP = 0
    ELECTED = 1
    SOME = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An instruction that asks the TMA unit for a copy.

    Attributes:
        instruction: as text, with its predicate.
        lanes: that come to it, by its predicate and by all branches that decide on it.
        region: it stands between BSSY and BSYNC, where lanes that have parted meet again.
    """

    instruction: str
    lanes: Lanes
    region: bool

    @property
    def is_uniform(self) -> bool:
        """A warp, or a lane that is alone for good, issues it once, straight on."""
        return self.lanes is not Lanes.SOME and not self.region


def tma_predicates(sass: str) -> tuple[Issue, ...]:
    """Each copy of the TMA unit in machine code that `disassemble` printed, in its order.

    What lanes agree on is derived from special registers, shuffles from one lane, votes and
    elections, through all that is computed from them. What is loaded counts as different in each.

    Raises CompileError where the text holds no kernel.
    """
    code = parsed(sass)
    flow = _Flow(code)
    found = []
    for number, block in enumerate(code.blocks):
        state, region = flow.states[number], flow.regions[number]
        for place in block if state is not None else ():
            instruction = code.instructions[place]
            assert state is not None
            if _COPY.match(instruction.opcode):
                lanes = max(flow.control[number], state.of(instruction.guard))
                found.append(Issue(instruction=str(instruction), lanes=lanes, region=bool(region)))
            state = flow.after(instruction, state, flow.control[number])
            region = _regions(instruction, region)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _State:
    """Registers whose values differ between lanes, as bits; predicates from bit 256 on."""

    apart: int = 0
    some: int = 0

    def of(self, text: str) -> Lanes:
        """The widest difference among registers in a text; uniform ones have none."""
        mask = sum({1 << place for place in _places(text)})
        if self.some & mask:
            return Lanes.SOME
        return Lanes.ELECTED if self.apart & mask else Lanes.WARP

    def given(self, mask: int, lanes: Lanes) -> _State:
        apart = self.apart & ~mask | (mask if lanes > Lanes.WARP else 0)
        return _State(apart, self.some & ~mask | (mask if lanes > Lanes.ELECTED else 0))

    def joined(self, other: _State) -> _State:
        return _State(self.apart | other.apart, self.some | other.some)


class _Flow:
    """What holds where each block begins.

    Attributes:
        states: None where a block is never reached.
        control: which lanes come to a block.
        regions: open barriers of BSSY, as bits.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self.control = [Lanes.WARP] * len(code.blocks)
        self.states: list[_State | None] = []
        before: list[Lanes] = []
        while before != self.control:
            before = list(self.control)
            self.states = self._values()
            self.control = self._controls()
        self.regions = self._open_regions()

    def after(self, instruction: Instruction, state: _State, control: Lanes) -> _State:
        """The state behind an instruction."""
        if instruction.name == "CALL":
            return state.given(self._clobbered(instruction), Lanes.SOME)
        mask = sum({1 << place for place in _results(instruction)})
        if not mask:
            return state
        lanes = max(control, _difference(instruction, state))
        if instruction.guard:
            lanes = max(lanes, state.of(instruction.guard))
            return state.joined(_State().given(mask, lanes))
        return state.given(mask, lanes)

    def _values(self) -> list[_State | None]:
        code = self._code
        states: list[_State | None] = [None] * len(code.blocks)
        states[0] = _State()
        pending = [0]
        while pending:
            number = pending.pop()
            state = states[number]
            assert state is not None
            for place in code.blocks[number]:
                state = self.after(code.instructions[place], state, self.control[number])
            for successor in code.successors[number]:
                if successor == len(code.blocks):
                    continue
                known = states[successor]
                joined = state if known is None else known.joined(state)
                if joined != known:
                    states[successor] = joined
                    pending.append(successor)
        return states

    def _controls(self) -> list[Lanes]:
        """Lanes that come to each block: those that the branches let pass that decide on it."""
        branches = [self._branching(number) for number in range(len(self._code.blocks))]
        control = list(self.control)
        changed = True
        while changed:
            changed = False
            for number, deciders in enumerate(self._code.deciders):
                wanted = max([control[number], *(max(branches[d], control[d]) for d in deciders)])
                changed |= wanted != control[number]
                control[number] = wanted
        return control

    def _branching(self, number: int) -> Lanes:
        """Between which lanes the branch at the end of a block tells."""
        state = self.states[number]
        if state is None:
            return Lanes.WARP
        block = self._code.blocks[number]
        for place in block[:-1]:
            state = self.after(self._code.instructions[place], state, self.control[number])
        last = self._code.instructions[block[-1]]
        jumps = "" if "DIV" in last.opcode else " ".join(last.operands[:-1])
        return max(state.of(last.guard), state.of(jumps))

    def _open_regions(self) -> list[int]:
        code = self._code
        regions = [0] * len(code.blocks)
        pending = list(range(len(code.blocks)))
        while pending:
            number = pending.pop()
            bits = regions[number] if self.states[number] is not None else 0
            for place in code.blocks[number]:
                bits = _regions(code.instructions[place], bits)
            for successor in code.successors[number]:
                if successor < len(code.blocks) and bits & ~regions[successor]:
                    regions[successor] |= bits
                    pending.append(successor)
        return regions

    def _clobbered(self, call: Instruction) -> int:
        """Registers that a called function may write: those written behind its label."""
        start = self._code.labels.get(call.target, 0)
        rest = self._code.instructions[start:]
        return sum({1 << place for instruction in rest for place in _results(instruction)})


def _regions(instruction: Instruction, bits: int) -> int:
    """Open barriers behind an instruction."""
    if instruction.name not in ("BSSY", "BSYNC"):
        return bits
    bit = 1 << int(re.sub(r"\D", "", instruction.operands[0]))
    return bits | bit if instruction.name == "BSSY" else bits & ~bit


def _difference(instruction: Instruction, state: _State) -> Lanes:
    """Between which lanes a result differs, by the instruction and what it reads."""
    name, operands = instruction.name, instruction.operands
    if name == "ELECT":
        return Lanes.ELECTED
    if name in _ANSWERS:
        return Lanes.WARP
    if name in ("S2R", "CS2R"):
        return Lanes.WARP if _EQUAL_SOURCES.match(operands[-1]) else Lanes.SOME
    if name == "SHFL":
        from_one = instruction.opcode == "SHFL.IDX" and not re.match(r"R\d", operands[3])
        return Lanes.WARP if from_one else Lanes.SOME
    if name in (*_LOADS, *_PRODUCTS):
        return Lanes.SOME
    return state.of(" ".join(operands[len(_result_operands(instruction)) :]))


def _result_operands(instruction: Instruction) -> tuple[str, ...]:
    """The operands that are written: the first one, and predicates or a register behind it."""
    name, operands = instruction.name, instruction.operands
    if not operands or name in _NO_RESULT or not re.match(r"U?[RP][\dZT]", operands[0]):
        return ()
    rest = operands[1:]
    if name in ("SHFL", "LOP3") and _PREDICATE.fullmatch(operands[0]):
        return operands[:2]
    if name in ("VOTE", "VOTEU", "ELECT"):
        return operands[:1]
    more = 2 if name == "IADD3" else 1
    count = 0
    while count < min(more, len(rest)) and re.fullmatch(r"U?P[\dT]", rest[count]):
        count += 1
    return operands[: 1 + count]


def _results(instruction: Instruction) -> Iterator[int]:
    """Places of the registers that are written."""
    for operand in _result_operands(instruction):
        for place in _places(operand):
            width = 1 if place >= _FIRST_PREDICATE else _width(instruction)
            yield from range(place, place + width)


def _width(instruction: Instruction) -> int:
    """Registers of a result, which its name tells."""
    name, modifiers = instruction.name, instruction.opcode.split(".")[1:]
    if name in _PRODUCTS:
        return 128
    if "128" in modifiers or name == "LDSM":
        return 4
    wide = {"64", "WIDE"} & set(modifiers) or name in ("DADD", "DMUL", "DFMA", "MUFU64")
    return 2 if wide or (name == "CS2R" and "32" not in modifiers) else 1


def _places(text: str) -> Iterator[int]:
    """Registers and predicates that differ between lanes at all, as bits of a state."""
    for register, predicate in _REGISTER.findall(text):
        yield int(register) if register else _FIRST_PREDICATE + int(predicate)
