"""Roles: which warps run the definition of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.errors import ScheduleError
from warpsmith.ir.fusion import Fusion, Registers
from warpsmith.ir.tensor import TensorView
from warpsmith.targets.family import BUDGETS

LOAD = "load"
"""The role that `warp_specialize` gives a tensor."""


def set_role(tensor: TensorView, role: str) -> TensorView:
    """Have a tensor defined by warps of their own.

    Tensors of one role are lowered together, to loops of their own. What another role reads of them
    goes through a ring in shared memory. A tensor in registers, if it names no role, is in that of
    its readers; all else that names none is in the role `compute`.

    Args:
        tensor: no input of the fusion. An output that TMA copies from shared memory, in a role of
            its own, makes a store role.
        role: a name, such as `load_a`: letters, digits and underscores.

    Raises:
        ScheduleError: WS0240 for a name that is none, or an input; WS0242 where the tensor already
            has another role.
    """
    if not isinstance(role, str) or not role.isidentifier():
        raise ScheduleError(
            f"role {role!r} of {tensor.name} is no name",
            code="WS0240",
            remedy="use letters, digits and underscores, as in `load_a`",
        )
    if tensor.is_input:
        raise ScheduleError(
            f"{tensor.name} is an input of the fusion, which no role defines",
            code="WS0240",
            remedy=f"give its cache the role: {tensor.name}.cache_after()",
        )
    if tensor.role and tensor.role != role:
        raise ScheduleError(
            f"{tensor.name} is in role `{tensor.role}`, and cannot be in role `{role}` too",
            code="WS0242",
            remedy=f"name one role, or let `{role}` have a copy of its own: cache_after()",
        )
    tensor.role = role
    return tensor


def order_groups(tensor: TensorView, section: str) -> TensorView:
    """Have the groups of a role compute a tensor one after the other.

    A group starts what it computes of a section when the group before it is done with its own, and
    hands on to the next one. So two or three groups can have the tensor cores, or the way to
    memory, to themselves in turn (ping-pong), while the others do something else.

    Args:
        section: a name, which the tensors that are computed between the same two hand-offs share.

    Raises:
        ScheduleError: WS0240 for a name that is none, or an input; lowering refuses sections of
            roles whose groups do not take turns (WS0250).
    """
    if not isinstance(section, str) or not section.isidentifier() or tensor.is_input:
        raise ScheduleError(
            f"section {section!r} of {tensor.name}: "
            + ("an input is not computed" if tensor.is_input else "it is no name"),
            code="WS0240",
            remedy="name a computed tensor's section by letters, digits and underscores",
        )
    tensor.section = section
    return tensor


def set_registers(fusion: Fusion, registers: Registers) -> None:
    """Say how many registers the threads of each role may have (`setmaxnreg`).

    Args:
        registers: `auto` derives them from what each role needs; `off` leaves all threads what the
            launch gives; a pair is for roles that copy or store, and for the others; a mapping
            names roles, and leaves the others to be derived.

    Raises:
        ScheduleError: WS0239 for numbers that are no multiples of 8 from 24 to 248.
    """
    if registers not in ("auto", "off"):
        given = registers.values() if isinstance(registers, Mapping) else registers
        for number in given:
            if not isinstance(number, int) or number not in BUDGETS:
                raise ScheduleError(
                    f"{number!r} registers: a role has a multiple of {BUDGETS.step}, from "
                    f"{BUDGETS.start} to {BUDGETS[-1]}",
                    code="WS0239",
                    remedy=f"use {_nearest(number)}, or 'auto'",
                )
    fusion.registers = registers


def _nearest(number: object) -> str:
    """What `setmaxnreg` takes in place of a number: no fewer registers, where there are as many."""
    if not isinstance(number, int):
        return "such a number"
    return str(next((n for n in BUDGETS if n >= number), BUDGETS[-1]))
