"""The same pipeline file over Spark Connect gives the same tables."""

from pathlib import Path

from pyspark.sql import SparkSession
from tests.pipelines.spark import shop_pipeline

pytestmark = shop_pipeline.MARKS


def test_spark_connect_gives_the_tables_of_local(spark: SparkSession, tmp_path: Path) -> None:
    expected = shop_pipeline.tables_of_local(spark)
    shop_pipeline.write_files(tmp_path)
    python = shop_pipeline.python_without_us(tmp_path)
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    server = shop_pipeline.started(
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
    with server as port, shop_pipeline.shop_served() as address:
        shop_pipeline.run_elsewhere(tmp_path, address, "--remote", f"sc://127.0.0.1:{port}")

        assert shop_pipeline.tables(tmp_path, address) == expected
