"""Let a kernel start before the one before it has ended, and let the next one start so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious, touched_globally


def start_early(kernel: Kernel, settled: Sequence[str] = ()) -> Kernel:
    """Make a kernel one that may be launched before the kernel before it has ended.

    All threads wait behind whatever needs no global memory, such as making barriers ready, and
    before roles part. Before::

        initialize barriers
        for i < n:
          T2[i] = T1[i]

    After::

        initialize barriers
        await the kernel before
        for i < n:
          T2[i] = T1[i]

    Args:
        settled: names of tensors that no kernel of the call writes, which may be read before.
    """
    if kernel.early:
        return kernel
    body = kernel.body
    waits = (isinstance(s, Branch) or bool(touched_globally(s, settled)) for s in body)
    first = next((n for n, each in enumerate(waits) if each), len(body))
    reads = dict.fromkeys(name for s in body[:first] for name in touched_globally(s))
    awaited = (*body[:first], AwaitPrevious(), *body[first:])
    return replace(kernel, body=awaited, early=True, settled=tuple(reads))


def admit_next(kernel: Kernel) -> Kernel:
    """Let the next kernel start, as far as there is room, once all blocks of this one have.

    Before::

        initialize barriers

    After::

        admit the next kernel
        initialize barriers
    """
    if any(isinstance(statement, AdmitNext) for statement in kernel.body):
        return kernel
    return replace(kernel, body=(AdmitNext(), *kernel.body))
