"""Mutants of a PTX text: each has one synchronization instruction changed.

Synchronization are barriers, fences, commits, waits and register hand-overs; of atomics, loads and
stores that acquire or release only that is taken away.

A mutant is legal PTX again and keeps the line numbers of the original. Some mutants mean the same
as the original (a barrier twice in a row, a longer wait): the tests that use them say which.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.sim.support.ptx_text import Boundary, Instruction, statements

_SYNC = re.compile(
    r"(mbarrier\.(?!pending_count)|bar\.|barrier\.|fence\.|membar\.|setmaxnreg\."
    r"|wgmma\.(fence|commit_group|wait_group)|cp\.async\.(bulk\.)?(commit_group|wait_group|wait_all)"
    r"|cp\.async\.mbarrier\.)"
)
# What can be seen by others, so that it matters on which side of it a synchronization stands.
_EFFECT = re.compile(
    r"(ld(?!\.param)|st|atom|red|cp|ldmatrix|stmatrix|wgmma|mbarrier|bar|barrier|fence|membar"
    r"|setmaxnreg|tensormap|multimem|prefetch|griddepcontrol|shfl|vote|match|redux|elect|activemask"
    r"|mapa|ldu|discard)\b"
)
_ORDERED = re.compile(
    r"(atom|red|ld|st|mbarrier\.|barrier\.cluster\.arrive).*\.(acquire|release|acq_rel)\b"
)
_PLAIN_ARRIVE = re.compile(r"mbarrier\.arrive(?!.*(expect_tx|noComplete))")
_FLOW = re.compile(r"(bra|brx|ret|exit|call|trap)\b")
_NARROWER = {".cluster": ".cta", ".gpu": ".cta", ".sys": ".gpu", ".gl": ".cta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`name` is unique in a text; `line` is that of the changed instruction.

    `neutral` says why the mutant means the same in every kernel; it is empty where it may not.
    """

    name: str
    line: int
    operator: str
    instruction: str
    description: str
    neutral: str
    text: str


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of a text, in the order of its lines."""
    sequence = statements(text)
    accumulators = frozenset(
        name
        for one in sequence
        if isinstance(one, Instruction) and one.opcode.startswith("wgmma.mma_async")
        for name in one.writes
    )
    counts: dict[tuple[int, str], int] = {}
    for position, one in enumerate(sequence):
        if isinstance(one, Boundary):
            continue
        changes = [*_relaxed(text, one)]
        if _SYNC.match(one.opcode):
            changes += _replaced(text, one)
            changes += _moved(text, sequence, position, accumulators)
        for operator, description, changed in changes:
            again = counts[one.line, operator] = counts.get((one.line, operator), 0) + 1
            yield Mutant(
                name=f"{one.line}:{one.opcode}:{operator}" + (f":{again}" if again > 1 else ""),
                line=one.line,
                operator=operator,
                instruction=" ".join(text[one.start : one.end].split()),
                description=description,
                neutral=_neutral(operator, one),
                text=changed,
            )


def _neutral(operator: str, one: Instruction) -> str:
    if operator in ("pending-1", "full"):
        return "it waits for more than it has to"
    if operator != "duplicated":
        return ""
    if one.opcode.startswith(("fence", "membar", "wgmma.fence")):
        return "a fence twice in a row orders the same"
    if re.search(r"wait_(group|all)|(test|try)_wait", one.opcode):
        return "a wait that has succeeded succeeds again"
    if one.opcode.startswith("setmaxnreg"):
        return "the number is the same"
    if one.opcode.startswith("bar.warp.sync"):
        return "the lanes meet twice"
    return ""


Change = tuple[str, str, str]  # the operator, a description, the changed text


def _replaced(text: str, one: Instruction) -> Iterator[Change]:
    """Other text in the place of the instruction."""
    original = text[one.start : one.end]
    for operator, description, new in _variants(one, original):
        changed = text[: one.start] + new + text[one.end :]
        yield operator, f"line {one.line}: {description}", changed


def _relaxed(text: str, one: Instruction) -> Iterator[Change]:
    """An access or an arrival that orders nothing else."""
    if _ORDERED.match(one.opcode):
        opcode = re.sub(r"\.(acquire|release|acq_rel)\b", ".relaxed", one.opcode)
        new = text[one.start : one.end].replace(one.opcode, opcode, 1)
        changed = text[: one.start] + new + text[one.end :]
        yield "relaxed", f"line {one.line}: `{one.opcode}` relaxed", changed


def _variants(one: Instruction, original: str) -> Iterator[Change]:
    yield "deleted", f"`{one.opcode}` deleted", _without(one, original)
    yield "duplicated", f"`{one.opcode}` twice", f"{original} {original}"
    if ".parity" in one.opcode:
        yield "parity", "the other parity", _flipped(one, original, 2)
    for position, step, what in _numbers(one):
        for by in (step, -step):
            new = _added(one, original, position, by)
            if new is not None:
                yield f"{what}{by:+d}", f"{what} changed by {by:+d}", new
    if _PLAIN_ARRIVE.match(one.opcode) and len(one.operands) == 2:
        yield "count+1", "an arrival counted twice", original[:-1].rstrip() + ", 2;"
    if one.opcode == "cp.async.bulk.wait_group":
        new = original.replace("wait_group", "wait_group.read", 1)
        yield "read", "waits for the reads only", new
    if one.opcode == "cp.async.bulk.wait_group.read":
        yield "full", "waits for the writes too", original.replace(".read", "", 1)
    if one.opcode.startswith(("mbarrier", "fence", "membar")) and "mbarrier_init" not in one.opcode:
        scope = re.search(r"\.(cluster|gpu|sys|gl)(?=[.\s;]|$)", one.opcode)
        if scope and not one.opcode.startswith("fence.proxy.async"):
            narrow = _NARROWER[scope[0]]
            opcode = one.opcode[: scope.start()] + narrow + one.opcode[scope.end() :]
            yield "scope", f"scope {narrow}", original.replace(one.opcode, opcode, 1)


def _numbers(one: Instruction) -> Iterator[tuple[int, int, str]]:
    """Operands that are numbers: position, the smallest step, what they count."""
    opcode, given = one.opcode, len(one.operands)
    if opcode.startswith("mbarrier.init"):
        yield 1, 1, "count"
    elif "expect_tx" in opcode or "complete_tx" in opcode:
        yield given - 1, 16, "bytes"
    elif opcode.startswith("mbarrier.arrive") and given == 3:
        yield 2, 1, "count"
    elif re.match(r"(bar|barrier)\.(cta\.)?(sync|arrive)", opcode):
        if given == 2:
            yield 1, 32, "threads"
    elif "wait_group" in opcode:
        yield 0, 1, "pending"
    elif opcode.startswith("setmaxnreg"):
        yield 0, 8, "registers"


def _without(one: Instruction, original: str) -> str:
    """Blanks; for a result that others read, a constant: a wait that succeeds, a state of 0."""
    guard = f"@{one.guard} " if one.guard else ""
    blank = re.sub(r"[^\n]", " ", original)
    if not one.writes:
        return blank
    (result,) = one.writes
    if re.search(r"(test_wait|try_wait|red\.(and|or))", one.opcode):
        return f"{guard}setp.eq.u32 {result}, 0, 0;"
    return f"{guard}mov.{'b32' if '.red.' in one.opcode else 'b64'} {result}, 0;"


def _flipped(one: Instruction, original: str, position: int) -> str:
    operand = one.operands[position]
    if operand.isdigit():
        return _with_operand(one, original, position, str(int(operand) ^ 1))
    return _computed(one, original, position, f"xor.b32 mutant, {operand}, 1;")


def _added(one: Instruction, original: str, position: int, by: int) -> str | None:
    """The instruction with another number; None where that number is out of its range."""
    operand = one.operands[position]
    if not operand.isdigit():
        if "wait_group" in one.opcode or "setmaxnreg" in one.opcode:
            return None
        return _computed(one, original, position, f"add.s32 mutant, {operand}, {by};")
    number = int(operand) + by
    lowest, highest = (24, 256) if "setmaxnreg" in one.opcode else (0, 1 << 20)
    if by < 0 and "wait_group" not in one.opcode:
        lowest = max(lowest, 1)
    if not lowest <= number <= highest:
        return None
    return _with_operand(one, original, position, str(number))


def _with_operand(one: Instruction, original: str, position: int, new: str) -> str:
    guard = f"@{one.guard} " if one.guard else ""
    operands = [*one.operands[:position], new, *one.operands[position + 1 :]]
    return f"{guard}{one.opcode} {', '.join(operands)};"


def _computed(one: Instruction, original: str, position: int, computation: str) -> str:
    """The instruction with an operand from a register that is computed before."""
    changed = _with_operand(one, original, position, "mutant")
    return f"{{ .reg .b32 mutant; {computation} {changed} }}"


def _moved(
    text: str,
    sequence: Sequence[Instruction | Boundary],
    position: int,
    accumulators: frozenset[str],
) -> Iterator[Change]:
    """The instruction on the other side of the next one that has an effect, before or behind.

    Arithmetic in between is crossed as well; on its own it would change nothing. Labels, braces,
    branches and dependences by registers stop the move.
    """
    one = sequence[position]
    assert isinstance(one, Instruction)
    waits_for_registers = one.opcode.startswith(("wgmma.wait_group", "wgmma.fence"))
    for step, where in ((-1, "before"), (1, "behind")):
        at = position + step
        while 0 <= at < len(sequence):
            other = sequence[at]
            if isinstance(other, Boundary) or _FLOW.match(other.opcode):
                break
            if not one.independent_of(other):
                break
            touches = waits_for_registers and other.names & accumulators
            if _EFFECT.match(other.opcode) or touches:
                description = (
                    f"line {one.line}: moved {where} `{other.opcode}` of line {other.line}"
                )
                yield f"moved {where}", description, _swap(text, one, other)
                break
            at += step


def _swap(text: str, one: Instruction, other: Instruction) -> str:
    """`one` taken out of its place and put on the far side of `other`."""
    moved = text[one.start : one.end]
    blank = re.sub(r"[^\n]", " ", moved)
    moved = " ".join(moved.split())
    if other.start < one.start:
        head, tail = text[: other.start], text[other.start : one.start]
        return f"{head}{moved} {tail}{blank}{text[one.end :]}"
    head, tail = text[: one.start], text[one.end : other.end]
    return f"{head}{blank}{tail} {moved}{text[other.end :]}"
