"""The rules that a skeleton may break, and how a break is told from the machine to the report."""

from __future__ import annotations

from typing import NoReturn

from warpsmith.errors import CodedRule
from warpsmith.values import dataclass


class Rule(CodedRule):
    """What must hold in every interleaving, with the code of the error where it does not."""

    DEADLOCK = ("WS0901", "every wait ends")
    BEHIND = ("WS0902", "a waiter has seen the phase before the one that it waits for")
    AHEAD = ("WS0903", "a phase ends only when all waiters have seen the one before")
    ARRIVALS = ("WS0904", "each phase gets as many arrivals as its barrier counts")
    BYTES = ("WS0905", "each phase announces the bytes that are copied")
    OVERWRITTEN = ("WS0906", "a stage is filled again only when its users are done")
    UNFILLED = ("WS0907", "a stage is read only when it is filled")
    UNAWAITED = ("WS0908", "somebody waits for each copy before the block ends")
    GROUPS = ("WS0909", "groups of copies and products are committed, and awaited before the end")
    NAMED = ("WS0910", "each named barrier belongs to one group, and id 0 to the whole block")
    MEETING = ("WS0911", "all threads of a group reach each of its barriers")
    SHARED = ("WS0912", "shared memory fits a block")
    REGISTERS = ("WS0913", "registers fit, and a warp group changes them together")
    PROXY = ("WS0914", "a fence orders what threads and asynchronous units do")
    LIFETIME = ("WS0915", "a barrier is used only between its initialization and its end")
    LAUNCH = ("WS0916", "roles are disjoint warps of the block")
    CLUSTER = ("WS0917", "what blocks do to each other is known before they run")
    START = ("WS0918", "a kernel that starts early touches global memory only behind its wait")
    LEAVING = ("WS0919", "a block ends only when no other block reaches into it any more")
    SCOPE = ("WS0920", "who waits for threads of other blocks waits for the whole cluster")
    NUMBERS = ("WS0921", "a block waits only for blocks of the grid that have started before it")
    TOGETHER = ("WS0923", "blocks that meet all run at once, and each comes by every meeting")
    CHOICES = ("WS0922", "agents skip alike what memory says is to be skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A rule that is broken, where, and by whom; actors, stages and places by their numbers.

    Attributes:
        got, wanted: what is and what should be, in words; phases are counted from 0.
        actor: the actor whose step breaks the rule; -1 where nobody can take one.
        others: actors that should have come first, or that wait.
        roles: names of roles, where actors are not known.
        buffer: name of a stage's buffer or barrier, where it has no number yet.
        clock: by actor, the stamps of steps that must come before the actor's step; empty where
            everything that ran must.
    """

    rule: Rule
    got: str
    wanted: str = ""
    actor: int = -1
    others: tuple[int, ...] = ()
    roles: tuple[str, ...] = ()
    buffer: str = ""
    barrier: int = -1
    place: int = -1
    phase: int | None = None
    clock: tuple[int, ...] = ()


class Broken(Exception):
    """Raised by the machine where it meets a break."""

    def __init__(self, found: Break) -> None:
        self.found = found
        super().__init__(f"{found.rule.name}: {found.got}")


def broken(
    rule: Rule, got: str, wanted: str = "", *, roles: tuple[str, ...] = (), buffer: str = ""
) -> NoReturn:
    """Raise a break by what is known before anything runs."""
    raise Broken(Break(rule=rule, got=got, wanted=wanted, roles=roles, buffer=buffer))
