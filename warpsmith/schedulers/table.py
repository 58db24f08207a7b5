"""All schedulers."""

from __future__ import annotations

from warpsmith.schedulers.attention.candidate import Attention
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.inner_grid.candidate import InnerGrid
from warpsmith.schedulers.matmul.candidate import Product
from warpsmith.schedulers.matmul_by_threads.candidate import ProductByThreads
from warpsmith.schedulers.outer_grid.candidate import OuterGrid
from warpsmith.schedulers.outer_groups.candidate import OuterGroups
from warpsmith.schedulers.outer_persistent.candidate import OuterPersistent
from warpsmith.schedulers.parts.candidate import OfParts
from warpsmith.schedulers.pointwise.candidate import Pointwise
from warpsmith.schedulers.reduction.candidate import Reduced
from warpsmith.schedulers.rows.candidate import InnerOuter, InnerPersistent
from warpsmith.schedulers.scan.candidate import Scanned
from warpsmith.schedulers.side_by_side.candidate import SideBySide

SCHEDULERS: tuple[type[Candidate], ...] = (
    Attention,
    Pointwise,
    Reduced,
    OfParts,
    OuterGroups,
    InnerPersistent,
    InnerGrid,
    OuterPersistent,
    OuterGrid,
    InnerOuter,
    Product,
    ProductByThreads,
    Scanned,
    SideBySide,
)
"""In the order in which they are asked."""

PERSISTENT = tuple(each.scheduler for each in SCHEDULERS if each.keeps)
"""Names of those that keep in registers what they reduce."""

OF_PARTS = tuple(each.scheduler for each in SCHEDULERS if each.sums_parts)
"""Names of those that sum parts, or columns, and keep all elements for what these sums give."""

ROW_SCHEDULERS = tuple(each.scheduler for each in SCHEDULERS if each.loads_rows)
"""Names of those whose kernels may have a role that loads rows."""
