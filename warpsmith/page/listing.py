"""A kernel's CUDA beside the lines of Python that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.engine.origins import CudaLine
from warpsmith.page.markup import Markup, tag
from warpsmith.page.sources import Lines, Source

_SIGNS = 11
"""Of the numbers of lines beside a line of CUDA."""


class Names:
    """What the page calls lines of files: `f0-12` is line 12 of the first file."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._files = {source.file: source.index for source in sources}

    def of(self, lines: Lines) -> str | None:
        """The names of some lines, spaces between; None of no lines."""
        return " ".join(f"f{self._files[file]}-{number}" for file, number in lines) or None


def listing(cuda: Sequence[CudaLine], sources: Sequence[Source], names: Names) -> Markup:
    """Both texts side by side; lines that belong together have one of their names in common."""
    files = {file for line in cuda for file, _ in line.lines}
    python = [each for source in sources if source.file in files for each in _python(source, names)]
    return tag(
        "div",
        tag("div", *(_cuda(n, line, names) for n, line in enumerate(cuda, 1)), class_="code cuda"),
        tag("div", *python, class_="code python"),
        class_="listing",
    )


def _cuda(number: int, line: CudaLine, names: Names) -> Markup:
    return tag(
        "div",
        tag("span", number, class_="number"),
        tag("span", where(line.lines), class_="where"),
        tag("code", line.text),
        class_="row",
        data_lines=names.of(line.lines),
    )


def where(lines: Lines) -> str:
    """Numbers of lines, few signs wide: `12`, `5-9,12`; of many, the first and the last."""
    runs: list[list[int]] = []
    for _, number in lines:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return text if len(text) <= _SIGNS else f"{lines[0][1]}...{lines[-1][1]}"


def _python(source: Source, names: Names) -> Iterator[Markup]:
    yield tag("div", source.name, class_="file", title=source.file)
    for place, part in enumerate(source.parts):
        if place:
            yield tag("div", "⋮", class_="between")
        for line in part:
            yield tag(
                "div",
                tag("span", line.number, class_="number"),
                tag("code", line.text),
                class_="row",
                data_line=names.of(((source.file, line.number),)),
                data_lines=names.of(((source.file, line.number),)),
            )
