"""Executors that are found again by what a fusion says."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from warpsmith.frontends.nvfuser_direct.executors import FusionExecutorCache
from warpsmith.frontends.nvfuser_direct.fusion import Fusion


class LRUCache:
    """The executors of so many fusions, by their text; of more, those that were used last."""

    def __init__(self, max_fusions: int) -> None:
        self._most = max_fusions
        self._kept: OrderedDict[str, FusionExecutorCache] = OrderedDict()
        self._hits = 0
        self._misses = 0

    def cache_compile(self, fusion: Fusion) -> FusionExecutorCache:
        """The executor of a fusion with the same text, or a new one."""
        key = fusion.text()
        found = self._kept.pop(key, None)
        if found is None:
            self._misses += 1
            found = FusionExecutorCache(fusion)
        else:
            self._hits += 1
        self._kept[key] = found
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found

    def stats(self) -> str:
        """Hits and misses."""
        asked = self._hits + self._misses
        share = 100 * self._hits / asked if asked else 0.0
        return (
            f"Total Fusions: {len(self._kept)}\nMax Fusions: {self._most}\n"
            f"Hits: {self._hits}\nMisses: {self._misses}\nHit Rate: {share:.1f}%\n"
        )

    def num_fusions(self) -> int:
        return len(self._kept)


class LruFusionCache:
    """A decorator of functions that return a `FusionDefinition`: equal ones share kernels."""

    def __init__(self, max_fusions: int = 16384) -> None:
        self.cache = LRUCache(max_fusions)

    def __call__(self, create_fusion_definition: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(create_fusion_definition)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            made = create_fusion_definition(*args, **kwargs)
            if not hasattr(made, "fec"):
                made.fec = self.cache.cache_compile(made.fusion)
            return made

        wrapper.stats = self.cache.stats  # type: ignore[attr-defined]  # as nvFuser's callers ask
        wrapper.num_fusions = self.cache.num_fusions  # type: ignore[attr-defined]  # as above
        return wrapper
