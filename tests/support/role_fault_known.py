"""The kernels of tests/protocol/test_wrong.py, with what the simulator finds in each."""

from collections.abc import Mapping

from tests.protocol.test_wrong import WRONG
from tests.support.role_fault_texts import TEXTS
from tests.support.role_faults import Fault

Finds = tuple[int | None, tuple[str, ...]]
"""The phase that the refusal names, and kinds of findings."""

_FINDS: Mapping[str, Finds] = {
    "the consumer's parity": (0, ("race", "deadlock")),
    "the producer's parity": (0, ("deadlock",)),
    "an arrival too many is expected": (0, ("arrival-missing", "deadlock")),
    "an arrival too few is expected": (0, ("arrival-unordered", "race")),
    "two arrivals at full are expected": (0, ("arrival-missing", "deadlock")),
    "no arrival is expected": (None, ("illegal-argument",)),
    "idle warps arrive": (0, ("arrival-unordered", "race", "deadlock")),
    "more bytes are announced": (0, ("tx-mismatch", "deadlock")),
    "fewer bytes are announced": (0, ("tx-mismatch", "deadlock")),
    "no bytes are announced": (1, ("race", "tx-mismatch")),
    "bytes are announced, and nothing is copied": (0, ("tx-mismatch", "deadlock")),
    "bytes are announced without an arrival": (0, ("deadlock",)),
    "a copy counts at no barrier": (None, ()),
    "a stage that threads of a warp tell apart": (None, ()),
    "no release": (0, ("deadlock",)),
    "two releases": (0, ("arrival-unordered", "race")),
    "an early release": (None, ("race",)),
    "stages are released before their first use": (0, ("arrival-unordered", "race")),
    "the consumer does not wait": (0, ("race", "exit-outstanding")),
    "the producer does not wait": (1, ("arrival-unordered", "race")),
    "the last fill is left out, and its use is not": (0, ("deadlock",)),
    "the last use is left out, and its fill is not": (0, ("exit-outstanding",)),
    "a tile that is skipped still counts": (0, ("deadlock",)),
    "a cursor moves once too often": (0, ("deadlock",)),
    "a fill cursor moves once too often": (0, ("deadlock",)),
    "rings are filled in an order in which nobody uses them": (0, ("deadlock",)),
    "two producers fill one stage": (None, ("race", "uninitialized")),
    "stores are not awaited": (None, ("race", "exit-outstanding")),
    "stores are not committed": (None, ("race", "exit-outstanding")),
    "one store may be under way": (None, ("race", "exit-outstanding")),
    "writers do not fence before a store": (None, ("missing-proxy-fence",)),
    "the loader does not fence": (None, ("missing-proxy-fence",)),
    "the store role is not told": (0, ("deadlock",)),
    "cp.async copies are not awaited": (None, ("race", "exit-outstanding")),
    "cp.async copies are not committed": (None, ("race", "exit-outstanding")),
    "two groups in three stages": (1, ("phase-skipped", "race")),
    "two groups in five stages": (1, ("phase-skipped", "race")),
    "four groups in six stages": (1, ("phase-skipped", "race")),
    "a group moves on by its own share only": (1, ("arrival-unordered", "race")),
    "the block's barrier inside a role": (None, ("deadlock",)),
    "a barrier in a role of one thread": (None, ("divergent", "deadlock")),
    "a release by some threads": (None, ("arrival-missing", "deadlock")),
    "a wait of some threads": (None, ("race", "arrival-unordered")),
    "a release by the elected thread": (None, ("divergent", "deadlock")),
    "two roles with one named barrier": (None, ("named-barrier-clash",)),
    "groups reach beyond the named barriers": (None, ("illegal-argument",)),
    "barriers are not initialized": (0, ("barrier-uninitialized",)),
    "nobody meets after the initialization": (0, ("race", "barrier-uninitialized")),
    "one warp of a group changes its registers": (None, ("setmaxnreg", "deadlock")),
    "warps of a group have different registers": (None, ("setmaxnreg",)),
    "too many registers": (None, ("setmaxnreg", "deadlock")),
    "registers that are no multiple of eight": (None, ()),
    "too few registers": (None, ()),
    "a part of a warp group changes registers": (None, ("setmaxnreg",)),
    "roles have a warp in common": (None, ("deadlock",)),
    "a role outside of the block": (None, ("deadlock",)),
    "too much shared memory": (None, ()),
}

NOT_FAULTS = ("statements after the roles",)
"""Of `WRONG`: refused since nothing is ever lowered so, and harmless; see `HARMLESS`."""

_REFUSED = {
    "registers that are no multiple of eight": "WS0500",
    "too few registers": "WS0500",
    "a stage that threads of a warp tell apart": "WS0500",
    "too much shared memory": "WS0801",
}

_UNSAID = {"a copy counts at no barrier": "PTX has no load by TMA without an mbarrier"}


def _fault(name: str) -> Fault:
    wrong, code, ring, role = WRONG[name]
    phase, finds = _FINDS[name]
    return Fault(
        wrong,
        code,
        ring,
        (role,) if role else (),
        phase,
        finds,
        TEXTS.get(name),
        _REFUSED.get(name, ""),
        _UNSAID.get(name, ""),
    )


KNOWN: Mapping[str, Fault] = {name: _fault(name) for name in WRONG if name not in NOT_FAULTS}
