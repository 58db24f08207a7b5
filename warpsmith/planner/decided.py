"""What a plan has otherwise than the structure of its program says."""

from __future__ import annotations

from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Decided:
    """What a plan has otherwise than its program's structure says.

    Attributes:
        kept: numbers of tensors that are stored, by whichever kernel, and not computed again.
        alone: numbers of tensors that are stored by a kernel of their own.
        single: numbers of products that share their kernel with no other one.
        apart: numbers of products on tensor cores whose epilogue has a kernel of its own.
        joined: numbers of tensors, two of each pair, whose kernels are one.
        reread: numbers of tensors that one kernel writes, and others read that computed them.
        begun: numbers of reductions that the kernels of products begin, each with the product's.
    """

    kept: frozenset[int] = frozenset()
    alone: frozenset[int] = frozenset()
    single: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()
    joined: frozenset[tuple[int, int]] = frozenset()
    reread: frozenset[int] = frozenset()
    begun: frozenset[tuple[int, int]] = frozenset()

    @property
    def stored(self) -> frozenset[int]:
        return self.kept | self.alone

    def __or__(self, other: Decided) -> Decided:
        return Decided(
            self.kept | other.kept,
            self.alone | other.alone,
            self.single | other.single,
            self.apart | other.apart,
            self.joined | other.joined,
            self.reread | other.reread,
            self.begun | other.begun,
        )


NOTHING = Decided()
