"""Bugs that shipped, each as a small kernel and a correct twin: what a checker has to find.

A kernel of tests/sim/kernels/corpus is correct as it stands; `-DFAULT=name` puts in the fault of
that name and changes nothing else. One known bug cannot be shown by one kernel: a missing
griddepcontrol.wait (FlashAttention #2481) needs the kernel before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.sim.support.catalog import LOOPS, read_ptx, read_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A faulty kernel.

    `kinds` are the findings that name it rightly, the most telling first; one of them is expected.
    `trips` are the trip counts at which it shows, where that depends on them, and `clean_trips`
    those at which it does not; without them the spec is run as it stands. `issue` is where the bug
    was reported. `disputed` says why the kernel may be right after all.
    """

    kernel: str
    fault: str
    kinds: tuple[str, ...]
    trips: tuple[int, ...] = ()
    clean_trips: tuple[int, ...] = ()
    issue: str = ""
    disputed: str = ""

    @property
    def name(self) -> str:
        return f"{self.kernel}/{self.fault}"

    @property
    def macro(self) -> str:
        return f"FAULT={self.fault}"

    def ptx(self) -> str:
        return read_ptx(f"corpus/{self.kernel}", (self.macro,))

    def specs(self) -> Iterator[dict[str, Any]]:
        """The specs under which the bug has to be found."""
        for trips in self.trips or (None,):
            yield read_spec(f"corpus/{self.kernel}", trips)

    def clean_specs(self) -> Iterator[dict[str, Any]]:
        """The specs under which the kernel is right all the same."""
        for trips in self.clean_trips:
            yield read_spec(f"corpus/{self.kernel}", trips)


def _bug(
    kernel: str,
    fault: str,
    *kinds: str,
    trips: tuple[int, ...] = (),
    clean_trips: tuple[int, ...] = (),
    issue: str = "",
    disputed: str = "",
) -> Bug:
    assert not trips or f"corpus/{kernel}" in LOOPS
    return Bug(
        kernel=kernel,
        fault=fault,
        kinds=kinds,
        trips=trips,
        clean_trips=clean_trips,
        issue=issue,
        disputed=disputed,
    )


# TMA operates on a barrier through the generic proxy (PTX 9.3), and within one CTA bar.sync orders
# that with the init. Triton 3.6 emits no fence there.
_ONE_CTA = "within one CTA bar.sync alone orders the init with what follows"

