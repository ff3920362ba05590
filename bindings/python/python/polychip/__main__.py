"""`python -m polychip`: the command line."""

import sys

from ._polychip import main as _main


def main() -> int:
    """Runs the command line of `sys.argv`, and gives its exit code."""
    return _main(["polychip", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
