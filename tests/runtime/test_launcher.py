"""The launcher in C, where it comes from."""

import tomllib
from pathlib import Path

from warpsmith.runtime import launcher


def test_a_wheel_has_all_of_its_files() -> None:
    folder = Path(launcher.__file__).with_name("native")
    root = folder.parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    (module,) = project["tool"]["setuptools"]["ext-modules"]
    for key, pattern in (("sources", "*.c"), ("depends", "*.h")):
        found = [str(each.relative_to(root)) for each in sorted(folder.glob(pattern))]
        assert sorted(module[key]) == found
