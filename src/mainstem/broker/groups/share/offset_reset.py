"""Where a share group begins in a topic that is new to it: what may be said, and what it means."""

import re

_DURATION = re.compile(
    r"by_duration:P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.\d{1,9})?S)?)?"
)
_SECONDS = (86_400, 3_600, 60, 1)


def read_start(text: str) -> str:
    """Return a start as it is kept; raises ValueError for one that means nothing."""
    if text in ("earliest", "latest"):
        return text
    kind, _, duration = text.partition(":")
    start = f"{kind}:{duration.upper()}"
    if back_ms(start) is None:
        raise ValueError("choose earliest, latest, or by_duration: and a duration, as PT1H30M")
    return start


def back_ms(start: str) -> int | None:
    """Return how long before now a start is, None if it is none of that kind."""
    found = _DURATION.fullmatch(start)
    if found is None or not any(found.groups()):
        return None
    return 1_000 * sum(int(n or 0) * each for n, each in zip(found.groups(), _SECONDS, strict=True))
