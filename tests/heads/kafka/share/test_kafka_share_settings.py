"""Settings of share groups: what is refused of them, and when they hold."""

import pytest
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_answers import code, runs
from tests.heads.kafka.share_member import RELEASE, Sharer, configure
from tests.heads.server_process import until

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.configs import (
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribedConfigs,
    IncrementalAlter,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterResource,
)
from mainstem.kafka_protocol.topic_configs import ConfigType


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "yesterday"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.isolation.level", "serializable"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "00"),
        ("mainstem.share.acquire.mode", "strictly"),
        ("share.record.lock.duration.ms", "0"),
        ("share.session.timeout.ms", "5000"),
    ],
)
def test_settings_that_mean_nothing_are_refused(peer: Peer, name: str, value: str) -> None:
    assert configure(peer, "settings", name, value) is Code.INVALID_CONFIG


def test_a_change_that_names_no_group_or_a_setting_twice_is_an_invalid_request(peer: Peer) -> None:
    twice = (IncrementalAlter("share.session.timeout.ms", 0, "50000"),) * 2
    body = IncrementalAlterConfigsRequest((IncrementalAlterResource(32, "settings", twice),))
    answer = peer.ask(INCREMENTAL_ALTER_CONFIGS, 1, body, IncrementalAlterConfigsResponse)

    assert answer.responses[0].error_code == Code.INVALID_REQUEST
    assert configure(peer, "", "share.session.timeout.ms", "50000") is Code.INVALID_REQUEST


def test_a_switch_is_shown_as_one(peer: Peer) -> None:
    def shown(group: str) -> DescribedConfigs:
        body = DescribeConfigsRequest((DescribeConfigsResource(32, group, None),))
        return peer.ask(DESCRIBE_CONFIGS, 4, body, DescribeConfigsResponse).results[0]

    types = {each.name: each.config_type for each in shown("settings").configs}

    assert types["share.renew.acknowledge.enable"] == ConfigType.BOOLEAN
    assert types["share.session.timeout.ms"] == ConfigType.INT
    assert types["share.isolation.level"] == ConfigType.TEXT
    assert code(shown("")) is Code.INVALID_REQUEST


def test_other_settings_hold_from_the_next_heartbeat_on(ann: Sharer, peer: Peer) -> None:
    ann.fetch()
    configure(peer, ann.topic, "share.record.lock.duration.ms", "1000")

    ann.beat()

    found = ann.acknowledge([(0, 1, [RELEASE])])
    assert found.acquisition_lock_timeout_ms == 1_000
    again = ann.fetch()
    assert (runs(again), again.acquisition_lock_timeout_ms) == ([(0, 1, 2)], 1_000)
    until(lambda: runs(ann.fetch(max_wait_ms=5_000)) == [(0, 1, 3)], lambda: None)


def test_a_setting_that_is_removed_is_by_default_again(ann: Sharer, peer: Peer) -> None:
    lock = "share.record.lock.duration.ms"
    configure(peer, ann.topic, lock, "1234")
    assert ann.fetch().acquisition_lock_timeout_ms == 1_234

    configure(peer, ann.topic, lock, None)

    assert ann.fetch().acquisition_lock_timeout_ms == 30_000
