"""Share group consumers in processes of their own, which report each step on a line."""

import json
import signal
import subprocess
import sys
import threading
from typing import Self

from tests.faults.killable_server import QUICK
from tests.faults.queue_checker import TotalQueue

PATIENCE_S = 60

_LIFE = """
import json, sys
from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer
address, group, way, patience_s, quick = sys.argv[1:]
consumer = ShareConsumer({
    "bootstrap.servers": address,
    "group.id": group,
    "share.acknowledgement.mode": "explicit",
    "max.poll.records": 20,
    **json.loads(quick),
})
consumer.subscribe([group])
say = lambda deed, message: print(deed, message.value().decode(), flush=True)
while True:
    try:
        messages = [each for each in consumer.poll(0.1) if each.error() is None]
        for message in messages:
            say("took", message)
        if way == "slow" and messages:
            sys.stdin.readline()
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        if not messages:
            continue
        answers = consumer.commit_sync(float(patience_s))
        errors = {at.partition: error for at, error in answers.items()}
    except KafkaException:
        errors = {}
    for message in messages:
        error = errors.get(message.partition(), "never heard of")
        say("done" if error is None else "doubt", message)
"""


class Sharer:
    """One consumer; what it says is noted in the queue.

    ``patience_s``: after how long without an answer it doubts whether it was heard.
    """

    def __init__(
        self,
        address: str,
        group: str,
        queue: TotalQueue,
        way: str = "steady",
        *,
        patience_s: int = 2,
    ) -> None:
        self._queue = queue
        self._held: set[int] = set()
        """What it took and has said nothing more of."""
        self.took = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LIFE, address, group, way, str(patience_s), json.dumps(QUICK)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def pause(self) -> None:
        """Let it stand still."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def held(self) -> set[int]:
        """Return what it took and has said nothing more of."""
        return set(self._held)

    def go_on(self) -> None:
        """Tell one that is slow to go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it; what it held may have been acknowledged, and nobody knows."""
        self._process.kill()
        self._process.wait(PATIENCE_S)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join(PATIENCE_S)
        for number in self._held:
            self._queue.note("doubt", number)
        self._held.clear()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                # One that was cut off by the end says nothing.
                if line.endswith("\n"):
                    deed, number = line.split()
                    self._hear(deed, int(number))

    def _hear(self, deed: str, number: int) -> None:
        self._queue.note(deed, number)
        if deed == "took":
            self._held.add(number)
            self.took.set()
        else:
            self._held.discard(number)
