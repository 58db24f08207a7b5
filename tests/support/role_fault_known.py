"""Faults of roles, each in a kernel made by hand: what is counted, awaited, met and owned."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.role_fault_edits import (
    agent,
    all_but_last,
    counts,
    early_release,
    flipped,
    idle_arriving,
    meeting_of_the_block,
    one_after_the_other,
    other,
    parted,
    released_at_the_start,
    skipped_tile,
    two_producers,
    with_registers,
    without_meeting,
)
from tests.support.role_fault_kernels import (
    ADDING,
    COPIED,
    STORING,
    TURNS,
    but,
    each,
    every,
    of,
    omitting,
    trap,
)
from tests.support.role_fault_texts import TEXTS
from tests.support.role_faults import Fault, fault
from tests.support.role_kernels import streaming, turns
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.nodes import If, Synchronize
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    ArriveByWarp,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
    InitBarriers,
    TileCopy,
)

_REFUSED = {
    "registers that are no multiple of eight": "WS0500",
    "too few registers": "WS0500",
    "a stage that threads of a warp tell apart": "WS0500",
    "too much shared memory": "WS0801",
}

_UNSAID = {"a copy counts at no barrier": "PTX has no load by TMA without an mbarrier"}

_FAULTS: Mapping[str, Fault] = {
    # --- parities, counts and bytes
    "the consumer's parity": fault(
        but(ADDING, each(Await, flipped, barrier="ring0_full")),
        *("WS0903", "ring0", "add", 0, "race", "deadlock"),
    ),
    "the producer's parity": fault(
        but(ADDING, each(Await, flipped, barrier="ring0_empty")),
        *("WS0901", "ring0", "load_x", 0, "deadlock"),
    ),
    "an arrival too many is expected": fault(
        but(ADDING, counts("ring1_empty", 9)),
        *("WS0901", "ring1", "load_y", 0, "arrival-missing", "deadlock"),
    ),
    "an arrival too few is expected": fault(
        but(ADDING, counts("ring1_empty", 7)),
        *("WS0904", "ring1", "add", 0, "arrival-unordered", "race"),
    ),
    "two arrivals at full are expected": fault(
        but(ADDING, counts("ring0_full", 2)),
        *("WS0901", "ring0", "add", 0, "arrival-missing", "deadlock"),
    ),
    "no arrival is expected": fault(
        but(ADDING, counts("ring0_full", 0)),
        *("WS0904", "ring0", "", None, "illegal-argument"),
    ),
    "idle warps arrive": fault(
        but(ADDING, idle_arriving),
        *("WS0904", "ring1", "add", 0, "arrival-unordered", "race", "deadlock"),
    ),
    "more bytes are announced": fault(
        but(ADDING, each(Expect, other(16), "load_x")),
        *("WS0905", "ring0", "load_x", 0, "tx-mismatch", "deadlock"),
    ),
    "fewer bytes are announced": fault(
        but(ADDING, each(Expect, other(-16), "load_y")),
        *("WS0905", "ring1", "load_y", 0, "tx-mismatch", "deadlock"),
    ),
    "no bytes are announced": fault(
        but(ADDING, each(Expect, lambda e: replace(e, bytes=Const(0)), "load_x")),
        *("WS0907", "ring0", "add", 1, "race", "tx-mismatch"),
    ),
    "bytes are announced, and nothing is copied": fault(
        but(ADDING, omitting(TileCopy, "load_x")),
        *("WS0905", "ring0", "load_x", 0, "tx-mismatch", "deadlock"),
    ),
    "bytes are announced without an arrival": fault(
        but(ADDING, each(Expect, lambda e: replace(e, arrives=False), "load_x")),
        *("WS0901", "ring0", "load_x", 0, "deadlock"),
    ),
    "a copy counts at no barrier": fault(
        but(ADDING, each(TileCopy, lambda c: replace(c, barrier=None), "load_x")),
        *("WS0908", "ring0", "load_x", None),
    ),
    # --- waits and releases
    "a stage that threads of a warp tell apart": fault(
        but(
            ADDING,
            each(
                ArriveByWarp,
                lambda r: replace(r, stage=Symbol("lane", low=0)),
                barrier="ring0_empty",
            ),
        ),
        *("WS0911", "", "add", None),
    ),
    "no release": fault(
        but(ADDING, omitting(ArriveByWarp, barrier="ring0_empty")),
        *("WS0901", "ring0", "load_x", 0, "deadlock"),
    ),
    "two releases": fault(
        but(ADDING, each(ArriveByWarp, lambda r: (r, r), barrier="ring0_empty")),
        *("WS0904", "ring0", "add", 0, "arrival-unordered", "race"),
    ),
    "an early release": fault(
        but(of(turns(groups=1)), every(early_release, "add")),
        *("WS0906", "ring0", "load", None, "race"),
    ),
    "stages are released before their first use": fault(
        but(ADDING, released_at_the_start),
        *("WS0903", "ring0", "add", 0, "arrival-unordered", "race"),
    ),
    "the consumer does not wait": fault(
        but(ADDING, omitting(Await, barrier="ring1_full")),
        *("WS0907", "ring1", "add", 0, "race", "exit-outstanding"),
    ),
    "the producer does not wait": fault(
        but(ADDING, omitting(Await, barrier="ring1_empty")),
        *("WS0904", "ring1", "load_y", 1, "arrival-unordered", "race"),
    ),
    "the last fill is left out, and its use is not": fault(
        but(ADDING, every(all_but_last, "load_x")),
        *("WS0901", "ring0", "add", 0, "deadlock"),
    ),
    "the last use is left out, and its fill is not": fault(
        but(ADDING, every(all_but_last, "add")),
        *("WS0908", "ring0", "load_x", 0, "exit-outstanding"),
    ),
    "a tile that is skipped still counts": fault(
        but(ADDING, every(skipped_tile, "add")),
        *("WS0901", "ring0", "load_x", 0, "deadlock"),
    ),
    "a cursor moves once too often": fault(
        but(ADDING, each(Advance, lambda a: (a, a), "add", cursor="ring0_use")),
        *("WS0901", "ring0", "add", 0, "deadlock"),
    ),
    "a fill cursor moves once too often": fault(
        but(ADDING, each(Advance, lambda a: (a, a), "load_x")),
        *("WS0901", "ring0", "add", 0, "deadlock"),
    ),
    "rings are filled in an order in which nobody uses them": fault(
        but(ADDING, one_after_the_other),
        *("WS0901", "ring0", "load_x", 0, "deadlock"),
    ),
    "two producers fill one stage": fault(
        but(ADDING, two_producers),
        *("WS0906", "ring0", "load_y", None, "race", "uninitialized"),
    ),
    # --- stores and copies by threads
    "stores are not awaited": fault(
        but(STORING, omitting(AwaitCopies, "store")),
        *("WS0906", "ring1", "double", None, "race", "exit-outstanding"),
    ),
    "stores are not committed": fault(
        but(STORING, omitting(CommitCopies, "store")),
        *("WS0906", "ring1", "double", None, "race", "exit-outstanding"),
    ),
    "one store may be under way": fault(
        but(STORING, each(AwaitCopies, lambda a: replace(a, pending=1), "store")),
        *("WS0906", "ring1", "double", None, "race", "exit-outstanding"),
    ),
    "writers do not fence before a store": fault(
        but(STORING, omitting(FenceProxy, "double")),
        *("WS0914", "ring1", "double", None, "missing-proxy-fence"),
    ),
    "the loader does not fence": fault(
        but(ADDING, omitting(FenceProxy, "load_x")),
        *("WS0914", "ring0", "load_x", None, "missing-proxy-fence"),
    ),
    "the store role is not told": fault(
        but(STORING, omitting(ArriveByWarp, barrier="ring1_full")),
        *("WS0901", "ring1", "store", 0, "deadlock"),
    ),
    "cp.async copies are not awaited": fault(
        but(COPIED, omitting(AwaitCopies, "load")),
        *("WS0907", "ring0", "double", None, "race", "exit-outstanding"),
    ),
    "cp.async copies are not committed": fault(
        but(COPIED, omitting(CommitCopies, "load")),
        *("WS0907", "ring0", "double", None, "race", "exit-outstanding"),
    ),
    # --- groups that take turns
    "two groups in three stages": fault(
        of(trap(2, 3)),
        *("WS0902", "ring0", "add", 1, "phase-skipped", "race"),
    ),
    "two groups in five stages": fault(
        of(trap(2, 5)),
        *("WS0902", "ring0", "add", 1, "phase-skipped", "race"),
    ),
    "four groups in six stages": fault(
        of(trap(4, 6)),
        *("WS0902", "ring0", "add", 1, "phase-skipped", "race"),
    ),
    "a group moves on by its own share only": fault(
        but(TURNS, omitting(Advance, "add", by=1)),
        *("WS0904", "ring0", "add", 1, "arrival-unordered", "race"),
    ),
    # --- meetings
    "the block's barrier inside a role": fault(
        but(ADDING, meeting_of_the_block),
        *("WS0911", "", "add", None, "deadlock"),
    ),
    "a barrier in a role of one thread": fault(
        but(ADDING, each(FenceProxy, lambda f: (f, Synchronize()), "load_x")),
        *("WS0911", "", "load_x", None, "divergent", "deadlock"),
    ),
    "a release by some threads": fault(
        but(ADDING, each(ArriveByWarp, parted, barrier="ring0_empty")),
        *("WS0911", "", "add", None, "arrival-missing", "deadlock"),
    ),
    "a wait of some threads": fault(
        but(ADDING, each(Await, parted, "add")),
        *("WS0911", "", "add", None, "race", "arrival-unordered"),
    ),
    "a release by the elected thread": fault(
        but(ADDING, each(ArriveByWarp, lambda r: If(ELECTED, (r,)))),
        *("WS0911", "", "add", None, "divergent", "deadlock"),
    ),
    "two roles with one named barrier": fault(
        but(STORING, agent("double", barrier=3), agent("store", barrier=3)),
        *("WS0910", "", "double", None, "named-barrier-clash"),
    ),
    "groups reach beyond the named barriers": fault(
        but(TURNS, agent("add", barrier=15)),
        *("WS0910", "", "add", None, "illegal-argument"),
    ),
    # --- barriers' lives
    "barriers are not initialized": fault(
        but(ADDING, omitting(InitBarriers)),
        *("WS0915", "ring0", "", 0, "barrier-uninitialized"),
    ),
    "nobody meets after the initialization": fault(
        but(ADDING, without_meeting),
        *("WS0915", "ring1", "", 0, "race", "barrier-uninitialized"),
    ),
    # --- what a block has
    "one warp of a group changes its registers": fault(
        but(ADDING, with_registers(24, None, 240)),
        *("WS0913", "", "load_x", None, "setmaxnreg", "deadlock"),
    ),
    "warps of a group have different registers": fault(
        but(ADDING, with_registers(24, 32, 232)),
        *("WS0913", "", "load_y", None, "setmaxnreg"),
    ),
    "too many registers": fault(
        but(ADDING, with_registers(40, 40, 240)),
        *("WS0913", "", "add", None, "setmaxnreg", "deadlock"),
    ),
    "registers that are no multiple of eight": fault(
        but(ADDING, with_registers(44, 44, 200)),
        *("WS0913", "", "load_x", None),
    ),
    "too few registers": fault(
        but(ADDING, with_registers(16, 16, 200)),
        *("WS0913", "", "load_x", None),
    ),
    "a part of a warp group changes registers": fault(
        of(streaming(threads=80, registers=(40, 232))),
        *("WS0913", "", "add", None, "setmaxnreg"),
    ),
    "roles have a warp in common": fault(
        but(ADDING, agent("load_y", first_warp=4)),
        *("WS0916", "", "load_y", None, "deadlock"),
    ),
    "a role outside of the block": fault(
        but(ADDING, agent("load_y", first_warp=12)),
        *("WS0916", "", "load_y", None, "deadlock"),
    ),
    "too much shared memory": fault(
        of(streaming(tile=4096, stages=8)),
        *("WS0912", "", "", None),
    ),
}

KNOWN: Mapping[str, Fault] = {
    name: replace(
        each_one,
        text=TEXTS.get(name),
        refused=_REFUSED.get(name, ""),
        unsaid=_UNSAID.get(name, ""),
    )
    for name, each_one in _FAULTS.items()
}
