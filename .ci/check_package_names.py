"""Check that each of our top-level names belongs to our distribution only.

Our packages have general names, and an installed stranger called `schemas` would be imported in place of ours, or
ours in place of theirs. Run it with the interpreter of the environment to check; exits 1 and names the rival.
"""

import importlib.metadata
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def find_rivals(names: Iterable[str], owner: str, owners: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Map each of `names` to the distributions other than `owner` that install a package of that name."""
    rivals = {name: sorted(set(owners.get(name, ())) - {owner}) for name in names}
    return {name: found for name, found in rivals.items() if found}


def main() -> int:
    """Compare the wheel's package list with what is installed here."""
    configuration = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    names = configuration["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    owner = configuration["project"]["name"]
    rivals = find_rivals(names, owner, importlib.metadata.packages_distributions())
    for name, found in rivals.items():
        print(f"package name {name!r} is also installed by {', '.join(found)}", file=sys.stderr)
    if not rivals:
        print(f"{', '.join(names)}: ours alone")
    return 1 if rivals else 0


if __name__ == "__main__":
    sys.exit(main())
