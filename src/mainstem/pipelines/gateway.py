"""Spark's JVM as a child of this process: in a session of its own, and ended with us.

How this works: a signal to our process group (``timeout``, systemd, a closed terminal) would end a
JVM of the same group before the current batch is written. So it gets a session of its own. Its
standard input is a pipe from us: when that closes, also because we were killed, the JVM ends, and
with it Spark's Python workers.
"""

import subprocess
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

_END_S = 20.0


def start_gateway(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process, unless there is one."""
    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def end_gateway() -> None:
    """End the JVM of this process and wait for it; Spark must be stopped before."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or not isinstance(process, subprocess.Popen):
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
