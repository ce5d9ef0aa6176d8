"""Parses the query string of a request."""

from urllib.parse import parse_qs

_MAX_FIELDS = 10
_RUN = "run"


class BadRequest(Exception):
    """The query string of a request is invalid."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


def fields_of(query: str) -> dict[str, str]:
    """Return the fields of a query string; raises BadRequest, also for repeated fields."""
    try:
        found = parse_qs(query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise BadRequest(f"the query string cannot be read: {error}") from None
    for name, values in found.items():
        if len(values) > 1:
            raise BadRequest(f"{name!r:.100} is given twice")
    return {name: values[0] for name, values in found.items()}


def check_run(fields: dict[str, str], run_id: str) -> None:
    """Remove the field ``run``; raise if it is the run id of another server, or an earlier run."""
    if fields.pop(_RUN, run_id) != run_id:
        raise BadRequest(
            "another server is meant: this one has started since, or is not it", status=421
        )
