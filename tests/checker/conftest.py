"""What the tests of the checker have in common."""

import pytest


@pytest.fixture(autouse=True)
def no_kafka_clients_left() -> None:
    """Let clients stay whose transactions were refused.

    confluent-kafka keeps an error for ever that is handled while it is called, and the error keeps
    its client. To free such a client by force has ended the process, in librdkafka.
    """
