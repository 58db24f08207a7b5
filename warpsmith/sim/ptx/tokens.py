"""PTX text to words with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsmith.errors import SimulationError

# Space and comments are skipped; a newline is matched so that lines can be counted. A mnemonic with
# its suffixes is one word (`ld.global.v4.u32`), as is a special register (`%tid.x`).
_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\f\v]+|//[^\n]*)
    |(?P<newline>\n)
    |(?P<comment>/\*.*?\*/)
    |(?P<open>/\*)
    |(?P<word>[A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*|\.[A-Za-z_][\w$]*(?:::[\w$]+)*
      |0[fF][0-9a-fA-F]{8}(?![\w$])|0[dD][0-9a-fA-F]{16}(?![\w$])
      |0[xX][0-9a-fA-F]+U?(?![\w$])|0[bB][01]+U?(?![\w$])
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?
      |<<|>>|<=|>=|==|!=|&&|\|\||[@!,;:{}\[\]()<>|+\-*/%&^~=?])
    |(?P<string>"(?:[^"\\\n]|\\.)*")""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The words of a text: each with its line, its first character and the one behind its last.

    The last word is empty: it stands for the end of the text.
    """

    text: str
    words: list[str]
    lines: list[int]
    starts: list[int]
    ends: list[int]


def tokenize(text: str) -> Tokens:
    """Split a text. Raises SimulationError at a character that PTX has no use for."""
    words: list[str] = []
    lines: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    line, position = 1, 0
    text = text.rstrip("\0")
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if start != position:
            break
        position = end
        group = match.lastgroup
        if group == "word" or group == "string":
            words.append(match.group())
            lines.append(line)
            starts.append(start)
            ends.append(end)
        elif group == "newline":
            line += 1
        elif group == "comment":
            line += match.group().count("\n")
        elif group == "open":
            position = start
            break
    if position != len(text):
        stray = text[position : position + 20].split("\n")[0]
        what = "unfinished comment" if stray.startswith("/*") else "character that PTX lacks"
        what = "unfinished string" if stray.startswith('"') else what
        raise SimulationError(f"line {line}: {what} at `{stray}`")
    words.append("")
    lines.append(line)
    starts.append(position)
    ends.append(position)
    return Tokens(text, words, lines, starts, ends)
