"""The same pipeline file on a cluster of two workers gives the same tables."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.spark.shop_pipeline import (
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

SMALL = ("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m")


def test_a_cluster_of_two_workers_gives_the_tables_of_local(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected = tables_of_local(spark)
    write_files(tmp_path)
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = started(
        tmp_path,
        "org.apache.spark.deploy.master.Master",
        *here,
        until=r"(spark://127\.0\.0\.1:\d+)",
        SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false",
    )
    with master as url, shop_served() as address:
        size = ("--cores", "1", "--memory", "600m")

        def worker(name: str) -> AbstractContextManager[str]:
            work = ("--work-dir", str(tmp_path / name))
            return started(
                tmp_path,
                "org.apache.spark.deploy.worker.Worker",
                *here,
                *size,
                *work,
                url,
                until="Successfully registered with master",
            )

        with worker("one"), worker("two"):
            run_elsewhere(tmp_path, address, "--master", url, *SMALL)

        assert tables(tmp_path, address) == expected
    for name in ("one", "two"):
        assert list((tmp_path / name).glob("app-*/*/stderr")), f"worker {name} ran nothing"
