"""A place in the words of a text, and the constants that can stand there."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import NoReturn

from warpsmith.errors import SimulationError
from warpsmith.sim.ptx.syntax import Literal, Real, Scalar, Symbol
from warpsmith.sim.ptx.tokens import Tokens

_MASK = (1 << 64) - 1

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: (a << (b & 63)) & _MASK),
    ">>": (8, lambda a, b: a >> (b & 63)),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "%": (10, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
}
_DEEPEST = 20  # parentheses within parentheses


class Cursor:
    """Reads words one after the other; every refusal names the line and the word."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.words = tokens.words
        self.index = 0

    @property
    def word(self) -> str:
        return self.words[self.index]

    @property
    def line(self) -> int:
        return self.tokens.line(self.index)

    def fail(self, expected: str) -> NoReturn:
        """Refuse the present word."""
        word = self.word
        got = f"`{word}`" if word else "the end of the text"
        raise SimulationError(f"line {self.line}: expected {expected}, got {got}")

    def take(self) -> str:
        word = self.words[self.index]
        if not word:
            self.fail("more")
        self.index += 1
        return word

    def accept(self, word: str) -> bool:
        if self.words[self.index] != word:
            return False
        self.index += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(f"`{word}`")

    def name(self, what: str = "a name") -> str:
        word = self.word
        if not word or not (word[0].isalpha() or word[0] in "_$%"):
            self.fail(what)
        self.index += 1
        return word

    def integer(self, what: str = "an integer") -> int:
        start = self.index
        value = self.constant()
        if not isinstance(value, Literal):
            self.index = start
            self.fail(what)
        return value.value

    def string(self) -> bytes:
        word = self.word
        if not word.startswith('"'):
            self.fail("a string in quotes")
        self.index += 1
        return unescape(word[1:-1])

    def scalar(self) -> Scalar:
        """A register or symbol with its offset, or a constant."""
        word = self.word
        if word == "!":
            self.index += 1
            return Symbol(self.name("a predicate"), negated=True)
        if word and (word[0].isalpha() or word[0] in "_$%"):
            self.index += 1
            offset = 0
            while self.word in ("+", "-"):
                sign = 1 if self.take() == "+" else -1
                offset += sign * self._whole(self._binary(10, 0), "an offset")
            return Symbol(word, offset)
        return self.constant()

    def constant(self) -> Literal | Real:
        """A constant expression, evaluated."""
        value = self._binary(1, 0)
        return Literal(value) if isinstance(value, int) else value

    def _whole(self, value: int | Real, what: str) -> int:
        if not isinstance(value, int):
            self.fail(what)
        return value

    def _binary(self, level: int, depth: int) -> int | Real:
        left = self._unary(depth)
        while (known := _BINARY.get(self.word)) and known[0] >= level:
            at = self.index
            self.index += 1
            right = self._whole(self._binary(known[0] + 1, depth), "an integer")
            if self.words[at] in ("/", "%") and right == 0:
                self.index = at
                self.fail("a divisor that is not zero")
            left = known[1](self._whole(left, "an integer"), right)
        return left

    def _unary(self, depth: int) -> int | Real:
        if depth > _DEEPEST:
            self.fail(f"at most {_DEEPEST} nested operators")
        word = self.word
        if word == "(":
            self.index += 1
            if self.word in (".s64", ".u64"):  # a cast
                self.index += 1
                self.expect(")")
                return self._unary(depth + 1)
            value = self._binary(1, depth + 1)
            self.expect(")")
            return value
        if word in ("-", "+", "~", "!"):
            self.index += 1
            value = self._unary(depth + 1)
            if isinstance(value, Real):
                if word != "-":
                    self.fail("an integer")
                return Real(value.bits ^ (1 << (value.width - 1)), value.width)
            return {"-": -value, "+": value, "~": ~value, "!": int(not value)}[word]
        numeral = number(word)
        if numeral is None:
            self.fail("a constant")
        self.index += 1
        return numeral


def number(word: str) -> int | Real | None:
    """What a numeral means, or None if it is none."""
    if not word or not ("0" <= word[0] <= "9"):
        return None
    if word == "0":
        return 0
    prefix = word[:2].lower()
    if prefix == "0f":
        return Real(int(word[2:], 16), 32)
    if prefix == "0d":
        return Real(int(word[2:], 16), 64)
    digits = word.rstrip("U")
    try:
        if prefix == "0x":
            return int(digits[2:], 16)
        if prefix == "0b":
            return int(digits[2:], 2)
        if "." in word or "e" in word or "E" in word:
            return Real(struct.unpack("<Q", struct.pack("<d", float(word)))[0], 64)
        return int(digits, 8 if digits.startswith("0") else 10)
    except ValueError:  # an octal with a digit 8, or thousands of digits
        return None


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unescape(quoted: str) -> bytes:
    """The bytes of a string literal without its quotes."""

    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "x":
            return chr(int(escape[1:], 16) & 255)
        if escape[0] in "01234567":
            return chr(int(escape, 8) & 255)
        return _ESCAPES.get(escape, escape)

    plain = re.sub(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", replaced, quoted, flags=re.DOTALL)
    return plain.encode("latin-1", errors="replace")
