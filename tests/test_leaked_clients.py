"""The guard that no test leaves Kafka clients behind."""

from confluent_kafka import Consumer
from tests.leaked_clients import clients_left, kafka_clients


def test_a_client_that_is_open_is_found_until_it_is_closed() -> None:
    before = kafka_clients()
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})

    assert clients_left(before, 0.0) == 1
    consumer.close()

    assert clients_left(before, 30.0) == 0
