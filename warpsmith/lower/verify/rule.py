"""The rules of the Kernel form by their codes, and what breaks one."""

from __future__ import annotations

from warpsmith.errors import CodedRule
from warpsmith.kernel.nodes import Statement
from warpsmith.values import dataclass


class Rule(CodedRule):
    """What holds of a kernel behind every pass, with the code of the error where it does not."""

    STAGES = ("WS1201", "a statement is there from the pass that makes it to the one that ends it")
    NAMES = ("WS1202", "a name is defined once in its scope, and before it is used")
    MEMORY = ("WS1203", "a buffer is a register or one of the kernel's, as that declares it")
    COLLECTIVE = ("WS1204", "what all threads take part in stands where all of them come by")
    BARRIERS = ("WS1205", "a barrier is used behind its initialization")
    ORDERS = ("WS1206", "what orders accesses is there, under a number of its own")
    LAYOUT = ("WS1207", "shared buffers lie aligned, inside the block's memory and apart")
    STANDING = ("WS1208", "what was ordered stays ordered")


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that is broken, how, and by which statement, if it is one."""

    rule: Rule
    what: str
    statement: Statement | None = None
