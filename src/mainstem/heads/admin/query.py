"""The parameters of a request's query."""

from collections.abc import Iterable

from mainstem.heads.web.problem import Refused

_MAX_FIELDS = 10
_RUN = "run"


def fields_of(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a query's parameters; raises Refused for repeated ones and bytes that are not UTF-8.

    ``query``: Starlette's ``QueryParams.multi_items``.
    """
    found: dict[str, str] = {}
    for name, value in query:
        if name in found:
            raise Refused(400, f"{name!r:.100} is given twice")
        if "\N{REPLACEMENT CHARACTER}" in value:
            raise Refused(400, f"{name!r:.100} is not valid UTF-8")
        found[name] = value
        if len(found) > _MAX_FIELDS:
            raise Refused(400, f"the query has more than {_MAX_FIELDS} fields")
    return found


def check_run(fields: dict[str, str], run_id: str) -> None:
    """Remove the parameter ``run``; raise Refused unless it is absent or this server's run id.

    The run id changes with every start, so a request for an earlier run or another server is
    refused.
    """
    if fields.pop(_RUN, run_id) != run_id:
        raise Refused(421, "another server is meant: this one has started since, or is not it")