BUGS = (
    # mbarriers: initialization, counts, phases, bytes.
    _bug("ring", "no_init_sync", "barrier-uninitialized", "race", issue="nvFuser #1552"),
    _bug(
        "ring", "no_init_fence", "missing-init-fence",
        trips=(1, 7), issue="TIRx #9", disputed=_ONE_CTA,
    ),
    _bug("multicast", "no_init_fence", "missing-init-fence", "barrier-uninitialized", "race"),
    _bug("ring", "uninitialized_barrier", "barrier-uninitialized", trips=(3, 7)),
    _bug("ring", "early_inval", "barrier-invalidated", "race"),
    _bug("ring", "live_init", "barrier-reinitialized", "race"),
    _bug(
        "ring", "constant_phase", "phase-skipped", "race", "deadlock",
        trips=(4, 7), clean_trips=(0, 1, 3), issue="Meta: constant phase",
    ),
    _bug("ring", "producer_parity", "deadlock", trips=(1, 7), clean_trips=(0,)),
    _bug("ring", "expect_less", "tx-mismatch", "deadlock", "race", trips=(1, 7)),
    _bug("ring", "expect_more", "tx-mismatch", "deadlock", trips=(1, 7)),
    _bug("ring", "double_arrive", "arrival-overflow", "phase-skipped", "race"),
    _bug(
        "ring", "all_lanes_arrive", "arrival-unordered", "arrival-overflow", "phase-skipped", "race"
    ),
    _bug(
        "ring", "silent_warp", "arrival-missing", "deadlock",
        trips=(4, 7), clean_trips=(0, 1, 3), issue="TileLang #2566",
    ),
    _bug("ring", "count_high", "arrival-missing", "deadlock", trips=(4, 7), clean_trips=(0, 1, 3)),
    _bug(
        "parity_trap", "three_stages", "phase-skipped", "race",
        trips=(4, 7, 12), clean_trips=(0, 1, 3), issue="a norm with 2 groups and 3 stages",
    ),
    # Rings: what the producer may overwrite, and what it must not fetch.
    _bug(
        "ring", "no_release_fence", "missing-proxy-fence",
        trips=(4, 7), clean_trips=(0, 1, 3), issue="TransformerEngine #2695",
    ),
    _bug(
        "ring", "no_release_syncwarp", "race", "missing-proxy-fence",
        trips=(4, 7), clean_trips=(0, 1, 3), issue="cudnn-frontend #426",
    ),
    _bug(
        "ring", "no_empty_wait", "race", "missing-proxy-fence", "arrival-overflow", "phase-skipped",
        trips=(4, 7), clean_trips=(0, 1, 3), issue="TileLang #2613",
    ),
    _bug(
        "prologue", "whole_prologue", "exit-outstanding",
        trips=(0, 1, 2), clean_trips=(3, 4, 7), issue="TileLang #2566",
    ),
    _bug(
        "prologue", "refill_too_far", "exit-outstanding",
        trips=(3, 4, 7), clean_trips=(0, 1, 2),
    ),
    _bug("prologue", "at_least_one", "deadlock", trips=(0,), clean_trips=(1, 2, 3, 4, 7)),
    _bug(
        "prologue", "tail_dropped", "exit-outstanding",
        trips=(1, 3, 7), clean_trips=(0, 2, 4), issue="TileLang #2567",
    ),
    _bug("prologue", "never_refilled", "deadlock", trips=(4, 7), clean_trips=(0, 1, 2, 3)),
    # Bulk copies have no bounds and no mercy.
    _bug("ring", "past_the_end", "out-of-bounds", "race", trips=(7,), issue="nvFuser #3917"),
    _bug("ring", "misaligned_source", "misaligned", trips=(1, 7)),
    # Between warps.
    _bug("handoff", "no_full_syncwarp", "race", "uninitialized", issue="cudnn-frontend #426"),
    _bug("handoff", "no_empty_syncwarp", "race", trips=(3, 5), clean_trips=(0, 1, 2)),
    _bug("handoff", "relaxed_arrive", "race", "uninitialized"),
    _bug("handoff", "no_full_wait", "race", "uninitialized"),
    _bug("handoff", "aliased", "race", trips=(2, 5), clean_trips=(0, 1), issue="Meta: alias"),
    _bug("handoff", "unwritten", "uninitialized", trips=(1, 5)),
    _bug("handoff", "past_the_end", "out-of-bounds", trips=(5,)),
    _bug("handoff", "misaligned_load", "misaligned", trips=(1, 5)),
    _bug("handoff", "trapped", "trap", trips=(1, 5)),
    # Bulk stores.
    _bug(
        "store", "no_store_fence", "missing-proxy-fence",
        trips=(1, 5), issue="DeepEP #642, TileOps #1574, nvFuser #4813",
    ),
    _bug("store", "issuer_fence_only", "missing-proxy-fence", trips=(1, 5)),
    _bug("store", "no_store_sync", "race", "missing-proxy-fence", trips=(1, 5)),
    _bug("store", "no_read_wait", "race", trips=(3, 5), clean_trips=(0, 1, 2)),
    _bug("store", "wait_by_another", "race", trips=(3, 5), clean_trips=(0, 1, 2)),
    _bug("store", "read_wait_only", "race", "missing-proxy-fence", trips=(1, 5), issue="mirage"),
    _bug("store", "early_exit", "exit-outstanding", trips=(1, 5), issue="nvFuser insert_syncs"),
    # Clusters.
    _bug(
        "cluster", "cta_scope_arrive", "race", trips=(1, 5), issue="cutlass #3643, #3647",
    ),
    _bug("cluster", "cta_scope_wait", "race", trips=(1, 5), issue="Quack #63"),
    _bug("cluster", "no_start_sync", "barrier-uninitialized", "race", "exit-outstanding"),
    _bug("cluster", "local_start_sync", "barrier-uninitialized", "race", "missing-init-fence"),
    _bug("cluster", "no_end_sync", "exit-outstanding", "race"),
    _bug("multicast", "peer_leaves", "exit-outstanding", issue="cluster peers' early exit"),
    _bug("multicast", "peer_expects_not", "tx-mismatch", "race", "exit-outstanding"),
    # Named barriers.
    _bug("named", "wrong_count", "named-barrier-count", "race", "deadlock"),
    _bug("named", "no_full_arrive", "deadlock", "named-barrier-count"),
    _bug("named", "extra_arrive", "named-barrier-count", issue="vLLM #26026"),
    _bug("named", "same_id", "named-barrier-clash", "named-barrier-count", "race", "deadlock"),
    _bug("named", "block_id", "named-barrier-clash", "named-barrier-count", "race", "deadlock"),
    _bug("named", "divergent_sync", "divergent", "deadlock", issue="TIRx #66"),
    # Registers.
    _bug("registers", "over_pool", "setmaxnreg", "deadlock", issue="TIRx #165"),
    _bug("registers", "no_decrease", "setmaxnreg", "deadlock"),
    _bug("registers", "uneven", "setmaxnreg"),
    _bug("registers", "one_warp", "setmaxnreg"),
    _bug("registers", "wrong_way", "setmaxnreg"),
    _bug("registers", "no_minimum", "setmaxnreg", issue="TileLang #2559, cutlass #2904, #3406"),
    # wgmma.
    _bug("wgmma", "no_fence", "wgmma-register"),
    _bug("wgmma", "touched", "wgmma-register"),
    _bug("wgmma", "short_wait", "wgmma-register"),
    _bug("wgmma", "no_commit", "wgmma-register", "wgmma-overwrite"),
    _bug(
        "wgmma", "early_refill", "wgmma-overwrite", "race", trips=(3, 4), clean_trips=(0, 1, 2)
    ),
    _bug(
        "wgmma", "no_refill_sync", "wgmma-overwrite", "race", trips=(3, 4), clean_trips=(0, 1, 2)
    ),
    _bug("wgmma", "no_proxy_fence", "missing-proxy-fence"),
    _bug("wgmma", "missing_warp", "divergent", "deadlock"),
    # Grids.
    _bug(
        "grid", "idle_leaves", "deadlock",
        trips=(1, 2, 3), issue="CTA without work in a persistent grid",
    ),
    _bug("grid", "no_block_sync", "race"),
    _bug("grid", "relaxed_arrive", "race"),
    _bug("grid", "relaxed_wait", "race"),
    _bug("grid", "no_final_sync", "race"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFaults:
    """Faults of multi_role.cu: those that its author's listing shows, alone and together.

    `kinds` are the findings that name them rightly, the most telling first; none where the kernel
    is right all the same.
    """

    faults: tuple[str, ...]
    kinds: tuple[str, ...]
    disputed: str = ""

    @property
    def macro(self) -> str:
        return f"FAULTS={'|'.join(self.faults)}"

    def ptx(self) -> str:
        return read_ptx("multi_role", (self.macro,))


def _roles(fault: str, *kinds: str) -> RoleFaults:
    return RoleFaults(faults=(fault,), kinds=kinds)


# 9 rows on 2 CTAs: the second CTA's last row does not exist.
MULTI_ROLE = (
    _roles("shared_full"),  # two arrivals and the bytes of both rows: a phase ends when both landed
    _roles("wrong_warp", "deadlock", "arrival-missing"),
    _roles(
        "idle_fall_through",
        "arrival-overflow",
        "phase-skipped",
        "named-barrier-count",
        "race",
        "deadlock",
    ),
    _roles("double_release", "arrival-overflow", "phase-skipped", "race", "deadlock"),
    _roles("single_warp_dec", "setmaxnreg"),
    _roles("one_sided_bounds", "out-of-bounds", "exit-outstanding"),
    RoleFaults(faults=("no_init_fence",), kinds=("missing-init-fence",), disputed=_ONE_CTA),
    _roles("no_release_fence", "missing-proxy-fence"),
    _roles("early_inval", "barrier-invalidated", "race"),
    RoleFaults(faults=("shared_full", "wrong_warp"), kinds=("deadlock", "arrival-missing")),
    _roles("every_fault", "setmaxnreg", "deadlock", "arrival-overflow", "missing-init-fence"),
)
