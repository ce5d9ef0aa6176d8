"""A process with bare NATS clients (``nats_client.py``), which does the jobs of ``jobs.py``.

A topic is a stream, and a partition a subject of it: its name and its number.
"""

import select
import time

from bench.kafka import jobs
from bench.kafka.nats_client import NatsClient

WINDOW = 4000
"""How many events may be unanswered, as in NATS' own client for Go."""
PULLED = 1000
"""What a consumer asks for at once, and again when half of it has come."""


class Pulling:
    """A consumer of a stream, and what it has had."""

    def __init__(self, job: jobs.Job) -> None:
        self.client = NatsClient(job["address"])
        self._source = self.client.consumer(job["topic"])
        self.left = job["events"] + jobs.touched(job)
        self._unasked = self.left

    def pull(self) -> None:
        """Ask for more, if it is time."""
        outstanding = self.left - self._unasked
        if self._unasked and outstanding <= PULLED // 2:
            events = min(PULLED, self._unasked)
            self.client.pull(self._source, events)
            self._unasked -= events

    def take(self) -> None:
        """Count what has come."""
        self.left -= self.client.events()
        assert self.left >= 0
        self.pull()


def produce(job: jobs.Job) -> None:
    """Publish events as fast as the server takes them, and wait for the last answer."""
    client = _producer(job)
    subjects = [f"{job['topic']}.{each}" for each in range(job["partitions"])]
    commands = [client.command(each, bytes(job["size"])) for each in subjects]
    window = 1 if job["settings"].get("max.in.flight") == 1 else WINDOW
    jobs.report(ready=1)
    with jobs.Clock() as clock:
        client.publish(commands, job["events"], window)
    jobs.report(seconds=clock.seconds, cpu_s=clock.cpu_s)
    client.close()


def consume(job: jobs.Job) -> None:
    """Read all events of a topic, with as many consumers as asked for."""
    consumers = [Pulling(job) for _ in range(job.get("readers", 1))]
    waiting = {each.client.fileno(): each for each in consumers}
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    jobs.report(ready=1)
    with jobs.Clock() as clock:
        for each in consumers:
            each.pull()
        while waiting:
            ready = poll.poll(jobs.PATIENCE_S * 1000)
            if not ready:
                raise SystemExit(f"{sum(each.left for each in consumers)} of {job} did not come")
            for descriptor, _ in ready:
                waiting[descriptor].take()
                if waiting[descriptor].left <= 0:
                    poll.unregister(descriptor)
                    del waiting[descriptor]
    jobs.report(seconds=clock.seconds, cpu_s=clock.cpu_s)
    for each in consumers:
        each.client.close()


def tail(job: jobs.Job) -> None:
    """Wait at the tail of a topic, and take how old each event is when it comes."""
    client = NatsClient(job["address"])
    client.pull(client.consumer(job["topic"]), job["events"] + 1)
    client.receive()
    jobs.report(ready=1)
    ages: list[int] = []
    while len(ages) < job["events"]:
        payload = client.receive()
        ages.append(time.time_ns() - jobs.STAMP.unpack_from(payload)[0])
    jobs.report_ages(ages)
    client.close()


def pace(job: jobs.Job) -> None:
    """Publish events at a steady rate, each with the time at which it was made."""
    client = _producer(job)
    answered = 0
    for value in jobs.stamped(job):
        client.send(client.command(f"{job['topic']}.0", value))
        answered += client.answers(wait=False)
    while answered < job["events"]:
        answered += client.answers()
    jobs.report(done=1)
    client.close()


def _producer(job: jobs.Job) -> NatsClient:
    """Return a client that is connected: events are sent first."""
    client = NatsClient(job["address"])
    subjects = [f"{job['topic']}.{each}" for each in range(jobs.touched(job))]
    client.publish(
        [client.command(each, bytes(jobs.STAMP.size)) for each in subjects], len(subjects), 1
    )
    return client


if __name__ == "__main__":
    jobs.serve({"produce": produce, "consume": consume, "tail": tail, "pace": pace})
