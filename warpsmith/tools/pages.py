"""Pages of the documentation that hold what a command prints, between two marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path


def between(page: str, start: str, end: str, content: str) -> str:
    """The page with other content between its marks.

    Raises:
        ValueError: it has no marks.
    """
    before, found_start, rest = page.partition(start)
    _, found_end, after = rest.partition(end)
    if not found_start or not found_end:
        raise ValueError(f"the page has no lines {start} and {end}")
    return f"{before}{start}\n\n{content}\n\n{end}{after}"


def print_or_write(
    arguments: Sequence[str], content: str, replaced: Callable[[str, str], str]
) -> None:
    """Print the content; or put it into the page that the first argument names."""
    if not arguments:
        print(content)
        return
    path = Path(arguments[0])
    path.write_text(replaced(path.read_text(), content))
