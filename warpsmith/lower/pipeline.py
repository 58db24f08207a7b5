"""The passes from a scheduled fusion to the last statement, each with the reason for its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from warpsmith.errors import WarpsmithError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, StoreAsync
from warpsmith.kernel.elected import ByLane, Converge, CopyIf
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.pipelines import (
    Acquire,
    Commit,
    Drain,
    Fill,
    OneStage,
    Release,
    Section,
    SkipStages,
    Wait,
)
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts, PackRegisters
from warpsmith.kernel.random_words import DrawByQuads, KeepBits
from warpsmith.kernel.rings import AwaitCopies, CommitCopies
from warpsmith.kernel.shuffles import TakeOwn
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious
from warpsmith.kernel.tiles import PrefetchMap, PrefetchTile
from warpsmith.kernel.waits import WatchedAwait
from warpsmith.lower.build import build, parameter_names
from warpsmith.lower.capacity import check_atoms, check_cluster, check_shared, check_threads
from warpsmith.lower.passes.ask_for_steps import ask_for_steps
from warpsmith.lower.passes.ask_once import ask_once
from warpsmith.lower.passes.batch_levels import batch_levels
from warpsmith.lower.passes.batch_welford import batch_welford
from warpsmith.lower.passes.beside_products import beside_products
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.compare_lanes import compare_lanes
from warpsmith.lower.passes.count_once import count_once
from warpsmith.lower.passes.derive_scalars import derive_scalars
from warpsmith.lower.passes.double_buffer_reduction_scratch import double_buffer_reduction_scratch
from warpsmith.lower.passes.elect_by_warp import elect_by_warp
from warpsmith.lower.passes.end_loops import end_loops
from warpsmith.lower.passes.exchange_parts import exchange_parts
from warpsmith.lower.passes.hoist import hoist_indices
from warpsmith.lower.passes.join_reductions import join_reductions
from warpsmith.lower.passes.keep_lanes_apart import keep_lanes_apart
from warpsmith.lower.passes.keep_turns import keep_turns
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.passes.list_scalars import list_scalars
from warpsmith.lower.passes.load_ahead import load_ahead
from warpsmith.lower.passes.load_anyway import load_anyway
from warpsmith.lower.passes.load_beside import load_beside
from warpsmith.lower.passes.loop_over_groups import loop_over_groups
from warpsmith.lower.passes.lower_pipelines import lower_pipelines
from warpsmith.lower.passes.mask_last_pass import mask_last_pass
from warpsmith.lower.passes.multiply_divisions import multiply_divisions
from warpsmith.lower.passes.narrow_extremes import narrow_extremes
from warpsmith.lower.passes.order import order
from warpsmith.lower.passes.overlap_launches import admit_next, start_early
from warpsmith.lower.passes.overlay_shared import overlay_shared
from warpsmith.lower.passes.pack_operands import pack_operands
from warpsmith.lower.passes.peel_ends import peel_ends
from warpsmith.lower.passes.prefetch_maps import prefetch_maps
from warpsmith.lower.passes.prefetch_tiles import prefetch_tiles
from warpsmith.lower.passes.random_ahead import random_ahead
from warpsmith.lower.passes.read_ahead import read_ahead
from warpsmith.lower.passes.read_before import read_before
from warpsmith.lower.passes.read_two_rows import read_two_rows
from warpsmith.lower.passes.reduce_in_place import reduce_in_place
from warpsmith.lower.passes.reduce_to_first import reduce_to_first
from warpsmith.lower.passes.share_random import share_random
from warpsmith.lower.passes.share_stages import share_stages
from warpsmith.lower.passes.split_full_passes import split_full_passes
from warpsmith.lower.passes.watch_waits import watch_waits
from warpsmith.lower.request import Request
from warpsmith.lower.verify.rules import Expected
from warpsmith.lower.verify.verifier import Verifier
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Rewrite = Callable[[Kernel], Kernel]
"""A pure function that gives back the same kernel where it has nothing to change."""

Asked = Callable[[Request], Rewrite | None]
"""The rewrite that a request asks for; None where it asks for none."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass and why it stands where it stands.

    Attributes:
        asked: its rewrite, for a request.
        makes: statements that stand in no kernel before it.
        ends: statements that stand in no kernel behind it.
    """

    name: str
    asked: Asked
    why: str
    makes: tuple[type[Statement], ...] = ()
    ends: tuple[type[Statement], ...] = ()


def _always(
    rewrite: Rewrite,
    why: str,
    *,
    makes: tuple[type[Statement], ...] = (),
    ends: tuple[type[Statement], ...] = (),
) -> Pass:
    """A pass that every request asks for, by the name of its function."""
    return Pass(rewrite.__name__, lambda request: rewrite, why, makes, ends)


def _watched(request: Request) -> Rewrite | None:
    limit = request.wait_limit
    return None if limit is None else lambda kernel: watch_waits(kernel, limit)


def _early(request: Request) -> Rewrite | None:
    return partial(start_early, settled=request.settled) if request.follows else None


def _load_ahead(request: Request) -> Rewrite | None:
    """All that is read may be read at once where no kernel comes before."""

    def rewrite(kernel: Kernel) -> Kernel:
        read = (buffer.name for buffer in kernel.parameters if not buffer.written)
        if not request.follows:
            return load_ahead(kernel, tuple(read))
        return load_ahead(kernel, request.settled, request.pace)

    return rewrite


def _read_ahead(request: Request) -> Rewrite | None:
    return partial(read_ahead, settled=request.settled) if request.settled else None


def _admits(request: Request) -> Rewrite | None:
    return admit_next if request.followed else None


PASSES = (
    _always(end_loops, "before anything is ordered in them"),
    _always(reduce_in_place, "before the order of accesses, of which it leaves fewer"),
    _always(join_reductions, "before anything else stands between them"),
    _always(
        keep_turns, "once blocks meet as often as they have to, and before shared memory is ordered"
    ),
    _always(
        loop_over_groups,
        "once turns are kept, which it puts into a loop, for the same reason",
        makes=(StartClock, AwaitClock),
    ),
    _always(
        pack_operands,
        "before the order of accesses, to which the words belong",
        makes=(PackRegisters,),
    ),
    _always(
        exchange_parts,
        "before verbs become what they are, for it makes some",
        makes=(Acquire, Commit, Wait, Release, StoreAsync),
    ),
    _always(share_stages, "before verbs tell which stages they are of"),
    _always(
        lower_pipelines,
        "loads change places, which barriers follow",
        makes=(StartClock, AwaitClock, AnnounceStart, AwaitStart),
        ends=(Fill, Drain, OneStage, SkipStages, Section, Acquire, Commit, Wait, Release),
    ),
    _always(
        order,
        "every access and every stage has its place, which nothing changes later",
        makes=(CommitCopies, AwaitCopies, FenceProducts, CommitProducts, AwaitProducts),
    ),
    _always(
        beside_products,
        "once products are awaited, and before anything looks at loops again",
        makes=(Converge,),
    ),
    _always(overlay_shared, "after barriers, some of which it adds"),
    _always(double_buffer_reduction_scratch, "no statement changes loops any more, but for copies"),
    _always(reduce_to_first, "every statement that uses a result has its condition"),
    _always(mask_last_pass, "after barriers, which no copied loop may hold"),
    _always(ask_once, "once nothing but a row's own condition stands around what is summed of it"),
    _always(ask_for_steps, "after barriers, which no copied loop may hold"),
    _always(peel_ends, "after barriers, which no copied loop may hold"),
    _always(split_full_passes, "after barriers, which no copied loop may hold"),
    _always(load_anyway, "where splitting left loads under predicates"),
    _always(load_beside, "behind it, for it may leave rows no condition"),
    _always(compare_lanes, "once nothing asks any more which comparisons are of begins and ends"),
    _always(batch_welford, "where splitting left steps without predicates"),
    _always(count_once, "once nothing joins or moves reductions any more"),
    _always(
        batch_levels, "where splitting left steps without predicates, as few of them as there are"
    ),
    _always(
        keep_lanes_apart,
        "nothing looks at moves of registers any more",
        makes=(TakeOwn,),
    ),
    _always(read_two_rows, "once loops over lanes are what they will be"),
    _always(narrow_extremes, "once levels are found apart from what is summed at them"),
    _always(
        prefetch_tiles,
        "before its indices are named, with those of the copies",
        makes=(PrefetchTile,),
    ),
    Pass(
        "load_ahead",
        _load_ahead,
        "before indices are named, which both places use",
        makes=(StartClock, AwaitClock),
    ),
    Pass("read_ahead", _read_ahead, "before indices are named, too"),
    _always(
        share_random,
        "before hoisting, which names parts of what says who draws what",
        makes=(DrawByQuads,),
    ),
    _always(random_ahead, "once lanes draw for each other", makes=(KeepBits,)),
    _always(read_before, "before hoisting names the indices of what it moves"),
    _always(multiply_divisions, "before hoisting, which names the quotients"),
    _always(hoist_indices, "every index is known, and barriers use none"),
    _always(derive_scalars, "what hoisting named may be the launch's to know"),
    _always(collect_maps, "sizes and strides have their names"),
    _always(prefetch_maps, "tensor maps have their names", makes=(PrefetchMap,)),
    _always(
        list_scalars, "every name that is left is the launch's, and first used where it stands now"
    ),
    _always(lay_out_shared, "every shared buffer is there, with its size"),
    Pass(
        "watch_waits",
        _watched,
        "every wait is there, and nothing behind it looks for waits without an end",
        makes=(WatchedAwait,),
    ),
    Pass(
        "start_early", _early, "what touches global memory first is known", makes=(AwaitPrevious,)
    ),
    Pass(
        "admit_next",
        _admits,
        "before the wait for the kernel before, which `start_early` has placed",
        makes=(AdmitNext,),
    ),
    _always(
        elect_by_warp,
        "last: others look for what the elected thread does",
        makes=(ByLane, Converge, CopyIf),
    ),
)

Observer = Callable[[str, Kernel], None]
"""Called with the name and result of every pass that was asked for, for dumps."""


def lower(
    fusion: Fusion,
    name: str,
    index_type: DataType = DataType.Int,
    observe: Observer | None = None,
    tma_alignment: Mapping[str, int] | None = None,
    *,
    target: Target,
    request: Request | None = None,
) -> Kernel:
    """Lower a scheduled fusion.

    Args:
        fusion: scheduled; not changed.
        name: C identifier of the kernel.
        index_type: Int32 where every index fits 31 bits, else Int.
        observe: sees the kernel after every pass.
        tma_alignment: by the names of tensors that the TMA unit cannot copy, the bytes, fewer than
            16, that their addresses are multiples of.
        target: that is to run it.
        request: what passes are told; by default, nothing.

    Raises:
        ScheduleError: the schedule asks for something that cannot be done.
        InternalError: a pass broke a rule of the Kernel form.
    """
    fusion.check_not_empty()
    check_atoms(fusion, target)
    limits = target.family.limits
    kernel = build(fusion, name, index_type, tma_alignment, target=target)
    if observe is not None:
        observe("build", kernel)
    kernel = passed(kernel, request or Request(), observe, names=parameter_names(fusion))
    check_cluster(kernel, limits)
    check_threads(kernel, limits)
    check_shared(fusion, kernel, limits)
    return kernel


def passed(
    kernel: Kernel,
    request: Request,
    observe: Observer | None = None,
    *,
    names: frozenset[str] = frozenset(),
    passes: tuple[Pass, ...] = PASSES,
) -> Kernel:
    """The kernel behind these passes, of those that the request asks for.

    The last form is verified; where it breaks a rule, or a pass fails, so are those before it, the
    first one first, so that the pass is named that is to blame. A thorough request has each
    verified at once.

    Args:
        names: sizes, strides and users' scalars that a launch knows.

    Raises:
        InternalError: as `Verifier.check` does.
    """
    verifier = Verifier(thorough=request.thorough)
    expected = Expected(names=names, coming=frozenset(k for each in passes for k in each.makes))
    forms = [("build", kernel, expected)]
    for each in passes:
        rewrite = each.asked(request)
        if rewrite is None:
            continue
        try:
            kernel = rewrite(kernel)
        except WarpsmithError:
            raise
        except Exception:  # it may fail on what a pass before it broke
            _blame(verifier, forms)
            raise
        expected = expected.behind(ends=each.ends, makes=each.makes)
        forms.append((each.name, kernel, expected))
        if observe is not None:
            observe(each.name, kernel)
        if request.thorough:
            verifier.check(*forms[-1])
    if verifier.faults(kernel, expected):
        _blame(verifier, forms)
    return kernel


def _blame(verifier: Verifier, forms: list[tuple[str, Kernel, Expected]]) -> None:
    """Name the first pass whose form breaks a rule, if one does."""
    for form in forms:
        verifier.check(*form)
