"""Names that count how often anything is looked up by them."""


class CountedName(str):
    """A name; the count is of all of them."""

    __slots__ = ()
    times = 0

    def __hash__(self) -> int:
        CountedName.times += 1
        return super().__hash__()
