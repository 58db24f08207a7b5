"""Pipelines: stages through which a producer runs ahead of its consumers.

Lowering makes `Fill`, `Drain`, `OneStage`, `SkipStages` and `Section` where a stage is filled or
used, and names the pipelines of a loop. `lower/passes/lower_pipelines.py` finds the places of the
four verbs `Acquire`, `Commit`, `Wait` and `Release`, and replaces them by what they are on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import Orders, body, expression, plain
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.values import dataclass


class By(Enum):
    """What fills the stages of a pipeline."""

    TMA = "the TMA unit"
    COPIES = "cp.async"
    THREADS = "threads"
    SENDS = "st.async"
    REGISTERS = "loads into registers"
    NOTHING = "nothing"
    """The pipeline has no contents: it orders."""


class Scope(Enum):
    """Who passes stages to whom."""

    AGENT = "the same warps fill and use them"
    BLOCK = "roles of a block, or groups of one"
    CLUSTER = "all blocks of a cluster, for each other"


@dataclass(frozen=True, slots=True)
class Content:
    """A buffer, and how many of its elements one stage holds; an expression where calls decide.

    Attributes:
        sharing: ranks of the blocks of a cluster in sets that hold the same in a stage: each block
            of a set loads a share for all of it. Empty where each block loads what it holds.
    """

    buffer: Buffer
    elements: int | Expr
    sharing: tuple[tuple[int, ...], ...] = ()

    @property
    def name(self) -> str:
        return self.buffer.name


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of the warps of roles that come by stages in turn.

    Attributes:
        count: groups; 1 where all warps of a role come by every stage.
        share: stages that a group has before the next one's.
        roles: whose groups they are.
        owned: each stage is one group's, always. If not, groups use all stages, and only the order
            in which they take turns tells them when.
    """

    count: int = 1
    share: Expr = integers.ONE
    roles: tuple[str, ...] = ()
    owned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Stages that a producer fills and consumers use, one after the other, round and round.

    The producer acquires a stage, fills it and commits it; a consumer waits for it, uses it and
    releases it. Nobody acquires a stage that is not released, or finds one that is not committed.
    So a pipeline of four stages, each of a tile of `T2` and one of `T3`, which the TMA unit brings
    for the role `load` and from which the role `compute` multiplies::

        Pipeline(name="ring0", stages=4, contents=(Content(T2, 8192), Content(T3, 16384)),
                 by=By.TMA, producer="load", consumers=("compute",))

        load:     for k { acquire; T2[stage ..] = ..; T3[stage ..] = ..; commit }
        compute:  for k { wait;  multiply;  release }

    Where one agent does both, its loop fills `prefetch` iterations before it uses. A pipeline
    without contents is an order: a group of warps waits for its turn, and releases the next one's.

    Blocks of a cluster may load for each other what they all read, or send each other what they
    have reduced. Each then has such a pipeline, and its producer fills a stage when it is free in
    every block that gets a share from it.

    Attributes:
        stages: how many tiles of each content there are; 1 where nothing runs ahead.
        contents: what a stage holds.
        by: what fills it.
        producer, consumers: names of roles; empty where one agent does both, in place.
        prefetch: iterations that an agent's fills are ahead of its uses.
        groups: of the roles, where they come by stages in turn.
        label: pipelines that are filled and used together are one if this is equal.
        interval: nanoseconds for each fill, none of which begins before its time; 0 where stages
            alone say when.
        reused: stages are filled again; if not, nobody waits until they are free.
        where: the line of Python that asked for it, as `model.py:12`; empty if unknown.
    """

    name: str
    stages: int
    contents: tuple[Content, ...] = ()
    by: By = By.THREADS
    producer: str = ""
    consumers: tuple[str, ...] = ("",)
    prefetch: int = 0
    groups: Groups = Groups()
    label: str = ""
    interval: int = 0
    reused: bool = True
    where: str = field(default="", compare=False)

    @property
    def scope(self) -> Scope:
        if any(content.sharing for content in self.contents):
            return Scope.CLUSTER
        return Scope.BLOCK if self.producer else Scope.AGENT

    @property
    def peers(self) -> tuple[tuple[int, ...], ...]:
        """By rank, the blocks of a cluster that load something for that one's stages, itself too.

        It loads for the same ones. Empty where each block fills its own.
        """
        sets = [set(ranks) for content in self.contents for ranks in content.sharing]
        blocks = range(1 + max((rank for ranks in sets for rank in ranks), default=-1))
        return tuple(
            tuple(sorted(set().union(*(ranks for ranks in sets if rank in ranks))))
            for rank in blocks
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the buffers."""
        return tuple(content.name for content in self.contents)

    @property
    def in_registers(self) -> bool:
        return self.by is By.REGISTERS

    @property
    def owners(self) -> int:
        """Groups each of which has stages of its own; 1 where they have none."""
        return self.groups.count if self.groups.owned else 1

    @property
    def is_guarded(self) -> bool:
        """Whether mbarriers tell when stages are full and free."""
        return self.counts_bytes or self.scope is Scope.BLOCK

    @property
    def counts_bytes(self) -> bool:
        """Whether a phase of the full barriers is one arrival, and the bytes of a stage."""
        return self.by in (By.TMA, By.SENDS)

    @property
    def full(self) -> Buffer:
        """A barrier a stage, whose phases end when it is filled; in an order, when its turn has
        come.
        """
        word = "full" if self.contents else "turn"
        return _barriers(f"{self.name}_{word}", self.stages)

    @property
    def empty(self) -> Buffer | None:
        """A barrier a stage, whose phases end when its users are done; None where none waits.

        Blocks that send to each other in no role meet instead, once in so many stages.
        """
        if not self.reused or not self.contents or (self.by is By.SENDS and not self.producer):
            return None
        return _barriers(f"{self.name}_empty", self.stages)

    @property
    def barriers(self) -> tuple[Buffer, ...]:
        """Those of full stages, then those of free ones, where there are any."""
        if not self.is_guarded:
            return ()
        return (self.full,) if self.empty is None else (self.full, self.empty)


