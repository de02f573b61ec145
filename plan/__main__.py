"""``python -m plan``: the same as the command ``plan``."""

from plan.cli import main

main()
