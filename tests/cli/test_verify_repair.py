"""Verify, repair and doctor."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import mainstem
from mainstem.cli.exit_codes import Exit


@pytest.fixture
def damaged(run: Run, tmp_path: Path) -> Path:
    """Give the path of a segment in whose second of three batches a byte is wrong."""
    for text in ("first", "second", "third"):
        run("pub", "t", text * 100)
    segments = (tmp_path / "mainstem-data" / "partitions").rglob("*")
    (segment,) = (
        path for path in segments if path.is_file() and b"secondsecond" in path.read_bytes()
    )
    data = bytearray(segment.read_bytes())
    data[data.index(b"secondsecond")] ^= 1
    segment.write_bytes(data)
    return segment


def test_a_sound_directory_is_said_to_be_sound(run: Run) -> None:
    run("pub", "t", "1", "2")

    code, out, err = run("verify")

    assert (code, out) == (0, b"")
    assert err.endswith(": sound\n")
    assert run("verify", "-q") == (0, b"", "")


def test_damage_is_found_named_and_set_aside(run: Run, damaged: Path) -> None:
    code, out, _ = run("verify")
    assert code == Exit.ERROR
    (finding,) = (json.loads(line) for line in out.splitlines())
    assert finding["serious"]
    assert damaged.name in finding["place"]

    assert run("repair").code == Exit.REFUSED
    code, out, err = run("repair", "--yes")
    assert code == Exit.ERROR
    assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["lost"]
    assert "1 segments written anew" in err

    assert run("verify").code == 0
    assert run("sub", "t", "-e", "-f", "%o ").out == b"0 2 "
    assert run("repair", "--yes") == (0, b"", "mainstem: nothing had to be mended\n")


def test_a_person_sees_damage_in_a_table(run: Run, damaged: Path) -> None:
    lines = run("verify", terminal=True).lines

    assert lines[0].split() == ["SERIOUS", "PLACE", "PROBLEM"]
    assert damaged.name in lines[1]


def test_json_says_everything_that_was_looked_at(run: Run) -> None:
    run("pub", "t", "1")

    assert json.loads(run("verify", "--format", "json").out)["findings"] == []


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_only_a_directory_that_holds_a_log_and_is_free_can_be_looked_at(
    run: Run, command: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()

    sure = ["--yes"] * (command == "repair")
    assert run(command, *sure).code == Exit.NOT_FOUND
    assert run(command, "--at", "empty", *sure).code == Exit.NOT_FOUND
    assert run(command, "--at", "localhost:9092", *sure).code == Exit.REFUSED
    with mainstem.open("held"):
        assert run(command, "--at", "held", *sure).code == Exit.REFUSED


def checks(run: Run, *args: str) -> dict[str, tuple[str, str]]:
    rows = (json.loads(line) for line in run("doctor", *args).lines)
    return {row["check"]: (row["state"], row["found"]) for row in rows}


def test_doctor_looks_at_machine_and_directory(run: Run) -> None:
    found = checks(run)

    assert {"python", "mainstem", "click", "file descriptors", "java", "pyspark"} <= set(found)
    assert found["python"][0] == "ok"
    assert found["data directory"] == ("none", "mainstem-data holds no log yet")
    assert "median" in found["sync of 4 KiB"][1]


def test_doctor_makes_nothing(run: Run, tmp_path: Path) -> None:
    run("doctor")

    assert [path.name for path in tmp_path.iterdir()] == [".stdin"]


def test_doctor_names_who_holds_the_directory(run: Run) -> None:
    run("pub", "t", "1")

    assert checks(run)["data directory"] == ("ok", "mainstem-data: format 1, free")
    with mainstem.open("mainstem-data"):
        state, found = checks(run)["data directory"]
    assert state == "ok"
    assert "held by process" in found


def test_doctor_fails_what_cannot_work(run: Run, tmp_path: Path) -> None:
    run("pub", "t", "1")
    for name in ("manifest", "manifest.copy"):
        (tmp_path / "mainstem-data" / name).write_bytes(b"mainstem" + bytes(100))
    (tmp_path / "file").write_text("")

    assert run("doctor").code == Exit.ERROR
    assert checks(run)["data directory"][0] == "fail"
    assert checks(run, "--at", "file")["data directory"][0] == "fail"


def test_a_person_is_asked_before_a_repair(run: Run, typed: Callable[[str], None]) -> None:
    run("pub", "t", "1")
    typed("n\n")

    assert run("repair", stdin=None).code == Exit.ERROR
