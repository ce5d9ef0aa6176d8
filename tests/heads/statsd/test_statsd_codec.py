"""StatsD lines: what each means, and that malformed ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.statsd.codec import BadLine, Metric, parse_line, parse_packet

PLAIN = [
    ("jobs:1|c", [Metric("jobs", "counter", 1)]),
    ("jobs:-2|c|@0.1", [Metric("jobs", "counter", -2, 0.1)]),
    ("load:320|ms", [Metric("load", "timer", 320)]),
    ("load:320.5|h|@0.5", [Metric("load", "histogram", 320.5, 0.5)]),
    ("load:.5|d", [Metric("load", "distribution", 0.5)]),
    ("heat:333|g", [Metric("heat", "gauge", 333)]),
    ("heat:-10|g", [Metric("heat", "gauge", -10, relative=True)]),
    ("heat:+4|g", [Metric("heat", "gauge", 4, relative=True)]),
    ("users:765|s", [Metric("users", "set", "765")]),
    ("users:ann|s|#b:2,a:1", [Metric("users", "set", "ann", tags=("a:1", "b:2"))]),
    ("jobs:1|c|#env:prod,fast,env:prod", [Metric("jobs", "counter", 1, tags=("env:prod", "fast"))]),
    ("jobs:1|c|@0.5|#a|c:ci-7", [Metric("jobs", "counter", 1, 0.5, ("a",))]),
    ("jobs:1|c|T1656581400", [Metric("jobs", "counter", 1, timestamp_s=1656581400)]),
    ("a:1|c:2|ms|@0.1", [Metric("a", "counter", 1), Metric("a", "timer", 2, 0.1)]),
    ("a:1:2:3|h|#t:x", [Metric("a", "histogram", n, tags=("t:x",)) for n in (1, 2, 3)]),
    ("a:1:2|d", [Metric("a", "distribution", n) for n in (1, 2)]),
    ("ü.näme:1e3|c", [Metric("ü.näme", "counter", 1000)]),
]


@pytest.mark.parametrize(("line", "meant"), PLAIN)
def test_a_line_means_what_statsd_and_its_kin_mean_by_it(line: str, meant: list[Metric]) -> None:
    assert parse_line(line) == meant


@pytest.mark.parametrize(
    "line",
    [
        "jobs",
        "jobs:",
        ":1|c",
        "jobs:1",
        "jobs:|c",
        "jobs:1|",
        "jobs:1|x",
        "jobs:1|C",
        "jobs:one|c",
        "jobs:nan|c",
        "jobs:inf|g",
        "jobs:1_000|c",
        "jobs: 1|c",
        "jobs:1e999|c",
        f"jobs:{'9' * 400}|c",
        "jobs:1|c|@0",
        "jobs:1|c|@2",
        "jobs:1|c|@-1",
        "jobs:1|c|zzz",
        "jobs:1|c:two|c",
        "jobs:1:two|c",
        "users:|s",
        "a\x00b:1|c",
        f"{'n' * 501}:1|c",
        f"jobs:1|c|#{','.join(map(str, range(101)))}",
        f"jobs:1|c|#{'x' * 4_001}",
        f"jobs:{':'.join('1' * 3_000)}|c|#{'x' * 400}",
        "_e{5,4}:title|text",
        "_sc|db|0",
        ":" * 65_000,
        "a" + ":" * 65_000,
    ],
)
def test_a_line_that_is_no_metric_is_bad_as_a_whole(line: str) -> None:
    with pytest.raises(BadLine):
        parse_line(line)


def test_a_packet_holds_many_lines_and_a_bad_one_costs_only_itself() -> None:
    found, wrong = parse_packet(b"a:1|c\nbad\r\n\nb:2|g\r\n")

    assert found == [Metric("a", "counter", 1), Metric("b", "gauge", 2)]
    assert wrong == ["no name"]


@given(st.binary(max_size=300))
def test_whatever_comes_is_metrics_or_bad_lines(data: bytes) -> None:
    found, wrong = parse_packet(data)

    lines = [line for line in data.split(b"\n") if line not in (b"", b"\r")]
    assert len(wrong) <= max(1, len(lines))
    assert bool(found or wrong) == bool(lines)


def _words(excluded: str) -> st.SearchStrategy[str]:
    letters = st.characters(exclude_characters=excluded + "\n\r", exclude_categories=("Cc", "Cs"))
    return st.text(letters, min_size=1)


_names = _words(":")
_tags = st.sets(_words(",|#"))


@given(
    _names.filter(lambda name: not name.startswith(("_e{", "_sc|"))),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["ms", "h", "d", "c"]),
    st.floats(min_value=0.001, max_value=1),
    _tags,
)
def test_what_a_client_writes_is_read_back(
    name: str, value: float, kind: str, rate: float, tags: set[str]
) -> None:
    line = f"{name}:{value!r}|{kind}|@{rate!r}"
    line += f"|#{','.join(tags)}" if tags else ""

    (found,) = parse_line(line)

    assert (found.name, found.value, found.rate, set(found.tags)) == (name, value, rate, tags)
