"""The scheduler of images that blocks keep, whose channels are summed, and then groups of them."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.kept import WithTheGrid
from warpsmith.schedulers.outer_groups import applicability, apply
from warpsmith.schedulers.outer_groups.heuristic import Groups, channels_first
from warpsmith.schedulers.reduction.recompute import recompute_after


class OuterGroups(WithTheGrid[Groups]):
    scheduler = "outer_groups"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)
    view_of = Groups

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        caches = add_caches(draft)
        channels_first(draft, caches)
        return recompute_after(draft, caches)
