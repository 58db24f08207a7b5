"""Windows of images along one dimension: which elements each has, and which have an element.

Sizes are numbers. Places are index expressions, as operations that read at computed places have
them (`warpsmith.ir.reads`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.integers import TRUE, add, floordiv, less, maximum, minimum, mod, mul, sub
from warpsmith.ir.scalar import Expr
from warpsmith.values import dataclass

Index = Expr | int


@dataclass(frozen=True, slots=True)
class Windows(ABC):
    """`count` windows in a dimension of `size` elements, none longer than `length`.

    Windows have numbers, and so have the elements of each. An element may lie outside the image.
    """

    size: int
    count: int

    @property
    @abstractmethod
    def length(self) -> int:
        """The most elements of one."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """The most windows that have a pixel in common."""

    @property
    @abstractmethod
    def step(self) -> int:
        """How far apart the elements of one lie."""

    @abstractmethod
    def start(self, window: Index) -> Expr:
        """The place of a window's first element."""

    @abstractmethod
    def elements(self, window: Index, padded: bool = False) -> Expr:
        """How many elements a mean is of: those inside the image, or in its padding, too."""

    @abstractmethod
    def element(self, window: Expr, number: int) -> tuple[Expr, Expr]:
        """The place of an element, and the predicate that there is one inside the image."""

    @abstractmethod
    def having(self, place: Expr, number: int) -> tuple[Expr, Expr, Expr]:
        """One of the windows that may have a pixel, `number` of them before the last one: the
        window, the number of its element, and the predicate that it has it.
        """

    def first_inside(self, window: Expr) -> Expr:
        """The number of a window's first element that lies inside the image."""
        return integers.ZERO


@dataclass(frozen=True, slots=True)
class Even(Windows):
    """Windows of one length, the same distance apart, the first `padding` before the image.

    Attributes:
        most: elements of each, `dilation` apart.
    """

    most: int
    stride: int
    padding: int = 0
    dilation: int = 1

    @property
    def length(self) -> int:
        return self.most

    @property
    def reach(self) -> int:
        return -(-((self.most - 1) * self.dilation + 1) // self.stride)

    @property
    def step(self) -> int:
        return self.dilation

    @property
    def is_apart(self) -> bool:
        """Whether windows lie one behind the other, from the first pixel on."""
        apart = self.stride == self.most or self.count == 1
        whole = self.count * self.most <= self.size
        return apart and whole and not self.padding and self.dilation == 1

    def start(self, window: Index) -> Expr:
        return sub(mul(window, self.stride), self.padding)

    def element(self, window: Expr, number: int) -> tuple[Expr, Expr]:
        first = number * self.dilation - self.padding
        place = add(mul(window, self.stride), first)
        last = (self.count - 1) * self.stride + first
        return place, _both(
            TRUE if first >= 0 else less(-1, place),
            TRUE if last < self.size else less(place, self.size),
        )

    def having(self, place: Expr, number: int) -> tuple[Expr, Expr, Expr]:
        moved = add(place, self.padding)
        window = sub(floordiv(moved, self.stride), number)
        gap = add(mod(moved, self.stride), number * self.stride)
        first = self.padding // self.stride - number
        last = (self.size - 1 + self.padding) // self.stride - number
        most = (self.most - 1) * self.dilation
        return (
            window,
            floordiv(gap, self.dilation),
            _both(
                TRUE if first >= 0 else less(-1, window),
                TRUE if last < self.count else less(window, self.count),
                TRUE if (number + 1) * self.stride <= most + 1 else less(gap, most + 1),
                TRUE if self.dilation == 1 else less(mod(gap, self.dilation), 1),
            ),
        )

    def first_inside(self, window: Expr) -> Expr:
        if not self.padding:
            return integers.ZERO
        before = maximum(sub(self.padding, mul(window, self.stride)), 0)
        return floordiv(add(before, self.dilation - 1), self.dilation)

    def elements(self, window: Index, padded: bool = False) -> Expr:
        begin = self.start(window)
        end = minimum(add(begin, self.most), self.size + (self.padding if padded else 0))
        return sub(end, begin if padded or not self.padding else maximum(begin, 0))


@dataclass(frozen=True, slots=True)
class Adaptive(Windows):
    """Windows that have an image of any size in as many parts, which may overlap by one element."""

    @property
    def length(self) -> int:
        return max(_value(self.elements(window)) for window in range(self.count))

    @property
    def reach(self) -> int:
        return max(_value(self._last(p)) - self._first(p) + 1 for p in range(self.size))

    @property
    def step(self) -> int:
        return 1

    def start(self, window: Index) -> Expr:
        return floordiv(mul(window, self.size), self.count)

    def elements(self, window: Index, padded: bool = False) -> Expr:
        end = floordiv(add(mul(add(window, 1), self.size), self.count - 1), self.count)
        return sub(end, self.start(window))

    def element(self, window: Expr, number: int) -> tuple[Expr, Expr]:
        least = min(_value(self.elements(each)) for each in range(self.count))
        inside = TRUE if number < least else less(number, self.elements(window))
        return add(self.start(window), number), inside

    def _first(self, place: int) -> int:
        return place * self.count // self.size

    def _last(self, place: Index) -> Expr:
        """The last window that begins at a place, or before it."""
        later = add(mul(add(place, 1), self.count), self.size - 1)
        return sub(floordiv(later, self.size), 1)

    def having(self, place: Expr, number: int) -> tuple[Expr, Expr, Expr]:
        window = sub(self._last(place), number)
        end = add(self.start(window), self.elements(window))
        inside = TRUE if number == 0 else _both(less(-1, window), less(place, end))
        return window, sub(place, self.start(window)), inside


def adaptive(size: int, count: int) -> Windows:
    """As many windows as are asked for: of one length where that divides the size."""
    return (
        Adaptive(size, count) if size % count else Even(size, count, size // count, size // count)
    )


def several(value: int | Sequence[int], dims: int) -> list[int]:
    """A number for each dimension, of as many, or of one that is that of all."""
    found = [value] if isinstance(value, int) else [*value]
    return found * dims if len(found) == 1 else found


def _both(*conditions: Expr) -> Expr:
    return integers.conjunction(*conditions)


def _value(expr: Expr) -> int:
    found = integers.constant(expr)
    assert found is not None
    return found
