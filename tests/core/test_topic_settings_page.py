"""The page about settings of topics names all of them."""

from pathlib import Path

from mainstem.core.topic_settings import TopicSettings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "topics.md"


def test_every_setting_of_a_topic_is_on_its_page() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line[:3] == "| `"]

    assert rows == sorted(rows, key=list(TopicSettings.__struct_fields__).index)
    assert set(rows) == set(TopicSettings.__struct_fields__)
