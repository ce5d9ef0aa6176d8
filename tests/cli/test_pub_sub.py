"""Publishing and reading from the command line."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit


def test_lines_go_in_and_come_out(run: Run) -> None:
    published = run("pub", "numbers", stdin=b"1\n2\n3\n")

    assert published.code == 0
    assert published.out == b""
    assert published.err.startswith("mainstem: created topic numbers (1 partition, fsync;")
    assert run("sub", "numbers", "-e") == (0, b"1\n2\n3\n", "")


def test_an_existing_topic_is_not_announced_again(run: Run) -> None:
    run("pub", "numbers", "1")

    assert run("pub", "numbers", "2") == (0, b"", "")
    assert run("sub", "numbers", "-e").out == b"1\n2\n"


def test_the_last_line_needs_no_end_and_an_empty_line_is_an_empty_event(run: Run) -> None:
    run("pub", "t", stdin=b"a\n\nb")

    assert run("sub", "t", "-e", "-f", "%S:%s ").out == b"1:a 0: 1:b "


def test_an_empty_value_can_mean_a_deletion(run: Run) -> None:
    run("pub", "t", "-Z", "-K:", stdin=b"k:\n:v\nplain\n")

    assert run("sub", "t", "-e", "-f", "%K %k %S %s|").out == b"1 k -1 |-1  1 v|-1  5 plain|"
    assert run("sub", "t", "-e", "-Z").out == b"NULL\nv\nplain\n"


def test_values_may_be_arguments_files_and_lines_of_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(b"a\nb\n")

    run("pub", "t", "x", "y")
    run("pub", "t", "--file", "whole")
    run("pub", "t", "-l", "whole")
    run("pub", "t", "-", stdin=b"from stdin\n")

    assert run("sub", "t", "-e", "-D", ";").out == b"x;y;a\nb\n;a;b;from stdin;"


def test_keys_and_headers_are_kept(run: Run) -> None:
    run("pub", "t", "v", "-k", "key", "-H", "a=1", "-H", "a=2=3", "-H", "none")

    printed = run("sub", "t", "-e", "-f", r"%t/%p/%o %k %h %s\n").out

    assert printed == b"t/0/0 key a=1,a=2=3,none=NULL v\n"


def test_a_key_may_be_at_the_beginning_of_each_line(run: Run) -> None:
    run("pub", "t", "-K", r"\t", stdin=b"k\tv\tw\nno key\n")

    assert run("sub", "t", "-e", "-K", " => ").out == b"k => v\tw\n => no key\n"


def test_bytes_are_not_touched_in_a_pipe(run: Run) -> None:
    everything = bytes(range(256))

    run("pub", "t", "-D", "||", stdin=everything)

    assert run("sub", "t", "-e", "-D", "").out == everything


def test_a_terminal_is_shown_what_it_could_obey(run: Run) -> None:
    run("pub", "t", "\x1b[2Jcleared")

    assert run("sub", "t", "-e", terminal=True).out == b"\\x1b[2Jcleared\n"
    assert run("sub", "t", "-e", "--raw", terminal=True).out == b"\x1b[2Jcleared\n"


def test_a_topic_is_copied_by_envelopes(run: Run) -> None:
    run("pub", "t", "-K:", "-H", "h=1", stdin=b"k:v\nk:\xff\n")
    envelopes = run("sub", "t", "-e", "-J").out

    run("pub", "copy", "-J", stdin=envelopes)

    copied = [json.loads(line) for line in run("sub", "copy", "-e", "-J").lines]
    original = [json.loads(line) for line in envelopes.splitlines()]
    assert [line.pop("topic") for line in copied] == ["copy", "copy"]
    assert [line.pop("topic") for line in original] == ["t", "t"]
    assert copied == original
    assert copied[1]["payload_encoding"] == "base64"


def test_a_bad_envelope_is_refused_and_named(run: Run) -> None:
    code, _, err = run("pub", "t", "-q", "-J", stdin=b'{"payload": 1}\n')

    assert code == Exit.REFUSED
    assert "is not an envelope" in err


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        ("beginning", "01234"),
        ("end", ""),
        ("3", "34"),
        ("-2", "34"),
        ("-99", "01234"),
        ("@0", "01234"),
        ("@-1h", "01234"),
        ("e@0", ""),
    ],
)
def test_reading_begins_where_it_is_told(run: Run, where: str, printed: str) -> None:
    run("pub", "t", *"01234")

    assert run("sub", "t", "-e", "-D", "", "-o", where) == (0, printed.encode(), "")


def test_reading_stops_at_a_time(run: Run) -> None:
    lines = [json.dumps({"payload": str(ts), "ts": ts}) for ts in (10, 20, 30, 15)]
    run("pub", "t", "-J", stdin="\n".join(lines).encode())

    assert run("sub", "t", "-o", "@15", "-o", "e@30").out == b"20\n"


def test_reading_stops_after_a_count(run: Run) -> None:
    run("pub", "t", *"01234")

    assert run("sub", "t", "-c", "2") == (0, b"0\n1\n", "")


def test_publishing_stops_after_a_count(run: Run) -> None:
    run("pub", "t", "-c", "2", stdin=b"0\n1\n2\n")

    assert run("sub", "t", "-e", "-D", "").out == b"01"


def test_partitions_are_chosen_and_read_alone(run: Run) -> None:
    run("topic", "create", "t", "--partitions", "3")
    run("pub", "t", "-p", "2", "two")
    run("pub", "t", "-p", "0", "zero")

    assert run("sub", "t", "-e", "-p", "2").out == b"two\n"
    assert run("sub", "t", "-e", "-p", "1").out == b""
    assert run("pub", "t", "-p", "3", "x").code == Exit.NOT_FOUND


def test_a_group_goes_on_where_it_stopped_and_others_see_everything(run: Run) -> None:
    run("pub", "t", *"0123")

    assert run("sub", "t", "-g", "a", "-c", "1").out == b"0\n"
    assert run("sub", "t", "-g", "a", "-c", "2", "-o", "stored").out == b"1\n2\n"
    assert run("sub", "t", "-G", "b", "-e")[:2] == (Exit.OK, b"0\n1\n2\n3\n")
    assert run("sub", "t", "-g", "a", "-e")[:2] == (Exit.OK, b"3\n")
    assert run("sub", "t", "-g", "a", "-e")[:2] == (Exit.OK, b"")


def test_topics_are_read_by_pattern(run: Run) -> None:
    run("pub", "orders.eu", "1")
    run("pub", "orders.us", "2")
    run("pub", "other", "3")

    assert sorted(run("sub", "orders.*", "-e", "-f", "%t=%s ").out.split()) == [
        b"orders.eu=1",
        b"orders.us=2",
    ]


def test_nothing_in_time_is_exit_4(run: Run) -> None:
    run("topic", "create", "t")

    code, out, err = run("sub", "t", "--timeout", "0.01")

    assert (code, out) == (Exit.TIMEOUT, b"")
    assert err == "mainstem: 0 events came, and then none for 0.01 s\n"


def test_enough_in_time_is_no_error_and_fewer_than_asked_is(run: Run) -> None:
    run("pub", "t", "1")

    assert run("sub", "t", "--timeout", "0.01").code == 0
    assert run("sub", "t", "--timeout", "0.01", "-c", "2").code == Exit.TIMEOUT
    assert run("sub", "t", "--timeout", "0.01", "-c", "1").code == 0


def test_an_unknown_topic_is_not_made_by_reading_nor_against_the_will(run: Run) -> None:
    run("pub", "t", "1")

    assert run("sub", "nowhere", "-e").code == Exit.NOT_FOUND
    assert run("pub", "nowhere", "1", "--no-create").code == Exit.NOT_FOUND
    assert [json.loads(line)["topic"] for line in run("topic", "ls").lines] == ["t"]


def test_no_create_makes_no_directory_either(run: Run, tmp_path: Path) -> None:
    assert run("pub", "t", "1", "--no-create").code == Exit.NOT_FOUND
    assert not (tmp_path / "mainstem-data").exists()


@pytest.mark.parametrize("name", ["../x", "", "a b", "x" * 250, "__mainstem_cursors", "orders.*"])
def test_a_name_that_cannot_be_is_refused(run: Run, name: str) -> None:
    assert run("pub", name, "1").code == Exit.REFUSED


def test_an_event_over_the_limit_is_refused(run: Run) -> None:
    run("topic", "create", "t", "--max-batch-bytes", "1KiB")

    code, _, err = run("pub", "t", stdin=b"small\n" + bytes(5000))

    assert code == Exit.REFUSED
    told, reason = err.splitlines()
    assert told == "mainstem: at least 1 events were published before this error:"
    assert "max_batch_bytes" in reason
    assert run("sub", "t", "-e").out == b"small\n"


def test_a_person_is_told_what_was_published_and_where_the_end_is(run: Run) -> None:
    published = run("pub", "t", "1", terminal=True)
    read = run("sub", "t", "--timeout", "0", terminal=True)

    assert "published 1 event to t (fsync, 1 copy)" in published.err
    assert "at the end; waiting for more" in read.err
    assert run("pub", "t", "1", "-q", terminal=True).err == ""


def test_the_log_is_where_it_is_said_to_be(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("pub", "t", "1", "--at", "here")
    run("--at", "there", "pub", "t", "2")
    monkeypatch.setenv("MAINSTEM_AT", "elsewhere")
    run("pub", "t", "3")

    assert run("sub", "t", "-e", "--at", "here").out == b"1\n"
    assert run("sub", "t", "-e", "--at", "there").out == b"2\n"
    assert run("sub", "t", "-e").out == b"3\n"
    assert not (tmp_path / "mainstem-data").exists()
