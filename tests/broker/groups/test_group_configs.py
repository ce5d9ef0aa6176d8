"""Group configs: known names, checked values, the same after a restart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import new_broker

from mainstem.broker.broker import Broker
from mainstem.broker.groups.configs import KNOWN, GroupConfigFold
from mainstem.broker.groups.defaults import GroupDefaults
from mainstem.broker.limits import Limits
from mainstem.core.errors import InvalidName, InvalidSetting
from mainstem.log.memory import MemoryLog

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_has_the_defaults_until_something_is_set() -> None:
    configs = new_broker().group_configs

    configs.alter("g", {SESSION: "60000"})

    assert configs.number("g", SESSION) == 60_000
    assert configs.number("other", SESSION) == int(KNOWN[SESSION].default)
    assert (SESSION, "60000", False) in configs.shown("g")
    assert (INTERVAL, KNOWN[INTERVAL].default, True) in configs.shown("g")
    assert configs.names() == ["g"]


def test_the_defaults_of_all_groups_can_be_set() -> None:
    limits = Limits(group_defaults=GroupDefaults(consumer_session_timeout_ms=2_000))
    configs = Broker(MemoryLog(), lambda: 0, limits=limits).group_configs

    configs.alter("own", {SESSION: "60000"})

    assert (SESSION, "2000", True) in configs.shown("other")
    assert (SESSION, "60000", False) in configs.shown("own")
    with pytest.raises(InvalidSetting):
        configs.alter("other", {INTERVAL: "2000"})


def test_defaults_that_contradict_each_other_are_refused() -> None:
    limits = Limits(group_defaults=GroupDefaults(share_session_timeout_ms=5_000))

    with pytest.raises(InvalidSetting, match=r"share.session.timeout.ms=5000 must be greater"):
        Broker(MemoryLog(), lambda: 0, limits=limits)


def test_what_never_was_a_setting_is_not_set_afterwards() -> None:
    configs = new_broker().group_configs

    configs.alter("g", {"no.such.setting": None})

    assert configs.names() == []


def test_a_setting_can_be_taken_back() -> None:
    configs = new_broker().group_configs
    configs.alter("g", {SESSION: "60000", INTERVAL: "2000"})

    configs.alter("g", {SESSION: None})

    assert configs.number("g", SESSION) == int(KNOWN[SESSION].default)
    assert configs.number("g", INTERVAL) == 2_000

    configs.alter("g", {SESSION: "50000"}, fresh=True)

    assert configs.number("g", INTERVAL) == int(KNOWN[INTERVAL].default)


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        (SESSION, " 60000 ", "60000"),
        (SESSION, "0060000", "60000"),
        ("share.renew.acknowledge.enable", "TRUE", "true"),
        ("share.renew.acknowledge.enable", " False", "false"),
        ("share.auto.offset.reset", "by_duration:p1dt2h", "by_duration:P1DT2H"),
    ],
)
def test_what_can_be_said_in_several_ways_is_kept_in_one(name: str, given: str, kept: str) -> None:
    configs = new_broker().group_configs

    configs.alter("g", {name: given})

    assert configs.text("g", name) == kept


def test_to_validate_changes_nothing() -> None:
    configs = new_broker().group_configs

    configs.alter("g", {SESSION: "60000"}, validate_only=True)

    assert configs.names() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"no.such.setting": "1"},
        {SESSION: "soon"},
        {SESSION: "-1"},
        {SESSION: "1_000"},
        {SESSION: ""},
        {"share.renew.acknowledge.enable": "yes"},
        {"share.auto.offset.reset": "by_duration:PT"},
        {"share.auto.offset.reset": "LATEST"},
        {SESSION: "9" * 5_000},
        {SESSION: f"{60_000:020}{60_000}"},
        {SESSION: "1000", INTERVAL: "1000"},
        {INTERVAL: "50000"},
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_changed(changes: dict[str, str | None]) -> None:
    configs = new_broker().group_configs

    with pytest.raises(InvalidSetting):
        configs.alter("g", {SESSION: "40000"} | changes)

    assert configs.names() == []


def test_a_group_without_a_name_has_no_settings() -> None:
    configs = new_broker().group_configs

    with pytest.raises(InvalidName):
        configs.alter("", {SESSION: "60000"})
    with pytest.raises(InvalidName):
        configs.shown("")


_CHANGES = st.dictionaries(
    st.sampled_from([SESSION, INTERVAL]),
    st.sampled_from(["500", "1000", "9000", "60000"]) | st.none(),
)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("ab"), _CHANGES, st.booleans()), max_size=8))
def test_after_a_restart_the_settings_are_what_they_were(
    alterations: list[tuple[str, dict[str, str | None], bool]],
) -> None:
    log = MemoryLog()
    broker = new_broker(log)

    for group, changes, fresh in alterations:
        try:
            broker.group_configs.alter(group, changes, fresh=fresh)
        except InvalidSetting:
            continue

    again = new_broker(log).group_configs
    assert again.fold == broker.group_configs.fold
    assert (again.fold == GroupConfigFold()) is (again.names() == [])
