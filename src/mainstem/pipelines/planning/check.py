"""Checks a table with Spark, without reading a topic or starting a query."""

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mainstem.pipelines.definitions.fingerprint import fingerprint, incompatible_change
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.planning.offline import OfflinePlanner, SchemaNotInferred
from mainstem.pipelines.planning.planner import stored_columns
from mainstem.pipelines.spark.error_messages import cause_of
from mainstem.pipelines.state.table_state import StateDirectory

_SQL = "org.apache.spark.sql"


class TableCheck(msgspec.Struct, frozen=True):
    """The result of checking a table."""

    table: str
    sink: str
    output: str
    columns: str | None = None
    stateful: tuple[str, ...] | None = None
    """The stateful operators of the plan; None if the plan could not be built."""
    error: str | None = None
    warning: str | None = None


def check_table(
    spark: SparkSession, pipeline: Pipeline, table: Table, state_dir: StateDirectory
) -> TableCheck:
    """Build a table's plan as a stream and let Spark check it; return what was found."""
    plain = TableCheck(table.name, table.sink.place, table.output)
    try:
        frame = OfflinePlanner(spark, pipeline).stream(table, state_dir)
        columns = stored_columns(frame.schema).simpleString()[7:-1]
        if not frame.isStreaming:
            raise InvalidDefinition(f"table {table.name!r} reads no stream, only snapshots")
        found = fingerprint(table, frame)
        assert found is not None
        plain = msgspec.structs.replace(plain, columns=columns, stateful=found.stateful)
        jvm = spark._jvm
        assert jvm is not None
        checker = getattr(jvm, f"{_SQL}.catalyst.analysis.UnsupportedOperationChecker")
        modes = getattr(jvm, f"{_SQL}.streaming.OutputMode")
        mode = modes.Append() if table.output == "append" else modes.Update()
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
    except PySparkException as error:
        told = cause_of(error, pipeline.file)
        return msgspec.structs.replace(plain, error=f"table {table.name!r}: {told}")
    except SchemaNotInferred as error:
        return msgspec.structs.replace(plain, warning=str(error))
    except InvalidDefinition as error:
        return msgspec.structs.replace(plain, error=str(error))
    return msgspec.structs.replace(plain, warning=incompatible_change(state_dir, found))
