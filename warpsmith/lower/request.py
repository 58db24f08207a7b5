"""What is asked of a kernel besides its schedule."""

from __future__ import annotations

from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What passes are told; without more, a kernel is launched by itself and nobody watches it.

    Attributes:
        wait_limit: nanoseconds after which a wait is given up; None where nobody watches.
        follows: the kernel may be launched before the one before it has ended.
        followed: the next kernel may be launched so.
        settled: tensors that no kernel of the call writes.
        pace: bytes a nanosecond that one multiprocessor may ask for beside a kernel that is waited
            for; 0 where nothing is held back.
        thorough: rules that cost time are verified, too (`lower/verify`).
    """

    wait_limit: int | None = None
    follows: bool = False
    followed: bool = False
    settled: tuple[str, ...] = ()
    pace: float = 0.0
    thorough: bool = False
