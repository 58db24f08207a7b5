"""Elements of HTML and SVG; all text that comes from elsewhere is escaped here, nowhere else."""

from __future__ import annotations

from html import escape
from importlib.resources import files


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """`tag("p", "a < b", class_="quiet")`: an element; content that is no markup is escaped.

    An attribute's name ends in `_` where Python has the word, and has `_` for `-`. One that is None
    is left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = joined(*content)
    return Markup(
        f"<{name}{given}>{inner}</{name}>" if inner or name in _OPEN else f"<{name}{given}/>"
    )


_OPEN = frozenset(("div", "span", "p", "td", "th", "section", "script", "style", "a", "code", "g"))
"""Elements that have an end, though they are empty."""


def joined(*content: object) -> Markup:
    """Pieces of markup and text, one behind the other."""
    return Markup(
        "".join(each if isinstance(each, Markup) else escape(_text(each)) for each in content)
    )


def asset(name: str) -> Markup:
    """A file that lies beside this one; it has no sign that HTML would need escaped."""
    return Markup("\n" + (files(__package__) / name).read_text("utf-8"))


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
