"""PTX as a sequence of statements with their places in the text: enough to change one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"[\w$%]+\s*:(?!:)")
_LINE_DIRECTIVE = re.compile(
    r"\.(loc|file|version|target|address_size|maxntid|reqntid|minnctapersm|maxnreg|maxnctapersm"
    r"|noreturn|explicitcluster|reqnctapercluster|maxclusterrank)\b[^\n{]*"
)
_HEADER = re.compile(r"\.(visible|weak|extern|entry|func|common)\b")
_NAME = re.compile(r"[%$A-Za-z_][\w$%]*")
_INSTRUCTION = re.compile(r"(?:@(!?[%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*);$", re.DOTALL)

# Instructions whose first operand is not written.
_NO_RESULT = re.compile(
    r"(st|red|bar|barrier|fence|membar|cp|wgmma\.(fence|commit|wait)\w*|setmaxnreg|prefetch\w*"
    r"|stmatrix|nanosleep|griddepcontrol|tensormap|mbarrier\.(init|inval|expect_tx|complete_tx)"
    r"|trap|exit|ret|bra|brx|call|brkpt|pmevent|discard|applypriority|multimem\.(st|red))\b"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: text[start:end] with its guard and its semicolon; `line` counts from 1."""

    start: int
    end: int
    line: int
    guard: str
    opcode: str
    operands: tuple[str, ...]

    @property
    def reads(self) -> frozenset[str]:
        """Names read, among them such as are no registers (a variable, a special register)."""
        sources = self.operands if not self._has_result else self.operands[1:]
        if self.opcode.startswith("wgmma.mma_async"):
            sources = self.operands  # accumulators are read too
        places = (o for o in self.operands[:1] if o.startswith("["))
        names = _NAME.findall(" ".join((*sources, *places, self.guard)))
        return frozenset(names)

    @property
    def writes(self) -> frozenset[str]:
        """Registers written."""
        return frozenset(_NAME.findall(self.operands[0]) if self._has_result else ()) - {"_"}

    @property
    def names(self) -> frozenset[str]:
        return self.reads | self.writes

    @property
    def _has_result(self) -> bool:
        if not self.operands or self.operands[0].startswith("["):
            return False
        return not _NO_RESULT.match(self.opcode) or ".red." in self.opcode[:16]

    def independent_of(self, other: Instruction) -> bool:
        """Whether the two may change places as far as registers are concerned."""
        return not (self.writes & other.names or other.writes & self.names)


@dataclass(frozen=True, slots=True)
class Boundary:
    """What no instruction may be moved across: a label, a brace, a declaration."""

    line: int


def statements(text: str) -> tuple[Instruction | Boundary, ...]:
    """The instructions of all functions, in order, with boundaries between them.

    `.loc` lines and comments are no statements.
    """
    clean = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found: list[Instruction | Boundary] = []
    at, line, counted = 0, 1, 0
    while at < len(clean):
        if clean[at].isspace():
            at += 1
            continue
        line += clean.count("\n", counted, at)
        counted = at
        if directive := _LINE_DIRECTIVE.match(clean, at):
            at = directive.end()
        elif clean[at] in "{}":
            found.append(Boundary(line))
            at += 1
        elif clean[at] == ".":
            found.append(Boundary(line))
            at = _directive_end(clean, at)
        elif label := _LABEL.match(clean, at):
            found.append(Boundary(line))
            at = label.end()
        else:
            end = clean.index(";", at) + 1
            found.append(_instruction(clean[at:end], at, end, line))
            at = end
    return tuple(found)


def _directive_end(clean: str, at: int) -> int:
    """Behind a declaration; before the body of a function."""
    if clean.startswith(".section", at):
        return clean.index("}", at) + 1
    semicolon = clean.find(";", at)
    if _HEADER.match(clean, at) and re.match(r"[^;{]*\b(entry|func)\b", clean[at:]):
        brace = clean.find("{", at)
        return brace if semicolon < 0 or 0 <= brace < semicolon else semicolon + 1
    return semicolon + 1 if semicolon >= 0 else len(clean)


def _instruction(text: str, start: int, end: int, line: int) -> Instruction:
    parts = _INSTRUCTION.match(text)
    assert parts, f"line {line}: cannot read `{text}`"
    return Instruction(start, end, line, parts[1] or "", parts[2], _operands(parts[3]))


def _operands(text: str) -> tuple[str, ...]:
    """Split at the commas outside of brackets and braces."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return tuple(part for part in parts if part)
