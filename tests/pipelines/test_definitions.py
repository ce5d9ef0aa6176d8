"""A pipeline file says what is wrong with it, where, and what to do, before Spark is started."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from mainstem import pipelines as p
from mainstem.pipelines.errors import InvalidDefinition

ORDERS = "id string, amount decimal(12,2), at timestamp"


def written(tmp_path: Path, text: str, name: str = "shop.py") -> Path:
    file = tmp_path / name
    file.write_text(f"from mainstem import pipelines as p\n{dedent(text)}")
    return file


def refusal(tmp_path: Path, text: str, name: str = "shop.py") -> str:
    with pytest.raises(InvalidDefinition) as error:
        p.load(written(tmp_path, text, name))
    return str(error.value)


def test_tables_are_found_in_the_order_in_which_they_are_written(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        f"""
        @p.table(source="orders", schema="{ORDERS}", sink=p.delta("t/all"))
        def everything(orders):
            return orders

        large = p.sql("select * from everything", source="everything", sink=p.console())
        """,
    )

    pipeline = p.load(file)

    assert pipeline.name == "shop"
    assert pipeline.dead_topic() == "shop.dead"
    assert [each.name for each in pipeline.tables] == ["everything", "large"]
    assert pipeline.tables[1].sources[0].name == "everything"


def test_a_sink_with_a_key_has_its_rows_updated_and_cannot_be_followed() -> None:
    added = p.sql("select 1", source="orders", sink=p.delta("t"), name="added")
    updated = p.sql("select 1", source="orders", sink=p.delta("t", key="id"), name="updated")

    assert (added.output, added.keeps_rows) == ("append", True)
    assert (updated.output, updated.keeps_rows) == ("update", False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "defines no table"),
        ("x = ", "shop.py:2: SyntaxError"),
        ("1 / 0", "shop.py:2: ZeroDivisionError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("a = p.sql('x', source='orders', sink=p.console())", "json needs a schema"),
        ("a = p.sql('x', source='no/topic', schema='a int', sink=p.console())", "cannot name a"),
        ("a = p.sql('x', source=[], sink=p.console())", "has no source"),
        (
            "a = p.sql('x', source='o', format='xml', sink=p.console())",
            "format 'xml' is not known; there are json, avro, text, raw",
        ),
        (
            "a = p.sql('x', source='o', format='text', schema='a int', sink=p.console())",
            "has a fixed schema",
        ),
        (
            "a = p.sql('x', source=['o', 'p'], schema='a int', sink=p.console())",
            "belong to each source here",
        ),
        (
            "a = p.sql('x', source='o', schema='a int', output='update', sink=p.console())",
            "need a sink with a key",
        ),
        (
            "@p.table(source='o', schema='a int', sink=p.console())\ndef f(): pass",
            "does not take as many DataFrames",
        ),
        (
            "a = p.sql('x', source='o', schema='a int', name='twice', sink=p.console())\n"
            "b = p.sql('x', source='o', schema='a int', name='twice', sink=p.console())",
            "is there twice",
        ),
        (
            "a = p.sql('x', source='o', schema='a int', sink=p.console())\n"
            "b = p.sql('x', source='a', schema='a int', sink=p.console())",
            "is a table of this file and has its own schema",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal(tmp_path, text)


def test_a_file_that_is_not_there_or_cannot_name_a_pipeline_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidDefinition, match="there is no pipeline file"):
        p.load(tmp_path / "nothing.py")

    assert "cannot name a pipeline" in refusal(tmp_path, "", name="my shop.py")


def test_definitions_are_loaded_without_spark() -> None:
    code = "import sys; from mainstem import pipelines; print('pyspark' in sys.modules)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"
