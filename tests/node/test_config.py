"""Settings of a node: valid values, and the precedence of sources."""

from pathlib import Path

import pytest

from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import Durability
from mainstem.heads import HEADS
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.node.config import Config, load_config, settings


def test_without_any_source_every_setting_has_its_default(tmp_path: Path) -> None:
    config = load_config(tmp_path, {}, {})

    assert config == Config()
    assert config.durability is Durability.FSYNC


def test_an_argument_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "mainstem.toml").write_text("partitions = 2\ncommit_ms = 20\nfetch_bytes = 2048\n")
    environ = {"MAINSTEM_PARTITIONS": "3", "MAINSTEM_COMMIT_MS": "30"}

    config = load_config(tmp_path, environ, {"partitions": 4})

    assert (config.partitions, config.commit_ms, config.fetch_bytes) == (4, 30, 2048)


def test_variables_of_other_things_are_passed_over() -> None:
    environ = {"MAINSTEM_AT": "elsewhere", "PARTITIONS": "7"}

    config = load_config(None, environ, {})

    assert config == Config()


def test_settings_of_a_section_come_from_the_same_places(tmp_path: Path) -> None:
    (tmp_path / "mainstem.toml").write_text(
        "[kafka]\nmax_connections = 1\nmax_fetch_sessions = 1\nmax_wait_ms = 1\n"
        "[topics]\nmax_partitions = 1\n"
    )
    environ = {"MAINSTEM_KAFKA_MAX_CONNECTIONS": "2", "MAINSTEM_KAFKA_MAX_FETCH_SESSIONS": "2"}

    config = load_config(tmp_path, environ, {"kafka.max_connections": "3"})

    kafka = config.heads["kafka"]
    assert isinstance(kafka, KafkaSettings)
    assert (kafka.max_connections, kafka.max_fetch_sessions, kafka.max_wait_ms) == (3, 2, 1)
    assert config.topics.max_partitions == 1
    assert config.groups == Config().groups


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[kafka]\nmax_connections = 0", "kafka.max_connections = 0"),
        ("[kafka]\nmax_conections = 1", "no setting 'kafka.max_conections'"),
        # Not everything in a section is for users.
        ("[kafka]\nnode_id = 7", "no setting 'kafka.node_id'"),
        ("kafka = 1", "no setting 'kafka'"),
        ("[kafka.more]\nx = 1", "no setting 'kafka.more'"),
        ("[partitions]\nx = 1", "no setting 'partitions.x'"),
        ("partitons = 2", "no setting 'partitons'"),
        ("partitions = 0", "partitions = 0"),
        ("partitions = 'many'", "partitions = 'many'"),
        ("durability = 'some'", "durability = 'some'"),
        ("partitions = ", "is not valid TOML"),
    ],
)
def test_what_means_nothing_is_refused_by_name_and_place(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "mainstem.toml"
    file.write_text(text)

    with pytest.raises(InvalidSetting) as refused:
        load_config(tmp_path, {}, {})

    assert words in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_bad_variable_is_named_in_the_refusal() -> None:
    with pytest.raises(InvalidSetting, match="MAINSTEM_COMMIT_MS"):
        load_config(None, {"MAINSTEM_COMMIT_MS": "soon"}, {})


def test_booleans_in_the_environment_are_read_as_words() -> None:
    config = load_config(None, {"MAINSTEM_AUTO_CREATE": "false"}, {})

    assert config.auto_create is False


def test_every_setting_is_on_the_reference_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()

    rows = [
        f"| `{each.name}` | `{each.variable}` | {each.default} | {each.sentence} |"
        for each in settings()
    ]

    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


def test_every_setting_has_a_variable_a_default_and_a_sentence() -> None:
    described = settings()

    sections = set(Config.__struct_fields__) - {"heads"} | {head.name for head in HEADS}
    assert {each.name.partition(".")[0] for each in described} == sections
    for each in described:
        assert each.variable == f"MAINSTEM_{each.name.replace('.', '_').upper()}"
        assert each.default
        assert each.sentence.endswith(".")
