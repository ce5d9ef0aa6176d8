"""Every API has a module of its name, which says what it serves."""

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import get_type_hints

import pytest

from mainstem.heads.kafka.adapter import apis
from mainstem.heads.kafka.adapter.apis import SERVED
from mainstem.kafka_protocol.apis import APIS

SHARED = {"acls": {"DescribeAcls", "CreateAcls", "DeleteAcls"}}
"""Modules of several APIs, which share nearly everything."""


def _said(name: str, first: int, last: int) -> str:
    return f"{name}, version {first}:" if first == last else f"{name}, versions {first} to {last}:"


def test_every_module_serves_the_api_it_is_named_after() -> None:
    served = {APIS[key].name for key in SERVED}
    named: set[str] = set()
    for module in iter_modules(apis.__path__):
        camel = "".join(map(str.capitalize, module.name.split("_")))
        named |= SHARED.get(module.name, {camel})

    assert named == served


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: APIS[key].name)
def test_an_api_is_answered_by_what_takes_its_request(key: int) -> None:
    answer = inspect.unwrap(SERVED[key].answer)

    assert get_type_hints(answer)["request"] is APIS[key].request


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: APIS[key].name)
def test_a_module_begins_with_its_versions(key: int) -> None:
    served = SERVED[key]
    module = import_module(inspect.unwrap(served.answer).__module__)
    head = (module.__doc__ or "").splitlines()[0]
    name = head.partition(", version")[0]

    assert head.startswith(_said(name, served.first, served.last))
    assert APIS[key].name in name.split(", ")
