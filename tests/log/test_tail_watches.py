"""Watches at the tail are called when events arrive, and when the log is closed."""

from tests.faults.disk.disk_steps import append, opened
from tests.faults.disk.random_workload import A0, FSYNC
from tests.faults.disk.simulated_disk import SimFiles


def test_a_watch_taken_while_the_log_is_being_closed_is_called() -> None:
    files = SimFiles()
    log = opened(files)
    log.ensure(A0, "orders", FSYNC)
    append(log, A0, b"first")
    woken: list[str] = []

    def watch(kind: str, path: str) -> None:
        if kind == "rename" and path == "manifest":
            log.watch(A0, 1, lambda: woken.append("closed"))

    files.before = watch
    log.close()

    assert woken == ["closed"]
