"""More faults of roles: those of the seed, of bounds, of groups and of chains."""

from collections.abc import Mapping

from tests.support.role_fault_edits import (
    always_passing,
    by_each_thread,
    by_one_thread,
    copied_first,
    ended_by_the_loader,
    falling_through,
    flipped,
    last_release_first,
    meeting_at_one,
    once_more,
    parted_meeting,
    released_at_the_start,
    run_by_every_lane,
    shared_full,
    signalled_early,
    to_own_turn,
    unbounded,
    with_stages,
)
from tests.support.role_fault_kernels import (
    ADDING,
    CHAIN,
    DOUBLING,
    PING_PONG,
    SUMS,
    TURNS,
    UNEQUAL,
    but,
    each,
    every,
    moved,
    omitting,
)
from tests.support.role_faults import Fault, Text, fault
from warpsmith.kernel.nodes import For
from warpsmith.kernel.rings import ArriveByWarp, Await, Begin, TileCopy

_TURN = "compute_main_turn"


MORE: Mapping[str, Fault] = {
    # --- the seed's
    "idle warps run the computing role": fault(
        but(ADDING, falling_through),
        *("WS0904", "ring1", "add load_y", 0),
        *("arrival-unordered", "race", "deadlock"),
    ),
    "idle warps fall through the dispatch": Fault(
        but(ADDING, falling_through),
        *("WS0904", "ring1", ("add", "load_y"), 0),
        ("arrival-unordered", "deadlock"),
        Text(ADDING, (("if (warp < 4) {", "if (warp < 2) {"),), "the seed's text falls through"),
    ),
    "stages are released twice before their first use": fault(
        but(ADDING, released_at_the_start, released_at_the_start),
        *("WS0904", "ring0", "add load_x", 0),
        *("arrival-unordered", "race"),
    ),
    "two loads count at a barrier of one arrival": fault(
        but(ADDING, shared_full),
        *("WS0904", "ring0", "load_y load_x", 1),
        *("arrival-unordered", "race"),
    ),
    "a bound is missing in a loading role only": fault(
        but(UNEQUAL, every(unbounded, "load_a")),
        *("WS0908", "ring0", "load_a compute", 1, "exit-outstanding"),
    ),
    "a bound is missing in the computing role only": fault(
        but(UNEQUAL, every(unbounded, "compute")),
        *("WS0901", "ring0", "load_a compute", 1, "deadlock"),
    ),
    "a bound is missing in the storing role only": fault(
        but(CHAIN, every(unbounded, "store")),
        *("WS0901", "ring1", "compute store", 0, "deadlock"),
    ),
    # --- waits, cursors and counts
    "readers wait behind their reads": fault(
        but(ADDING, every(last_release_first, "add")),
        *("WS0907", "ring0", "add load_x", None, "race"),
    ),
    "copies are asked for before the wait": fault(
        but(ADDING, every(copied_first, "load_x")),
        *("WS0905", "ring0", "load_x add", 0, "race", "tx-mismatch"),
    ),
    "a stage is passed on before it is written": fault(
        but(CHAIN, every(signalled_early, "transform_0")),
        *("WS0907", "ring2", "compute transform_0", None, "race"),
    ),
    "a cursor believes in two stages of three": fault(
        but(ADDING, every(with_stages("ring0_use", 2))),
        *("WS0901", "ring0", "load_x add", 0, "deadlock"),
    ),
    "a fill cursor believes in four stages of three": fault(
        but(ADDING, every(with_stages("ring0_fill", 4), "load_x")),
        *("WS0915", "ring0", "load_x", None, "barrier-uninitialized"),
    ),
    "a load role has one iteration more": fault(
        but(ADDING, each(For, once_more, "load_y")),
        *("WS0905", "ring1", "load_y add", 2, "tx-mismatch", "out-of-bounds"),
    ),
    "the producer's wait always passes": fault(
        but(ADDING, each(Await, always_passing, "load_x")),
        *("WS0903", "ring0", "add load_x", 0, "deadlock"),
    ),
    "each thread arrives": fault(
        but(ADDING, each(ArriveByWarp, by_each_thread, barrier="ring0_empty")),
        *("WS0904", "ring0", "add load_x", 0, "arrival-unordered"),
    ),
    "one thread of a role arrives": fault(
        but(ADDING, each(ArriveByWarp, by_one_thread, barrier="ring1_empty")),
        *("WS0901", "ring1", "load_y add", 0, "arrival-missing", "deadlock"),
    ),
    "every lane loads": fault(
        but(ADDING, run_by_every_lane),
        *("WS0904", "ring0", "load_x add", 0, "arrival-overflow"),
    ),
    "another ring's stage is given back": fault(
        but(ADDING, moved(ArriveByWarp, 1, "empty", "add", barrier="ring0_empty")),
        *("WS0904", "ring1", "add load_y", 0, "arrival-unordered", "deadlock"),
    ),
    "another ring's stage is waited for": fault(
        but(ADDING, moved(Await, 1, "full", "add", barrier="ring0_full")),
        *("WS0907", "ring0", "add load_x", 0, "race"),
    ),
    # --- meetings and barriers' lives
    "a barrier of two groups": fault(
        but(DOUBLING, meeting_at_one),
        *("WS0910", "", "double add", None, "named-barrier-clash"),
    ),
    "half of a group meets": fault(
        but(ADDING, parted_meeting),
        *("WS0911", "", "add", None, "arrival-missing", "deadlock"),
    ),
    "barriers end while others use them": fault(
        but(ADDING, ended_by_the_loader),
        *("WS0915", "ring0", "load_x add", 1, "barrier-invalidated"),
    ),
    # --- chains and groups
    "a transformer does not wait for a free stage": fault(
        but(CHAIN, omitting(Await, "transform_0", barrier="ring2_empty")),
        *("WS0906", "ring2", "transform_0 compute", None, "race"),
    ),
    "the storing role does not wait": fault(
        but(CHAIN, omitting(Await, "store")),
        *("WS0907", "ring1", "store compute", None, "race", "uninitialized"),
    ),
    "groups start at one stage": fault(
        but(TURNS, each(Begin, lambda b: Begin(b.cursor), "add")),
        *("WS0904", "ring0", "add load", 1, "arrival-unordered", "race"),
    ),
    "groups hand on to themselves": fault(
        but(PING_PONG, to_own_turn), *("WS0901", "ring0", "load compute", 1, "deadlock")
    ),
    "groups do not hand on": fault(
        but(PING_PONG, omitting(ArriveByWarp, barrier=_TURN)),
        *("WS0901", _TURN, "compute", 0, "deadlock"),
    ),
    "groups do not wait for their turn": fault(
        but(PING_PONG, omitting(Await, barrier=_TURN)),
        *("WS0904", "ring0", "compute load", 1, "phase-skipped", "race"),
    ),
    "the other group begins": fault(
        but(PING_PONG, each(Await, flipped, barrier=_TURN)),
        *("WS0901", "ring0", "load compute", 0, "deadlock"),
    ),
    "groups give back no stage": fault(
        but(SUMS, omitting(ArriveByWarp)), *("WS0901", "ring0", "load compute", 0, "deadlock")
    ),
    "loads for groups are announced and left out": fault(
        but(SUMS, omitting(TileCopy)), *("WS0905", "ring0", "load compute", 0, "tx-mismatch")
    ),
}
