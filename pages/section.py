"""Pages of the documentation that hold what a command prints, between two marks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """What stands on a page between two lines, which are its marks."""

    start: str
    end: str

    @classmethod
    def of(cls, name: str, command: str = "pages", end: str = "end") -> Section:
        """That which `python -m` with a command writes."""
        return cls(f"<!-- {name}: written by `python -m {command}` -->", f"<!-- {end} -->")

    def put(self, page: str, content: str) -> str:
        """The page with other content between the marks.

        Raises:
            ValueError: it has no marks.
        """
        before, found_start, rest = page.partition(self.start)
        _, found_end, after = rest.partition(self.end)
        if not found_start or not found_end:
            raise ValueError(f"the page has no lines {self.start} and {self.end}")
        return f"{before}{self.start}\n\n{content}\n\n{self.end}{after}"
