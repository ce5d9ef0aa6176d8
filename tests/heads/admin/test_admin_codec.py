"""The text format of metrics, read back by a parser that we did not write."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mainstem.core.histogram import Histogram
from mainstem.heads.admin.codec import encode, encode_histogram
from mainstem.heads.metric import Metric

# The parser cuts the text with str.splitlines, so that it takes more for a line end than it should.
TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]) | st.just("\n"))


@given(
    st.lists(st.tuples(TEXT, st.floats(allow_nan=False)), min_size=1, unique_by=lambda it: it[0])
)
def test_whatever_a_label_says_and_whatever_the_value_is_they_are_read_back(
    samples: list[tuple[str, float]],
) -> None:
    metric = Metric("m", "gauge", "What it says.", ("label",))

    text = encode(metric, [((label,), value) for label, value in samples])

    (family,) = text_string_to_metric_families(text)
    assert [(each.labels["label"], each.value) for each in family.samples] == samples
    assert (family.type, family.documentation) == ("gauge", "What it says.")


def test_a_metric_without_samples_is_left_out() -> None:
    assert encode(Metric("m", "gauge", "Nothing."), []) == ""


@given(st.lists(st.floats(0, 100)))
def test_a_distribution_tells_how_many_values_were_at_most_a_bound(values: list[float]) -> None:
    histogram = Histogram((1, 2.5, 10))
    for value in values:
        histogram.add(value)

    (family,) = text_string_to_metric_families(
        encode_histogram(Metric("h", "histogram", "Values."), histogram)
    )

    found = {(each.name, each.labels.get("le")): each.value for each in family.samples}
    for bound in (1, 2.5, 10):
        assert found["h_bucket", str(bound)] == sum(value <= bound for value in values)
    assert found["h_bucket", "+Inf"] == found["h_count", None] == len(values)
    assert found["h_sum", None] == sum(values)
