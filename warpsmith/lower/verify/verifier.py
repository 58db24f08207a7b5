"""Holds a kernel to the rules of its form behind each pass."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import InternalError
from warpsmith.kernel.elected import ByLane
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.printer import text_of
from warpsmith.kernel.traversal import walk
from warpsmith.lower.verify.outline import Outlines
from warpsmith.lower.verify.rule import Fault
from warpsmith.lower.verify.rules import Expected, broken
from warpsmith.lower.verify.standing import Asked, asked_again, fallen


class Verifier:
    """Verifies the forms of one kernel, one after the other, and looks at what is new in each."""

    def __init__(self, *, thorough: bool = False) -> None:
        """
        Args:
            thorough: rules that cost time hold, too.
        """
        self._outlines = Outlines()
        self._thorough = thorough
        self._asked: Asked | None = None

    def check(self, behind: str, kernel: Kernel, expected: Expected) -> None:
        """Hold a kernel to the rules.

        Args:
            behind: name of the pass that made it.

        Raises:
            InternalError: it breaks one; names the pass, the rule and the statement.
        """
        found = self.faults(kernel, expected)
        if found:
            raise InternalError(_told(kernel, behind, found))

    def faults(self, kernel: Kernel, expected: Expected) -> tuple[Fault, ...]:
        """All that is wrong with a kernel."""
        found = tuple(broken(kernel, expected, self._outlines))
        return found if found or not self._thorough else self._standing(kernel)

    def _standing(self, kernel: Kernel) -> tuple[Fault, ...]:
        """What no longer orders accesses; the form by lanes is not for the planner to read."""
        if not kernel.orders or any(isinstance(s, ByLane) for s in walk(kernel.body)):
            return ()
        if self._asked is None:
            self._asked, _ = asked_again(kernel)
        return tuple(fallen(kernel, self._asked))


def _told(kernel: Kernel, behind: str, faults: Sequence[Fault]) -> str:
    first = faults[0]
    where = f", at `{text_of(first.statement)}`" if first.statement is not None else ""
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    rule = first.rule
    return (
        f"[{rule.code}] {kernel.name}, behind the pass `{behind}`: {first.what}{where}{more}; the "
        f"rule is that {rule.words}"
    )
