"""Let a kernel start before the one before it has ended, and let the next one start so."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious, touched_globally


def start_early(kernel: Kernel) -> Kernel:
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
    """
    if kernel.early:
        return kernel
    body = kernel.body
    first = next((n for n, s in enumerate(body) if touched_globally(s)), len(body))
    return replace(kernel, body=(*body[:first], AwaitPrevious(), *body[first:]), early=True)


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
