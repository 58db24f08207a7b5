"""The options as docs/knobs.md lists them.

python -m warpsmith.tools.knob_table [docs/knobs.md]
"""

from __future__ import annotations

import sys
from dataclasses import fields

from warpsmith.knobs import Knobs, variable_name
from warpsmith.tools.pages import print_or_write


def page() -> str:
    """The text of docs/knobs.md."""
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


if __name__ == "__main__":
    print_or_write(sys.argv[1:], page())
