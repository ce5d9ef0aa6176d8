"""The setting share.auto.offset.reset: where a share group starts in a topic that is new to it."""

import re

_DURATION = re.compile(
    r"by_duration:P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.\d{1,9})?S)?)?"
)
_SECONDS = (86_400, 3_600, 60, 1)


def read_start(text: str) -> str:
    """Return the setting's value in normalized form; raises ValueError if it is invalid."""
    if text in ("earliest", "latest"):
        return text
    kind, _, duration = text.partition(":")
    start = f"{kind}:{duration.upper()}"
    if back_ms(start) is None:
        raise ValueError("choose earliest, latest, or by_duration: with a duration like PT1H30M")
    return start


def back_ms(start: str) -> int | None:
    """Return how many ms before now a ``by_duration`` start is, None for other starts."""
    found = _DURATION.fullmatch(start)
    if found is None or not any(found.groups()):
        return None
    return 1_000 * sum(int(n or 0) * each for n, each in zip(found.groups(), _SECONDS, strict=True))
