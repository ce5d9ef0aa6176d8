"""Folds: classes whose state is rebuilt by applying the records of an internal topic in order."""


class Fold:
    """State rebuilt by replaying an internal topic.

    Two folds are equal if their state is, so that tests can compare replayed with live state.
    """

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
