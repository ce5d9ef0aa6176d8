"""Start positions, and which of five events are read from each."""

from datetime import UTC, datetime

from mainstem.client.start_positions import Start


def starts(first_s: int) -> list[tuple[Start, list[int]]]:
    """Return starts and the events they lead to; the events are a second apart from ``first_s``."""
    return [
        ("earliest", [0, 1, 2, 3, 4]),
        ("latest", []),
        (3, [3, 4]),
        (5, []),
        (datetime.fromtimestamp(first_s + 2, UTC), [2, 3, 4]),
        (datetime.fromtimestamp(first_s + 1.5, UTC), [2, 3, 4]),
        (datetime.fromtimestamp(99, UTC), []),
        ({0: 4}, [4]),
        ({7: 4}, [0, 1, 2, 3, 4]),
    ]
