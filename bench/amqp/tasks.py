"""The Celery app of the bench: python -m bench.amqp.tasks COUNT FILE publishes its tasks.

Prints the seconds from the first task to the end of the last one, which writes the file.
"""

import json
import os
import sys
import time
from pathlib import Path

from celery import Celery  # type: ignore[import-untyped]

PATIENCE_S = 120
app = Celery("bench", broker=os.environ.get("BENCH_BROKER", ""))
app.conf.task_ignore_result = True


@app.task(name="add")  # type: ignore[untyped-decorator]
def add(left: int, right: int) -> int:
    """Do next to nothing."""
    return left + right


@app.task(name="finish")  # type: ignore[untyped-decorator]
def finish(file: str) -> None:
    """Say that all tasks before this one are done."""
    Path(file).touch()


def publish(count: int, file: Path) -> float:
    """Publish tasks, and wait for the last one; return the seconds it took."""
    began = time.perf_counter()
    for number in range(count - 1):
        add.delay(number, number)
    finish.delay(str(file))
    while not file.exists():
        if time.perf_counter() - began > PATIENCE_S:
            raise SystemExit("the tasks do not end; see the worker's output")
        time.sleep(0.001)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps({"seconds": publish(int(sys.argv[1]), Path(sys.argv[2]))}))
