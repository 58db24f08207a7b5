"""Programs that may be read and not changed: whoever tries is told at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from warpsmith.engine import fitting, launches, plan
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.planner import segment
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.table import SCHEDULERS

QUESTIONS = ("unsupported_sizes", "unspecialized", "predicted", "no_ring")
"""What a candidate is asked of a call, besides which schedule it chooses."""

LISTS = ("inputs", "outputs", "operations", "launch_symbols", "loop", "transforms")


class ChangedError(Exception):
    """A program was changed, or copied, that was to be read alone."""


class FixedList(list[Any]):
    """A list that refuses every change."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ChangedError("a list of a program that is read alone")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


class Guard:
    """Keeps fusions as they are while planning reads them.

    Attributes:
        schedulers: those whose candidates were asked for a schedule.
        asked: how often anything was asked of a program that was frozen.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.schedulers: set[str] = set()
        self.asked = 0
        self._fixed: set[object] = set()
        self._strict = 0
        self._patch = monkeypatch
        for kind in (Fusion, TensorView, IterDomain):
            monkeypatch.setattr(kind, "__setattr__", self._setting())
        monkeypatch.setattr(Fusion, "draft", self._drafting())

    def watch_planning(self) -> None:
        """Freeze what planning is given, and what it has prepared, as long as it reads them.

        What is prepared for a scheduler, and what a schedule is laid on, are drafts.
        """
        self._patch.setattr(launches, "_COMPILERS", 1)  # one thread at a time
        self._watch(fitting, "prepare")
        self._watch(fitting, "plan_prepared")
        self._watch(segment, "refusals", strict=True)
        self._watch(plan, "select")
        for kind in SCHEDULERS:
            for name in (*QUESTIONS, "agreed", "multiplies"):
                self._watch(kind, name, strict=True)
        self._watch(Candidate, "scheduled")
        self._patch.setattr(Candidate, "choose", self._asking(Candidate.choose))

    @contextmanager
    def frozen(self, fusion: Fusion, *, strict: bool = False) -> Iterator[None]:
        """Changes of a fusion raise; `strict`, so do drafts."""
        tensors = fusion.tensors
        axes = [a for t in tensors for a in (*t.root, *t.logical, *t.loop, *(t.allocation or ()))]
        new = {fusion, *tensors, *axes} - self._fixed
        lists = [(x, n, v) for x in new for n in LISTS if isinstance(v := getattr(x, n, 0), list)]
        for owner, name, value in lists:
            object.__setattr__(owner, name, FixedList(value))
        self._fixed |= new
        self._strict += strict
        self.asked += 1
        try:
            yield
        finally:
            self._strict -= strict
            self._fixed -= new
            for owner, name, value in lists:
                object.__setattr__(owner, name, value)

    def _setting(self) -> Callable[[object, str, object], None]:
        def setting(owner: object, name: str, value: object) -> None:
            if owner in self._fixed:
                raise ChangedError(f"{name} of {owner!r}")
            object.__setattr__(owner, name, value)

        return setting

    def _drafting(self) -> Callable[[Fusion], Fusion]:
        draft = Fusion.draft

        def drafting(fusion: Fusion) -> Fusion:
            if self._strict:
                raise ChangedError("a draft was made where a program is read alone")
            return draft(fusion)

        return drafting

    def _watch(self, owner: object, name: str, *, strict: bool = False) -> None:
        """Freeze the fusion that a function gets first, or that of its candidate, while it runs."""
        function = getattr(owner, name)

        @wraps(function)
        def watched(first: Any, *args: Any, **named: Any) -> Any:
            fusion = first if isinstance(first, Fusion) else first.fusion
            with self.frozen(fusion, strict=strict):
                return function(first, *args, **named)

        self._patch.setattr(owner, name, watched)

    def _asking(self, choose: Callable[..., Any]) -> Callable[..., Any]:
        def asking(candidate: Candidate, problem: Any) -> Any:
            self.schedulers.add(candidate.scheduler)
            for name in QUESTIONS:
                getattr(candidate, name)(problem)
            with self.frozen(candidate.fusion, strict=True):
                found = choose(candidate, problem)
                candidate.agreed(found[0], problem)
                return found

        return asking
