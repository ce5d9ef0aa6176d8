"""Starts and ends Spark's JVM as a child of this process.

How this works: a signal to our process group (``timeout``, systemd, a closed terminal) would end a
JVM in that group before the current batch is written, so the JVM gets its own session. Its standard
input is a pipe from this process: when that closes, also because this process was killed, the JVM
exits, and with it Spark's Python workers.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_END_S = 20.0
_LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


def start_gateway(settings: Mapping[str, str]) -> None:
    """Start a JVM for this process, unless there is one."""
    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def end_gateway() -> None:
    """End the JVM of this process and wait for it; Spark must have been stopped before."""
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


def log_to(spark: SparkSession, file: Path) -> None:
    """Make Spark's JVM log to a file, as on a terminal its stack traces would hide our messages."""
    jvm = spark._jvm
    assert jvm is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    log4j = jvm.org.apache.logging.log4j.core
    text = jvm.java.io.ByteArrayInputStream(_LOGGING.format(file=file.resolve()).encode())
    context = log4j.LoggerContext.getContext(False)
    factory = log4j.config.properties.PropertiesConfigurationFactory()
    source = log4j.config.ConfigurationSource(text)
    context.reconfigure(factory.getConfiguration(context, source))
