"""Vectors of elements, and their loads and stores as single instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

from warpsmith.codegen.prelude.piece import Piece


class LoadHint(IntEnum):
    """How `ws_load` treats caches; the template argument `Hint`."""

    DEFAULT = 0
    NC = 1  # read-only path: nothing may write the data while the kernel runs
    NO_ALLOCATE = 2  # leave L1 alone: each byte is read once
    NC_NO_ALLOCATE = 3
    EVICT_FIRST = 4  # first to go from L1 and L2
    EVICT_LAST = 5  # last to go from L2
    NC_LASTING = 6


class StoreHint(IntEnum):
    """How `ws_store` treats caches; the template argument `Hint`."""

    DEFAULT = 0
    STREAMING = 1  # first to go from L2: nobody reads it soon


_LOADS = {
    LoadHint.DEFAULT: "",
    LoadHint.NC: ".nc",
    LoadHint.NO_ALLOCATE: ".L1::no_allocate",
    LoadHint.NC_NO_ALLOCATE: ".nc.L1::no_allocate",
    LoadHint.EVICT_FIRST: ".cs",
    LoadHint.EVICT_LAST: ".L2::cache_hint",
    LoadHint.NC_LASTING: ".nc.L2::cache_hint",
}
_STORES = {StoreHint.DEFAULT: "", StoreHint.STREAMING: ".cs"}


def with_words(piece: Piece) -> Iterator[Piece]:
    """With the accesses of each size."""
    words = "\n".join(_word(size) for size in (1, 2, 4, 8, 16))
    yield replace(piece, text=piece.text.replace("WORDS", words))


def with_conditions(piece: Piece) -> Iterator[Piece]:
    """With the loads of each size that have a predicate."""
    text = piece.text
    for word, written in (("LOADS", _word_where), ("SHARED", _shared_where)):
        text = text.replace(word, "\n".join(written(size) for size in (4, 8, 16)))
    yield replace(piece, text=text)


def _word(byte_count: int) -> str:
    """The registers of one access, and its instructions."""
    count = max(byte_count // 4, 1)
    kind, code, unit = {1: ("unsigned short", "h", "u8"), 2: ("unsigned short", "h", "b16")}.get(
        byte_count, ("unsigned", "r", "b32")
    )
    member = "unsigned char" if byte_count == 1 else kind
    shape = f".v{count}.{unit}" if count > 1 else f".{unit}"
    operands = _operands(count)
    outputs = ", ".join(f'"={code}"(r[{i}])' for i in range(count))
    return "\n".join(
        (
            f"template <> struct ws_words<{byte_count}> {{",
            f"    {member} w[{count}];",
            "    template <int Hint> __device__ __forceinline__ void load(const void* from) {",
            f"        {kind} r[{count}];",
            *(
                f"        {'' if hint is LoadHint.DEFAULT else 'else '}if constexpr "
                f"(Hint == {hint.value}) {_load(suffix, shape, count, outputs)}"
                for hint, suffix in _LOADS.items()
            ),
            "        #pragma unroll",
            f"        for (int i = 0; i < {count}; ++i) w[i] = ({member})r[i];",
            "    }",
            "    template <int Hint> __device__ __forceinline__ void store(void* to) const {",
            *(
                f"        {'' if hint is StoreHint.DEFAULT else 'else '}if constexpr "
                f"(Hint == {hint.value}) {_store(suffix, shape, operands, code, kind, count)}"
                for hint, suffix in _STORES.items()
            ),
            "    }",
            "};",
        )
    )


def _load(suffix: str, shape: str, count: int, outputs: str, *, where: bool = False) -> str:
    """A load, of threads that are `there` alone where that is asked: kept in its place among the
    stores, but on the read-only path.

    All are volatile: NVVM takes an asm that is not for a pure function of its operands, and moves
    it out of the condition that keeps it within bounds.
    """
    clobbers = "" if ".nc" in suffix else ' : "memory"'
    hinted = suffix.endswith("cache_hint")
    policy, given = (f", %{count + 1 + where}", ', "l"(ws_lasting())') if hinted else ("", "")
    load = f"ld.global{suffix}{shape} {_operands(count)}, [%{count}]{policy};"
    if where:
        load = f"{{.reg .pred p; setp.ne.b32 p, %{count + 1}, 0; @p {load}}}"
        given = f', "r"((int)there){given}'
    return f'asm volatile("{load}" : {outputs} : "l"(from){given}{clobbers});'


def _operands(count: int) -> str:
    """The first registers of an asm, as a vector where they are several."""
    operands = ", ".join(f"%{i}" for i in range(count))
    return f"{{{operands}}}" if count > 1 else operands


def _word_where(byte_count: int) -> str:
    """A load of so many bytes by threads that are there."""
    count = byte_count // 4
    shape = ".b32" if count == 1 else f".v{count}.b32"
    outputs = ", ".join(f'"+r"(to.w[{i}])' for i in range(count))
    lines = [
        "template <int Hint> __device__ __forceinline__",
        f"void ws_load_where(ws_words<{byte_count}>& to, bool there, const void* from) {{",
    ]
    for hint, suffix in _LOADS.items():
        load = _load(suffix, shape, count, outputs, where=True)
        other = "" if hint is LoadHint.DEFAULT else "else "
        lines.append(f"    {other}if constexpr (Hint == {hint.value}) {load}")
    return "\n".join((*lines, "}"))


def _shared_where(byte_count: int) -> str:
    """The same from shared memory, at an address in that."""
    count = byte_count // 4
    shape = ".b32" if count == 1 else f".v{count}.b32"
    outputs = ", ".join(f'"+r"(to.w[{i}])' for i in range(count))
    load = f"ld.shared{shape} {_operands(count)}, [%{count}];"
    asked = f"{{.reg .pred p; setp.ne.b32 p, %{count + 1}, 0; @p {load}}}"
    return "\n".join(
        (
            "__device__ __forceinline__",
            f"void ws_load_shared_where(ws_words<{byte_count}>& to, bool there, unsigned from) {{",
            f'    asm volatile("{asked}" : {outputs} : "r"(from), "r"((int)there) : "memory");',
            "}",
        )
    )


def _store(suffix: str, shape: str, operands: str, code: str, kind: str, count: int) -> str:
    inputs = ", ".join(f'"{code}"(({kind})w[{i}])' for i in range(count))
    return (
        f'asm volatile("st.global{suffix}{shape} [%0], '
        f'{_shifted(operands, count)};" : : "l"(to), {inputs} : "memory");'
    )


def _shifted(operands: str, count: int) -> str:
    """Operands counted from %1, since a store's address comes first."""
    for i in reversed(range(count)):
        operands = operands.replace(f"%{i}", f"%{i + 1}")
    return operands
