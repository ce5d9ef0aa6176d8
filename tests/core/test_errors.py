"""Every error has a class of failure, which every head maps to a code."""

import inspect

import pytest

from mainstem.core import errors
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.kafka.adapter.errors import FAILURES

_ERRORS = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, MainstemError) and each is not MainstemError
]


@pytest.mark.parametrize("error", _ERRORS, ids=lambda each: each.__name__)
def test_an_error_states_its_class_of_failure(error: type[MainstemError]) -> None:
    ancestors = error.__mro__[: error.__mro__.index(MainstemError)]

    assert any("failure" in vars(each) for each in ancestors)


@pytest.mark.parametrize("failure", Failure)
def test_kafka_has_a_code_for_every_class_of_failure(failure: Failure) -> None:
    assert FAILURES[failure].value > 0


def test_an_earlier_name_of_an_error_still_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="UnknownQueue"):
        assert getattr(errors, "UnknownSubscription") is errors.UnknownQueue  # noqa: B009
