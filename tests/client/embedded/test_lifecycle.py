"""Opening, closing, forking, interrupting and ending: nothing hangs and nothing is lost."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import mainstem
from mainstem.core.errors import Closed, DirectoryInUse, InvalidSetting


def run_program(text: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def printed_by(text: str, *arguments: object) -> str:
    """Run a program, which must succeed; return what it printed."""
    ran = run_program(text, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_what_was_published_is_there_after_reopening(tmp_path: Path) -> None:
    with mainstem.open(tmp_path / "new" / "data") as stem:
        stem.publish("n", "x")

    with mainstem.open(tmp_path / "new" / "data") as stem:
        assert [event.text() for event in stem.subscribe("n", follow=False)] == ["x"]
        assert stem.recovery is not None
        assert stem.recovery.clean


def test_memory_keeps_nothing_and_makes_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with mainstem.open(":memory:") as stem:
        stem.publish("n", "x")

    with mainstem.open(":memory:") as stem:
        assert stem.topics.list() == ()
    assert list(tmp_path.iterdir()) == []


def test_settings_come_from_keywords_environment_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mainstem.toml").write_text('partitions = 2\ndurability = "disk"\n')
    monkeypatch.setenv("MAINSTEM_PARTITIONS", "3")

    with mainstem.open(tmp_path, commit_ms=7) as stem:
        assert (stem.config.partitions, stem.config.durability) == (3, "disk")
        assert stem.config.commit_ms == 7
    with pytest.raises(InvalidSetting, match="no setting 'colour'"):
        mainstem.open(tmp_path, colour="blue")


def test_a_refused_setting_leaves_the_directory_free(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting):
        mainstem.open(tmp_path, partitions=0)

    mainstem.open(tmp_path).close()


def test_a_directory_is_held_by_one_stem_at_a_time(tmp_path: Path) -> None:
    with mainstem.open(tmp_path), pytest.raises(DirectoryInUse, match=str(os.getpid())):
        mainstem.open(tmp_path)

    mainstem.open(tmp_path).close()


def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    with mainstem.open(tmp_path):
        second = run_program("import mainstem, sys; mainstem.open(sys.argv[1])", tmp_path)

    assert second.returncode == 1
    assert "DirectoryInUse" in second.stderr
    assert str(tmp_path) in second.stderr
    assert f"process {os.getpid()}" in second.stderr


USES: list[Callable[[mainstem.EmbeddedStem], object]] = [
    lambda stem: stem.publish("n", "x"),
    lambda stem: stem.publish_many("n", ["x"]),
    lambda stem: stem.subscribe("n"),
    lambda stem: stem.topics.create("m"),
    lambda stem: stem.topics.list(),
    lambda stem: stem.topics.show("n"),
    lambda stem: stem.topics.alter("n", partitions=2),
    lambda stem: stem.topics.delete("n"),
    lambda stem: stem.topics.trim("n", "latest"),
    lambda stem: stem.groups.list(),
    lambda stem: stem.groups.show("g"),
    lambda stem: stem.groups.seek("g", "n", 0),
    lambda stem: stem.groups.delete("g"),
]


@pytest.mark.parametrize("use", USES)
def test_a_closed_stem_refuses_every_use(use: Callable[[mainstem.EmbeddedStem], object]) -> None:
    stem = mainstem.open(":memory:")
    stem.publish("n", "x")
    stem.close()
    stem.close()

    with pytest.raises(Closed):
        use(stem)


def test_an_error_in_the_block_does_not_count_the_event_in_work(tmp_path: Path) -> None:
    def work() -> None:
        with mainstem.open(tmp_path) as stem:
            stem.publish_many("n", ["a", "b"])
            events = stem.subscribe("n", group="g")
            next(events)
            next(events)
            raise LookupError

    with pytest.raises(LookupError):
        work()

    with mainstem.open(tmp_path) as stem:
        assert [event.text() for event in stem.subscribe("n", group="g", follow=False)] == ["b"]


def test_a_forked_child_can_neither_use_nor_harm_the_log(tmp_path: Path) -> None:
    program = """
        import os, sys, mainstem
        stem = mainstem.open(sys.argv[1])
        stem.publish("n", "before")
        events = stem.subscribe("n", group="g")
        child = os.fork()
        if child == 0:
            try:
                stem.publish("n", "from the child")
            except mainstem.errors.Closed as error:
                print("child:", error, flush=True)
            assert list(events) == []
            stem.close()
            sys.exit(7)  # also runs the child's exit handlers and finalisers
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        stem.publish("n", "after")
        print(next(events).text(), next(events).text())
        stem.close()
        mainstem.open(sys.argv[1]).close()
    """

    printed = printed_by(program, tmp_path)

    assert "child: the stem was opened before a fork" in printed
    assert printed.endswith("before after\n")


def test_a_forked_child_has_no_writer(tmp_path: Path) -> None:
    program = """
        import os, sys, mainstem
        stem = mainstem.open(sys.argv[1])
        stem.topics.create("n", partitions=1)
        writer = stem.writer("n", name="w")
        child = os.fork()
        if child == 0:
            try:
                writer.append("from the child")
            except mainstem.errors.Closed as error:
                print("child:", error, flush=True)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        writer.append("after")
        print([event.text() for event in stem.subscribe("n", follow=False)])
        stem.close()
    """

    printed = printed_by(program, tmp_path)

    assert "child: the writer was opened before a fork" in printed
    assert printed.endswith("['after']\n")


def test_a_forked_child_that_lives_on_does_not_hold_the_directory(tmp_path: Path) -> None:
    program = """
        import os, sys, mainstem
        stem = mainstem.open(sys.argv[1])
        hold, let_go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(let_go)
            os.read(hold, 1)
            os._exit(0)
        stem.close()
        mainstem.open(sys.argv[1]).close()
        os.close(let_go)
        os.waitpid(child, 0)
    """

    ran = run_program(program, tmp_path)

    assert ran.returncode == 0, ran.stderr


def test_ctrl_c_ends_a_wait_at_the_tail(tmp_path: Path) -> None:
    program = """
        import os, signal, sys, threading, mainstem
        with mainstem.open(sys.argv[1]) as stem:
            stem.publish("n", "x")
            try:
                for event in stem.subscribe("n", group="g"):
                    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            except KeyboardInterrupt:
                print("interrupted")
            print(stem.groups.show("g").lag)
    """

    ran = run_program(program, tmp_path)

    assert (ran.returncode, ran.stdout) == (0, "interrupted\n0\n"), ran.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "stem.close()",
        "del stem",
        "iterator = iter(events); next(iterator)",
        "threading.Thread(target=list, args=(events,), daemon=True).start()",
        "cycle = [events]; cycle.append(cycle); del events, cycle",
    ],
)
def test_a_program_that_just_ends_does_not_hang_and_leaves_a_clean_log(
    tmp_path: Path, ending: str
) -> None:
    program = f"""
        import sys, threading, mainstem
        stem = mainstem.open(sys.argv[1])
        stem.topics.create("n", durability="disk")
        stem.publish("n", "x")
        events = stem.subscribe("n", group="g")
        {ending}
    """

    ran = run_program(program, tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    with mainstem.open(tmp_path) as stem:
        assert stem.recovery is not None
        assert stem.recovery.clean
        assert stem.topics.show("n").events == 1


def test_a_program_that_just_ends_has_committed_what_was_finished(tmp_path: Path) -> None:
    program = """
        import sys, mainstem
        stem = mainstem.open(sys.argv[1])
        stem.publish_many("n", ["a", "b", "c"])
        events = stem.subscribe("n", group="g")
        next(events), next(events)
    """

    ran = run_program(program, tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    with mainstem.open(tmp_path) as stem:
        assert [lag.cursor for lag in stem.groups.show("g").lags] == [1]


def test_a_thread_of_the_stem_does_not_keep_the_program_alive() -> None:
    with mainstem.open(":memory:") as stem:
        stem.publish("n", "x")
        events = stem.subscribe("n", group="g")
        ours = [each for each in threading.enumerate() if each.name.startswith("mainstem")]
        events.close()

    assert ours
    assert all(each.daemon for each in ours)


def test_importing_loads_next_to_nothing() -> None:
    program = """
        import sys
        before = set(sys.modules)
        import mainstem
        loaded = {name for name in set(sys.modules) - before if name.startswith("mainstem")}
        assert loaded == {"mainstem"}, loaded
        for heavy in ("asyncio", "msgspec", "click", "cramjam", "zstandard"):
            assert heavy not in sys.modules, heavy
    """

    ran = run_program(program)

    assert ran.returncode == 0, ran.stderr


def test_opening_needs_no_event_loop_and_no_command_line() -> None:
    program = """
        import sys, mainstem
        mainstem.open(":memory:").close()
        for heavy in ("asyncio", "click"):
            assert heavy not in sys.modules, heavy
    """

    ran = run_program(program)

    assert ran.returncode == 0, ran.stderr


def test_every_public_name_can_be_reached_and_no_other() -> None:
    for name in mainstem.__all__:
        assert getattr(mainstem, name) is not None

    with pytest.raises(AttributeError):
        mainstem.nonsense  # noqa: B018
    assert dir(mainstem) == sorted(mainstem.__all__)
