"""Whether what ordered a kernel's accesses still does: the planner of orders is asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.errors import InternalError
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.printer import text_of
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.order import order
from warpsmith.lower.verify.rule import Fault, Rule

Asked = Counter[type[Statement]]
"""Statements by their classes."""


def asked_again(kernel: Kernel) -> tuple[Asked, Kernel]:
    """What ordering adds to a kernel that is ordered, and the kernel with that.

    Right behind `order` these are ends of waits that a second look cannot know to be there, such as
    the announcement of a block's start. A pass that keeps the order adds none.

    Raises:
        InternalError: as `order` does.
    """
    again = order(replace(kernel, orders=()))
    return _kinds(again) - _kinds(kernel), again


def fallen(kernel: Kernel, before: Asked) -> Iterator[Fault]:
    """What would have to be put to order a kernel's accesses anew.

    Args:
        before: as `asked_again` said right behind `order`.
    """
    try:
        asked, again = asked_again(kernel)
    except InternalError as error:
        yield Fault(Rule.STANDING, f"{error}")
        return
    texts = {text_of(statement) for statement in walk(kernel.body)}
    for kind, count in (asked - before).items():
        added = [s for s in walk(again.body) if type(s) is kind]
        new = [s for s in added if text_of(s) not in texts]
        what = f"ordering asks for {count} more of {kind.__name__}"
        yield Fault(Rule.STANDING, what, (new or added)[0])


def _kinds(kernel: Kernel) -> Asked:
    return Counter(type(statement) for statement in walk(kernel.body))
