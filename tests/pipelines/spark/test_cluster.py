"""The same pipeline file on a cluster of two workers gives the same tables."""

from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import SparkSession
from tests.pipelines.spark import shop_pipeline

pytestmark = shop_pipeline.MARKS

SMALL = ("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m")


def test_a_cluster_of_two_workers_gives_the_tables_of_local(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected = shop_pipeline.tables_of_local(spark)
    shop_pipeline.write_files(tmp_path)
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = shop_pipeline.started(
        tmp_path,
        "org.apache.spark.deploy.master.Master",
        *here,
        until=r"(spark://127\.0\.0\.1:\d+)",
        SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false",
    )
    with master as url, shop_pipeline.shop_served() as address:
        size = ("--cores", "1", "--memory", "600m")

        def worker(name: str) -> AbstractContextManager[str]:
            work = ("--work-dir", str(tmp_path / name))
            return shop_pipeline.started(
                tmp_path,
                "org.apache.spark.deploy.worker.Worker",
                *here,
                *size,
                *work,
                url,
                until="Successfully registered with master",
            )

        with worker("one"), worker("two"):
            shop_pipeline.run_elsewhere(tmp_path, address, "--master", url, *SMALL)

        assert shop_pipeline.tables(tmp_path, address) == expected
    for name in ("one", "two"):
        assert list((tmp_path / name).glob("app-*/*/stderr")), f"worker {name} ran nothing"
