"""The options, as docs/knobs.md lists them."""

from __future__ import annotations

from dataclasses import fields

from warpsmith.knobs import Knobs, variable_name


def written(page: str = "") -> str:
    """The text of the page, whatever it was."""
    lines = [
        "# Knobs",
        "",
        "Every option of warpsmith. Set one by its environment variable, or from Python for the",
        'code inside a block: `with warpsmith.knobs.scope(device="reference"): ...`.',
        "",
        "| variable | in Python | type | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for declared in fields(Knobs):
        about = declared.metadata
        lines.append(
            f"| `{variable_name(declared.name)}` | `{declared.name}` | {about['kind'].words} "
            f"| {about['shown']} | {about['meaning']} |"
        )
    return "\n".join(lines) + "\n"
