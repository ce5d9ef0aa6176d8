"""The events of the sample: believable, and fit for its pipeline."""

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from mainstem.cli.sample_events import TOPICS, sample_events

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


def test_every_topic_gets_events_that_happened_a_moment_ago() -> None:
    chance = random.Random(1)

    found = defaultdict(list)
    for turn in range(50):
        now = NOW + timedelta(seconds=turn / 10)
        for topic, event in sample_events(chance, now):
            at = datetime.fromisoformat(json.loads(event.value or b"")["at"])
            assert timedelta() <= now - at < timedelta(seconds=10)
            assert event.key
            found[topic].append(json.loads(event.value or b""))

    assert set(found) == set(TOPICS)
    assert all(float(each["amount"]) > 0 for each in found["sample.purchases"])
    assert {each["sensor"] for each in found["sample.readings"]} >= {"boiler", "roof"}
