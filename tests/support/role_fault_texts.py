"""Faults of roles in emitted texts, where the wrong kernel has no text of its own."""

from collections.abc import Mapping

from tests.support.role_fault_kernels import ADDING, DOUBLING, TURNS, WITH_REGISTERS, of
from tests.support.role_faults import Text
from tests.support.role_kernels import streaming

_REFUSED = "code generation refuses the kernel, too"
_WHOLE = "the text of a role's registers is made for its whole warp group"
_OTHER = "the text elects, meets and dispatches by the roles that it is given"


def _bar(number: str, threads: int) -> str:
    return f'asm volatile("bar.sync %0, {threads};" :: "r"({number}) : "memory"); '


def _set(direction: str, count: int) -> str:
    return f'asm volatile("setmaxnreg.{direction}.sync.aligned.u32 {count};"); '


_LOADERS = """ws_fewer_registers<40>();
    // load_x
    if (warp == 0) {"""

TEXTS: Mapping[str, Text] = {
    "the block's barrier inside a role": Text(
        ADDING,
        (("ws_barrier_release(ring0_empty", "__syncthreads(); ws_barrier_release(ring0_empty"),),
        _REFUSED,
    ),
    "a barrier in a role of one thread": Text(
        ADDING, (("ws_fence_async();", "__syncthreads(); ws_fence_async();"),), _REFUSED
    ),
    "two roles with one named barrier": Text(
        DOUBLING,
        (
            (
                "ws_barrier_release(ring1_full",
                _bar("3", 128) + "ws_barrier_release(ring1_full",
            ),
            (
                "ws_barrier_release(ring1_empty",
                _bar("3", 128) + "ws_barrier_release(ring1_empty",
            ),
        ),
        "the roles of the wrong kernel have a barrier and do not meet",
    ),
    "groups reach beyond the named barriers": Text(
        TURNS,
        (
            (
                "ws_barrier_release(ring0_empty",
                _bar("15 + group", 128) + "ws_barrier_release(ring0_empty",
            ),
        ),
        _REFUSED,
    ),
    "one warp of a group changes its registers": Text(
        WITH_REGISTERS,
        (
            (
                _LOADERS,
                "// load_x\n    if (warp == 0) {\n      ws_fewer_registers<40>();",
            ),
        ),
        _WHOLE,
    ),
    "warps of a group have different registers": Text(
        WITH_REGISTERS,
        (
            (
                "ws_fewer_registers<40>();",
                "if (warp == 0) ws_fewer_registers<24>(); else ws_fewer_registers<40>();",
            ),
        ),
        _WHOLE,
    ),
    "a part of a warp group changes registers": Text(
        of(streaming(threads=96)),
        (
            ("__launch_bounds__(224)", "__launch_bounds__(224, 1)"),
            ("// load_x", _set("dec", 40)),
            ("// add", _set("dec", 232)),
        ),
        _REFUSED,
    ),
    "roles have a warp in common": Text(
        ADDING, (("else if (warp == 1) {", "else if (warp == 4) {"),), _REFUSED
    ),
    "a role outside of the block": Text(
        ADDING, (("else if (warp == 1) {", "else if (warp == 12) {"),), _OTHER
    ),
}
