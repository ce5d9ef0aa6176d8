"""Names that users have typed stay accepted."""

from tests.public_names import kept_names, names


def test_no_name_that_users_have_typed_is_gone() -> None:
    assert kept_names() - names() == set(), "keep an alias that warns"


def test_new_names_are_noted() -> None:
    assert names() - kept_names() == set(), "run: python -m tests.public_names"
