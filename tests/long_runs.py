"""Whether tests may take hours (``./test --long``), and how much more they do then."""

import os

LONG = bool(os.environ.get("MAINSTEM_LONG"))


def seeds(first: int, quick: int, long: int) -> range:
    """Return seeds to try: a few, or with ``--long`` many."""
    return range(first, first + (long if LONG else quick))