def _barriers(name: str, stages: int) -> Buffer:
    """Memory of a barrier for each stage."""
    size = integers.index(stages)
    return Buffer(name, DataType.Int, MemoryType.shared, size, guarded=True, alignment=8)


def with_contents(pipelines: Iterable[Pipeline]) -> tuple[Pipeline, ...]:
    """Those that are not mere orders."""
    return tuple(pipeline for pipeline in pipelines if pipeline.contents)


# --- where stages are filled and used ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fill(Statement):
    """Statements that fill one stage of a pipeline, or part of it."""

    words = "fill {pipeline}"

    pipeline: str = field(metadata=plain())
    body: tuple[Statement, ...] = field(metadata=body())


@dataclass(frozen=True, slots=True)
class Drain(Statement):
    """Statements that store one stage of a pipeline, or part of it, to global memory."""

    words = "drain {pipeline}"

    pipeline: str = field(metadata=plain())
    body: tuple[Statement, ...] = field(metadata=body())


@dataclass(frozen=True, slots=True)
class OneStage(Statement):
    """Statements of a role within which it fills, or uses, one stage of each pipeline."""

    words = "one stage of {pipelines}"

    pipelines: tuple[str, ...] = field(metadata=plain())
    body: tuple[Statement, ...] = field(metadata=body())


@dataclass(frozen=True, slots=True)
class SkipStages(Statement, orders=Orders.NOTHING):
    """The end of a group's share of pipelines: the next stages belong to the other groups."""

    words = "skip the other groups' stages of {pipelines}"

    pipelines: tuple[str, ...] = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class Section(Statement):
    """Statements that the groups of a role run one after the other, as a pipeline orders."""

    words = "groups in turn, {pipeline}"

    pipeline: str = field(metadata=plain())
    body: tuple[Statement, ...] = field(metadata=body())


# --- the four verbs ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire(Statement):
    """The producer waits until a stage is free to be filled.

    Attributes:
        parity: of the phase in which it was freed; None where it has never been used.
        times: the fill begins when so many intervals of the pipeline are over; None for at once.
    """

    words = "acquire {pipeline}[{stage}]"

    pipeline: str = field(metadata=plain())
    stage: Expr = field(metadata=expression())
    parity: Expr | None = field(default=None, metadata=expression())
    times: Expr | None = field(default=None, metadata=expression())


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """The producer has filled a stage, or asked for all that will."""

    words = "commit {pipeline}[{stage}]"

    pipeline: str = field(metadata=plain())
    stage: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class Wait(Statement):
    """A consumer waits until a stage is full; in an order, until its turn has come.

    Attributes:
        parity: of the phase in which it was filled.
    """

    words = "wait {pipeline}[{stage}]"

    pipeline: str = field(metadata=plain())
    stage: Expr = field(metadata=expression())
    parity: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class Release(Statement):
    """A consumer is done with a stage; in an order, the next one's turn has come."""

    words = "release {pipeline}[{stage}]"

    pipeline: str = field(metadata=plain())
    stage: Expr = field(metadata=expression())
