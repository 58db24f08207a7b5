"""PTX text to words with their places."""

from __future__ import annotations

import re
from bisect import bisect

from warpsmith.errors import SimulationError
from warpsmith.values import dataclass

# Space and comments are skipped. A mnemonic with its suffixes is one word (`ld.global.v4.u32`), as
# is a special register (`%tid.x`). The end of the text is an empty word, for which the second group
# stands, as it does for a character that begins no word.
_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?\*/)*+
    (?:([A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*|\.[A-Za-z_][\w$]*(?:::[\w$]+)*
      |0[fF][0-9a-fA-F]{8}(?![\w$])|0[dD][0-9a-fA-F]{16}(?![\w$])
      |0[xX][0-9a-fA-F]+U?(?![\w$])|0[bB][01]+U?(?![\w$])
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?
      |<<|>>|<=|>=|==|!=|&&|\|\||(?!/\*)[@!,;:{}\[\]()<>|+\-*/%&^~=?]
      |"(?:[^"\\\n]|\\.)*")
    |(\Z|.))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The words of a text, each with its first character.

    The last word is empty: it stands for the end of the text.
    """

    text: str
    words: list[str]
    starts: list[int]
    newlines: list[int]

    def line(self, index: int) -> int:
        """The line, from 1 on, that a word begins in."""
        return bisect(self.newlines, self.starts[index]) + 1

    def end(self, index: int) -> int:
        """The character behind a word."""
        return self.starts[index] + len(self.words[index])


def tokenize(text: str) -> Tokens:
    """Split a text. Raises SimulationError at a character that PTX has no use for."""
    text = text.rstrip("\0")
    words: list[str] = []
    starts: list[int] = []
    for match in _TOKEN.finditer(text):
        place = match.lastindex
        assert place is not None
        starts.append(match.start(place))
        if place == 2:
            break
        words.append(match[1])
    words.append("")
    newlines = [match.start() for match in re.finditer("\n", text)]
    tokens = Tokens(text, words, starts, newlines)
    position = starts[-1]
    if position != len(text):
        stray = text[position : position + 20].split("\n")[0]
        what = "unfinished comment" if stray.startswith("/*") else "character that PTX lacks"
        what = "unfinished string" if stray.startswith('"') else what
        raise SimulationError(f"line {tokens.line(-1)}: {what} at `{stray}`")
    return tokens
