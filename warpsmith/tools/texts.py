"""Parts of emitted texts that people want to see."""

from __future__ import annotations


def kernel_source(cuda: str) -> str:
    """The kernel without the prelude before it, which is the same for all."""
    start = cuda.find('extern "C"')
    return cuda[max(start, 0) :].strip()
