"""What blocks of a grid hold, beside what a multiprocessor has for them."""

from collections.abc import Mapping
from typing import Any

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import layout_of
from warpsmith.lower.pipeline import lower
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.targets.hopper import H200


def params_that_fit(candidate: Candidate, values: Mapping[str, int]) -> Any:
    """What is chosen for a call of these sizes, whose blocks keep turns in what room there is."""
    best, _ = candidate.choose(Problem(values=dict(values), alignment={}, target=H200))
    kernel = lower(candidate.scheduled(best), "k", DataType.Int32, target=H200)
    taken = evaluate(layout_of(kernel).bytes, {**values, SPLITS: 4})
    limits = H200.family.limits
    assert best.kept > 0
    assert best.blocks_per_sm * (taken + limits.shared_taken) <= limits.sm_shared
    return best
