"""``python -m mainstem.cli`` is the command ``mainstem``."""

from mainstem.cli import main

main()
