"""Branches, the end, hints, and the lanes of one warp together."""

from __future__ import annotations

from warpsmith.sim.isa import Flag, Mode, Op
from warpsmith.sim.ptx.decode.form import Row, row

_SHUFFLED = "mode=up|down|bfly|idx type=b32"

ROWS: tuple[Row, ...] = (
    row("bra", Op.BRA, "uni?", "l"),
    row("brx", Op.BRX, "idx uni?", "s:u32 l"),
    row("exit", Op.EXIT, "", ""),
    row("ret", Op.EXIT, "uni?", ""),  # a return from a call is turned into a branch
    row("trap", Op.TRAP, "", ""),
    row("brkpt", Op.BRKPT, "", ""),
    row("nanosleep", Op.NANOSLEEP, "type=u32", "s"),
    row("pmevent", Op.NOP, "mask?", "x"),
    row("griddepcontrol", Op.GRIDDEP, "launch_dependents", "", mode=Mode.LAUNCH),
    row("griddepcontrol", Op.GRIDDEP, "wait", "", mode=Mode.WAIT),
    row("setmaxnreg", Op.SETMAXNREG, "mode=inc|dec sync aligned type=u32", "n"),
    row("activemask", Op.ACTIVEMASK, "type=b32", "d"),
    row("shfl", Op.SHFL, f"sync {_SHUFFLED}", "d s s:u32 s:u32 s:u32"),
    row(
        *("shfl", Op.SHFL, f"sync {_SHUFFLED}", "d|d:pred s s:u32 s:u32 s:u32"),
        flags=Flag.PREDICATE,
    ),
    row("vote", Op.VOTE, "sync mode=all|any|uni type=pred", "d s s:u32"),
    row("vote", Op.VOTE, "sync mode=ballot type=b32", "d s:pred s:u32"),
    row("match", Op.MATCH, "mode=any sync type=b32|b64", "d:b32 s s:u32"),
    row("match", Op.MATCH, "mode=all sync type=b32|b64", "d:b32 s s:u32"),
    row(
        *("match", Op.MATCH, "mode=all sync type=b32|b64", "d:b32|d:pred s s:u32"),
        flags=Flag.PREDICATE,
    ),
    row("redux", Op.REDUX, "sync mode=add|min|max type=$int32", "d s s:u32"),
    row("redux", Op.REDUX, "sync mode=and|or|xor type=b32", "d s s:u32"),
    row("elect", Op.ELECT, "sync", "d:b32|d:pred s:u32", flags=Flag.PREDICATE),
    row("bar", Op.WARP_SYNC, "warp sync", "s:u32"),
)
