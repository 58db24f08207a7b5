"""Fused functions that a caller's tensors go to as views of other shapes, such as rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.frontends.fuse import Fused
from warpsmith.runtime.launcher import Shortcut


class Viewed:
    """A fused function of views. Calls like one that was here before go past the views, too.

    Attributes:
        shortcut: takes the caller's own arguments.
    """

    __slots__ = ("_fused", "shortcut")

    def __init__(self, fused: Fused) -> None:
        self._fused = fused
        self.shortcut = Shortcut()

    def __call__(
        self,
        given: tuple[Any, ...],
        views: tuple[Any, ...],
        shapes: tuple[torch.Size, ...],
        note: tuple[Any, ...] = (),
        at: tuple[int, ...] | None = None,
    ) -> tuple[Any, ...]:
        """The function's results, in these shapes.

        Args:
            given: the caller's tensors; the last one is a constant which says with them what views
                and shapes are.
            views: arguments of the function.
            note: what a call past Python is told besides its results.
            at: the place of each given tensor's view, where some views are of none.
        """
        at = tuple(range(len(views) - 1)) if at is None else at
        found = self._fused(*views)
        results = found if isinstance(found, tuple) else (found,)
        if all(_are_same(a, views[k]) for a, k in zip(given[:-1], at, strict=True)):
            route = self._fused.known(views)
            if route is not None:
                form, sizes = int(route.single), tuple(map(tuple, shapes))
                places = tuple(map(at.index, route.places))
                self.shortcut.keep(given, route.run, places, form, sizes, note)
        pairs = zip(results, shapes, strict=True)
        return tuple([each if each.shape == shape else each.view(shape) for each, shape in pairs])


def _are_same(given: Tensor | None, view: Tensor | None) -> bool:
    if view is None or given is None:
        return view is None
    return bool(given.data_ptr() == view.data_ptr())
