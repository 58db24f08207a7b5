"""The options as docs/knobs.md lists them.

python -m warpsmith.tools.knob_table [docs/knobs.md]
"""

from __future__ import annotations

import sys

from warpsmith import knobs
from warpsmith.tools.pages import print_or_write

if __name__ == "__main__":
    print_or_write(sys.argv[1:], knobs.markdown())
