"""The same pipeline file over Spark Connect gives the same tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.spark.shop_pipeline import (
    python_without_us,
    run_elsewhere,
    shop_served,
    started,
    tables,
    tables_of_local,
    write_files,
)

pytestmark = [
    pytest.mark.peers,
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("own_scratch"),
]


def test_spark_connect_gives_the_tables_of_local(spark: SparkSession, tmp_path: Path) -> None:
    expected = tables_of_local(spark)
    write_files(tmp_path)
    python = python_without_us(tmp_path)
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    server = started(
        tmp_path,
        "org.apache.spark.deploy.SparkSubmit",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
        until=r"started at.*?:(\d+)",
        PYSPARK_PYTHON=str(python),
        SPARK_DAEMON_MEMORY="1g",
    )
    with server as port, shop_served() as address:
        run_elsewhere(tmp_path, address, "--remote", f"sc://127.0.0.1:{port}")

        assert tables(tmp_path, address) == expected
