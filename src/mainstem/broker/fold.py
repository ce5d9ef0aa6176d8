"""State that is folded from an internal topic."""


class Fold:
    """Two folds are equal if they have the same state, which compares replay with live changes."""

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
