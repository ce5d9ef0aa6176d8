"""Errors of a pipeline file say what is wrong, where, and what to do, before Spark starts."""

import os
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
            "format 'xml' is unknown; use one of json, avro, text, raw",
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
            "needs a sink with a key",
        ),
        (
            "@p.table(source='o', schema='a int', sink=p.console())\ndef f(): pass",
            "does not take as many DataFrames",
        ),
        (
            "a = p.sql('x', source='o', schema='a int', name='twice', sink=p.console())\n"
            "b = p.sql('x', source='o', schema='a int', name='twice', sink=p.console())",
            "is defined twice",
        ),
        (
            "a = p.sql('x', source='o', schema='a int', sink=p.console())\n"
            "b = p.sql('x', source='a', schema='a int', sink=p.console())",
            "is a table of this file and has a schema already",
        ),
        ("@p.table\ndef f(o): pass", "shop.py:2: write @p.table(source=..., sink=...)"),
        ("@p.table()\ndef f(o): pass", "shop.py:2: table 'f' has no sink"),
        ("@p.table(sink=p.console())\ndef f(o): pass", "shop.py:2: table 'f' has no source"),
        ("a = p.sql('x', source='o')", "shop.py:2: table 'sql' has no sink"),
        ("a = p.sql('x', source='o', sink=p.delta)", "is not a sink"),
        ("a = p.sql('x', source='o', sink='t')", "'t' is not a sink"),
        (
            "a = p.sql('x', source='o', schema='a int', sink=p.topic('o'))",
            "shop.py:2: table 'a' reads what it writes",
        ),
        (
            "a = p.sql('x', source='o', schema='a int', sink=p.delta('t'))\n"
            "b = p.sql('x', source='a', sink=p.topic('u'))\n"
            "c = p.sql('x', source='u', schema='a int', sink=p.topic('o'))",
            "table 'a' reads what {file}:4: table 'c' writes, which reads what {file}:3: table "
            "'b' writes, which reads what it writes",
        ),
        (
            "a = p.sql('x', source='shop.dead', format='raw', sink=p.console())",
            "shop.py:2: table 'a' reads 'shop.dead', to which its own bad events go",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    assert told.replace("{file}", str(tmp_path / "shop.py")) in refusal(tmp_path, text)


def test_two_functions_of_one_name_are_refused_and_both_named(tmp_path: Path) -> None:
    one = f"""
        @p.table(source="orders", schema="{ORDERS}", sink=p.delta("t/NUMBER"))
        def same(orders):
            return orders
    """
    text = one.replace("NUMBER", "1") + one.replace("NUMBER", "2")

    told = refusal(tmp_path, text)

    assert "shop.py:7: table 'same' is defined twice, first at" in told
    assert "shop.py:3; rename one of them" in told


def test_tables_that_a_loop_defines_are_all_there(tmp_path: Path) -> None:
    (tmp_path / "making.py").write_text(
        "from mainstem import pipelines as p\n"
        "def make(name):\n"
        "    return p.sql('x', source='o', schema='a int', name=name, sink=p.delta(name))\n"
    )
    file = written(
        tmp_path,
        """
        from making import make

        for country in ("de", "fr"):

            @p.table(source="o", schema="a int", sink=p.delta(country), name=f"in_{country}")
            def sales(orders):
                return orders

        several = [make("x"), make("y")]
        last = p.sql("x", source="o", schema="a int", sink=p.console())
        """,
    )

    found = [each.name for each in p.load(file).tables]

    assert found == ["in_de", "in_fr", "x", "y", "last"]


def test_sql_that_no_variable_holds_needs_a_name(tmp_path: Path) -> None:
    one = "a = p.sql('x', source='o', schema='a int', sink=p.console())\n"

    assert "shop.py:2: this table has no name" in refusal(tmp_path, one + one)


def test_tables_of_a_module_count_if_they_are_imported_by_name(tmp_path: Path) -> None:
    (tmp_path / "besides.py").write_text(
        "from mainstem import pipelines as p\n"
        "a = p.sql('x', source='o', schema='a int', sink=p.console())\n"
        "b = p.sql('x', source='o', schema='a int', sink=p.console())\n"
    )
    text = "c = p.sql('x', source='o', schema='a int', sink=p.console())\nfrom besides import b\n"

    for _ in range(2):
        assert [each.name for each in p.load(written(tmp_path, text)).tables] == ["c", "b"]


SAME = [
    ("p.delta('t/a')", "p.delta('t/a/')"),
    ("p.delta('t/a')", "p.parquet('t/../t/a')"),
    ("p.delta('t/a')", "p.delta('{here}/t/a')"),
    ("p.delta('t/a')", "p.delta('link/a')"),
    ("p.sqlite('base.db', 'a')", "p.sqlite('./base.db', 'A')"),
    ("p.topic('a')", "p.topic('a', key='id')"),
    (
        "p.postgres('postgresql://me:secret@host/base', 'a')",
        "p.postgres('host=host dbname=base user=you port=5432', 'a')",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_tables_with_one_place_are_refused_and_both_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t").mkdir()
    Path("link").symlink_to("t")
    text = "".join(
        f"{name} = p.sql('x', source='o', schema='a int', output='append', sink={sink})\n"
        for name, sink in (("a", one), ("b", other.replace("{here}", str(tmp_path))))
    )

    told = refusal(tmp_path, text)

    assert "shop.py:3: table 'b' and" in told
    assert "shop.py:2: table 'a' write to the same place" in told
    assert "secret" not in told


def test_a_file_that_is_not_there_or_cannot_name_a_pipeline_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidDefinition, match="there is no pipeline file"):
        p.load(tmp_path / "nothing.py")

    assert "cannot name a pipeline" in refusal(tmp_path, "", name="my shop.py")


def test_a_file_that_was_changed_a_moment_ago_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    text = 'large = p.sql("", source="orders", schema="id string", sink=p.delta("t/one"))'
    file = written(tmp_path, text)
    before = file.stat()
    first = p.load(file)
    file.write_text(file.read_text().replace("t/one", "t/two"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    second = p.load(file)

    assert (first.tables[0].sink.place, second.tables[0].sink.place) == (
        "Delta table t/one",
        "Delta table t/two",
    )


def test_definitions_are_loaded_without_spark() -> None:
    code = "import sys; from mainstem import pipelines; print('pyspark' in sys.modules)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p.apply_changes(p.events('o', schema='id int'), key='id', sink=T)", "is p.changes("),
        ("p.apply_changes(C, key=(), sink=T)", "needs key=: the primary key"),
        ("p.apply_changes(C, key='id', sink=T, scd=3)", "scd=3 is not supported"),
        ("p.apply_changes(C, key='id', sink=p.parquet('t'))", "cannot delete rows"),
        ("p.apply_changes(C, key='id', sink=p.delta('t', key='x'))", "the sink's key is x"),
    ],
)
def test_wrong_arguments_of_apply_changes_are_refused(tmp_path: Path, text: str, told: str) -> None:
    given = f"C = p.changes('shop.orders', schema='id int')\nT = p.delta('t')\nx = {text}"
    assert told in refusal(tmp_path, given)


def test_a_table_of_changes_has_the_key_of_its_sink(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        C = p.changes("shop.orders", schema="id int, name string")
        now = p.apply_changes(C, key="id", sink=p.delta("t/now"))
        history = p.apply_changes(C, key="id", sink=p.delta("t/history"), scd=2)
        """,
    )

    found = {each.name: (each.sink.key, each.output) for each in p.load(file).tables}

    assert found == {"now": (("id",), "update"), "history": (("id", "_position"), "update")}
