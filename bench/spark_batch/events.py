"""The jobs of a stream's batches, from Spark's event log."""

from pathlib import Path

import msgspec

SUBMIT, START, RUN, END = "submit", "start", "run", "end"


class _Info(msgspec.Struct):
    launched: int = msgspec.field(name="Launch Time")
    finished: int = msgspec.field(name="Finish Time")


class _Metrics(msgspec.Struct):
    run_ms: int = msgspec.field(name="Executor Run Time")


class _Event(msgspec.Struct):
    """The fields of the events that are read here."""

    name: str = msgspec.field(name="Event")
    job: int = msgspec.field(name="Job ID", default=-1)
    submitted: int = msgspec.field(name="Submission Time", default=0)
    completed: int = msgspec.field(name="Completion Time", default=0)
    stages: tuple[int, ...] = msgspec.field(name="Stage IDs", default=())
    properties: dict[str, str] = msgspec.field(name="Properties", default_factory=dict)
    stage: int = msgspec.field(name="Stage ID", default=-1)
    info: _Info | None = msgspec.field(name="Task Info", default=None)
    metrics: _Metrics | None = msgspec.field(name="Task Metrics", default=None)


class Job(msgspec.Struct):
    """When the job of a batch was under way, in milliseconds since 1970, and its only task."""

    run_id: str
    batch: int
    submitted: int
    completed: int
    launched: int
    finished: int
    run_ms: int

    def parts(self) -> dict[str, float]:
        """Return how long its parts took."""
        own = self.finished - self.launched - self.run_ms
        return {
            SUBMIT: self.launched - self.submitted,
            START: own,
            RUN: self.run_ms,
            END: self.completed - self.finished,
        }


def jobs(directory: Path) -> list[Job]:
    """Return the jobs with one task that belong to batches of streams."""
    (file,) = directory.iterdir()
    decoder = msgspec.json.Decoder(_Event, strict=False)
    events = [
        decoder.decode(line)
        for line in file.read_bytes().splitlines()
        if line.startswith((b'{"Event":"SparkListenerJob', b'{"Event":"SparkListenerTaskEnd'))
    ]
    tasks = {each.stage: each for each in events if each.info is not None}
    ended = {each.job: each.completed for each in events if each.completed}
    found = []
    for each in events:
        batch = each.properties.get("streaming.sql.batchId")
        inside = [tasks[stage] for stage in each.stages if stage in tasks]
        if batch is None or len(inside) != 1 or each.job not in ended:
            continue
        info, metrics = inside[0].info, inside[0].metrics
        assert info is not None
        assert metrics is not None
        found.append(
            Job(
                each.properties["spark.jobGroup.id"],
                int(batch),
                each.submitted,
                ended[each.job],
                info.launched,
                info.finished,
                metrics.run_ms,
            )
        )
    return found
