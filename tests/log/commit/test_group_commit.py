"""The group commit continues even if callbacks raise or block."""

from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, append, open_log

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings


def test_calls_that_fail_do_not_end_whoever_commits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings())
    told: list[object] = []
    log.watch(ORDERS, 0, fail)
    log.watch(ORDERS, 0, lambda: told.append("visible"))
    first = log.append([(ORDERS, build([Event(b"x")], now_ms=0))]).durable
    first.then(fail)
    first.then(lambda _: told.append("durable"))

    log.committer.commit()

    assert told == ["visible", "durable"]
    assert append(log, ORDERS, b"y").durable.done
    assert caplog.text.count("RuntimeError: a bug") == 2
    log.close()
