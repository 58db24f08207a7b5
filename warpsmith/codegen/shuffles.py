"""Shuffles of a warp's registers as CUDA text."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.codegen.lines import block
from warpsmith.codegen.teams import Team, together
from warpsmith.codegen.values import ValueText, is_scalar
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.random_words import DrawByQuads, KeepBits
from warpsmith.kernel.shuffles import Shuffle, TakeOwn
from warpsmith.layouts.changes import Round

ALL = 0xFFFFFFFF
LANE_BITS = 5


def shuffle_lines(shuffle: Shuffle, value: ValueText, team: Team | None) -> list[str]:
    """The lines of one change of layout: words of neighbours, a shuffle a round, selects."""
    thread = together(team, shuffle).thread
    value.pieces |= {"words", "address"}
    packed, size = shuffle.change.packed, shuffle.target.dtype.size
    kind = "unsigned" if packed * size <= 4 else "unsigned long long"
    lines = [f"const int lane = {thread} & 31;", f"{kind} got;"]
    for step in shuffle.change.rounds:
        words = {
            word: f"ws_word<{kind}, {packed}>({_at(shuffle.source, word * packed)})"
            for word in {*step.sent}
        }
        sent = _chosen({number: _mask(step.sent, number) for number in words}, words)
        lines.append(f"got = {sent if step.is_own else _moved(step, sent)};")
        for word in sorted({*step.kept} - {-1}):
            mask = _mask(step.kept, word)
            put = f"ws_put_word<{packed}>({_at(shuffle.target, word * packed)}, got);"
            lines.append(put if mask == ALL else f"if ({_holds(mask)}) {put}")
    return block(lines)


def own_line(take: TakeOwn, value: ValueText) -> str:
    """The shuffle that changes nothing, and of which compilers do not know that."""
    given = f"__shfl_xor_sync(0x{ALL:x}u, {value(take.value)}, 0)"
    return f"{value.place(take.buffer, take.index)} = {given};"


def draw_lines(draw: DrawByQuads, value: ValueText) -> list[str]:
    """The call that draws words by four lanes."""
    value.pieces.add("kept_quads")
    words = value.address(draw.words_of, draw.index)
    given = map(value, (draw.lane, draw.block, draw.seed, draw.offset))
    return [f"ws_kept_quads({', '.join((words, *given))});"]


def keep_lines(keep: KeepBits, value: ValueText) -> list[str]:
    """The call that compares words, and keeps the results."""
    value.pieces.add("keep_bits")
    return [f"ws_keep_bits({keep.bits.name}, {keep.words_of.name}, {value(keep.least)});"]


def _at(buffer: Buffer, register: int) -> str:
    """The address of a register; one alone is a plain variable."""
    return f"&{buffer.name}" if is_scalar(buffer) else f"{buffer.name} + {register}"


def _moved(step: Round, sent: str) -> str:
    masks = {s ^ lane for lane, s in enumerate(step.source)}
    if len(masks) == 1:
        return f"__shfl_xor_sync(0x{ALL:x}u, {sent}, {masks.pop()})"
    bits = [
        f"(0x{sum((s >> bit & 1) << lane for lane, s in enumerate(step.source)):x}u >> lane & 1)"
        f" << {bit}"
        for bit in range(LANE_BITS)
    ]
    return f"__shfl_sync(0x{ALL:x}u, {sent}, {' | '.join(bits)})"


def _chosen(masks: dict[int, int], words: dict[int, str]) -> str:
    """The word of which a lane's bit is set."""
    (number, mask), *rest = sorted(masks.items())
    if not rest:
        return words[number]
    return f"{_holds(mask)} ? {words[number]} : {_chosen(dict(rest), words)}"


def _mask(numbers: Sequence[int], wanted: int) -> int:
    """The lanes that have a number."""
    return sum((number == wanted) << lane for lane, number in enumerate(numbers))


def _holds(mask: int) -> str:
    return f"0x{mask:x}u >> lane & 1"
