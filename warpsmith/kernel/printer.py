"""Kernel form as readable text, for dumps and for people."""

from __future__ import annotations

from warpsmith.kernel.cluster_printer import cluster_text
from warpsmith.kernel.nodes import (
    Accumulate,
    Comment,
    CopyVector,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Reduce,
    Statement,
    Store,
    Synchronize,
    WelfordMerge,
    WelfordStep,
)
from warpsmith.kernel.product_printer import product_text
from warpsmith.kernel.ring_printer import ring_text
from warpsmith.kernel.rings import Drain, Fill
from warpsmith.kernel.roles import Branch, Role, Section, Turn
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious


def kernel_text(kernel: Kernel) -> str:
    """One statement a line, indented by nesting."""
    lines = [
        f"kernel {kernel.name}",
        f"  grid   {kernel.launch.grid!r}",
        f"  block  {kernel.launch.block!r}",
        f"  index  {kernel.index_type.value}",
    ]
    if kernel.launch.last_first:
        lines.append("  last blocks first")
    if kernel.launch.cluster_blocks > 1:
        lines.append(f"  cluster {kernel.launch.cluster!r}")
    lines += [f"  param  {b.name}: {b.dtype.value}[{b.size!r}]" for b in kernel.parameters]
    lines += [f"  scalar {s.name}: {s.dtype.value}" for s in kernel.scalars]
    lines += [f"  derive {s.name} = {value!r}" for s, value in kernel.derived]
    lines += [f"  shared {b.name}: {b.dtype.value}[{b.size!r}]" for b in kernel.shared]
    lines += [
        f"  map    {m.name} of {m.tensor}: sizes {m.sizes!r}, box {m.box}, swizzle {m.swizzle}"
        for m in kernel.tensor_maps
    ]
    lines += [
        f"  ring   {r.name}: {r.stages} slots of {', '.join(name for name, _ in r.buffers)}"
        f"{f', {r.producer} to ' + ', '.join(r.consumers) if r.producer else ''}"
        for r in kernel.rings
    ]
    lines += [f"  needs  {expr!r} % {divisor} == 0" for expr, divisor in kernel.requirements]
    lines += [f"  needs  {expr!r} <= {most}" for expr, most in kernel.limits]
    lines += [f"  needs  {name} aligned to {size} bytes" for name, size in kernel.alignments]
    for statement in kernel.body:
        lines += _statement(statement, 1)
    return "\n".join(lines) + "\n"


def _statement(statement: Statement, depth: int) -> list[str]:
    indent = "  " * depth
    match statement:
        case For(symbol=symbol, extent=extent, body=body, unroll=unroll, turns=turns):
            how = " unrolled" if unroll else ""
            how += f" turns {', '.join(turns)}" if turns else ""
            head = f"{indent}for {symbol.name} < {extent!r}{how}:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
        case If(condition=condition, body=body):
            head = f"{indent}if {condition!r}:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
        case Fill(buffer=b, slots=slots, body=body):
            head = f"{indent}fill {b.name}, {slots.stages} slots, {slots.prefetch} ahead:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
        case Drain(buffer=b, body=body):
            head = f"{indent}drain {b.name}:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
        case Turn(passages=passages, body=body):
            head = f"{indent}one slot of {', '.join(p.buffer.name for p in passages)}:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
        case Section(name=name, body=body):
            head = f"{indent}groups in turn, {name}:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
        case Branch(role=role, body=body):
            head = f"{indent}role {role_text(role)}:"
            return [head, *(line for s in body for line in _statement(s, depth + 1))]
    return [indent + _simple(statement)]


def role_text(role: Role) -> str:
    """`compute, warps from 4, 128 x 2 x 1 threads, 2 groups along block_y, barrier 1`."""
    block = " x ".join(map(repr, role.block))
    parts = [role.name, f"warps from {role.first_warp}"]
    parts.append("one elected thread" if role.single else f"{block} threads")
    if role.groups_along is not None:
        parts.append(f"{role.groups} groups along {role.groups_along.name}")
    if role.barrier:
        parts.append(f"barrier {role.barrier}")
    if role.registers is not None:
        parts.append(f"{role.registers} registers")
    return ", ".join(parts)


def _simple(statement: Statement) -> str:
    match statement:
        case Declare(buffer=b):
            bits = " bits" if b.packed else ""
            return f"{b.name}: {b.dtype.value}[{b.size!r}] {b.memory.value}{bits}"
        case Let(symbol=symbol, value=value):
            return f"{symbol.name} = {value!r}"
        case Store(buffer=b, index=index, value=value):
            return f"{b.name}[{index!r}] = {value!r}"
        case Accumulate(op=op, buffer=b, index=index, value=value):
            return f"{b.name}[{index!r}] {op}= {value!r}"
        case CopyVector(target=t, target_index=ti, source=s, source_index=si, width=width):
            return f"{t.name}[{ti!r} ..] = {s.name}[{si!r} ..] x{width}"
        case WelfordStep(mean=mean, index=index, values=values):
            return f"welford {mean.name}[{index!r} ..] += {list(values)!r}"
        case WelfordMerge(mean=mean, index=index, part=part):
            return f"welford {mean.name}[{index!r}] merge {part!r}"
        case Reduce(op=op, buffers=buffers, elements=elements, block_axes=block, grid_axes=grid):
            over = ["lanes"] if statement.lanes else [axis.name for axis in (*block, *grid)]
            over += [f"{statement.blocks} blocks"] if statement.blocks > 1 else []
            whom = ", for the first" if statement.first else ""
            names = ", ".join(buffer.name for buffer in buffers)
            return f"reduce {op} {names} x{elements} over {', '.join(over)}{whom}"
        case Synchronize(why=why):
            return f"synchronize  ({why})"
        case Comment(text=text):
            return f"# {text}"
        case AwaitPrevious():
            return "await the kernel before"
        case AdmitNext():
            return "admit the next kernel"
    return product_text(statement) or cluster_text(statement) or ring_text(statement)
