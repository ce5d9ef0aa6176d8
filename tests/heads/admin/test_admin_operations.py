"""Operations by the admin port: called with JSON, answered with JSON, and not by foreign pages."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.heads.admin.web import Page, get, pages_served

from mainstem.auth import Action, Auth, Peer, Principal, Resource, deny_all
from mainstem.core.errors import Failure
from mainstem.heads.admin.settings import MAX_BODY_BYTES
from mainstem.heads.admin_operations import Administration, OperationFailed
from mainstem.heads.web.problem import PROBLEM_TYPE, STATUSES

JSON = {"Content-Type": "application/json"}
OURS = JSON | {"X-Requested-By": "a test"}


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the test's operation is given."""

    name: str
    count: int = 1


def offered() -> Administration:
    """Return operations of the test's own."""
    administration = Administration()

    def fail(peer: Peer, given: Count) -> None:
        raise OperationFailed(Failure(given.name), "made by a test")

    def break_down(peer: Peer, given: Count) -> None:
        raise ZeroDivisionError

    administration.offer("things/add", Count, lambda peer, given: given, changes=True)
    administration.offer("things/fail", Count, fail, changes=True)
    administration.offer("things/break", Count, break_down, changes=True)
    administration.offer("things", Count, lambda peer, given: [given], changes=False)
    return administration


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with pages_served(administration=offered()) as found:
        yield found


def post(
    address: str,
    path: str = "/things/add",
    headers: dict[str, str] = OURS,
    body: bytes = b'{"name": "a"}',
) -> Page:
    return get(address, path, "POST", headers, body)


def refusal(page: Page) -> tuple[int, str]:
    """Return the status and the class of failure of a problem."""
    problem = json.loads(page.text)
    assert page.headers["content-type"] == PROBLEM_TYPE
    assert problem["status"] == page.status
    assert problem["title"]
    assert problem["detail"]
    return page.status, problem["failure"]


def test_an_operation_is_called_with_json_and_answers_with_json(address: str) -> None:
    page = post(address, body='{"name": "é", "count": 3}'.encode())

    assert (page.status, page.headers["content-type"]) == (200, "application/json")
    assert json.loads(page.text) == {"name": "é", "count": 3}


def test_an_operation_that_only_reads_is_asked_by_get(address: str) -> None:
    page = get(address, "/things?name=a%20b&count=7")

    assert (page.status, json.loads(page.text)) == (200, [{"name": "a b", "count": 7}])
    assert get(address, "/things?name=a", "HEAD").text == ""


foreign = {
    "a form": (OURS | {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "text": (OURS | {"Content-Type": "text/plain"}, 415),
    "no header that forms cannot have": (JSON, 403),
    "another origin": (OURS | {"Origin": "https://evil.example"}, 403),
    "another port of this machine": (OURS | {"Origin": "http://127.0.0.1:1"}, 403),
    "a sandbox": (OURS | {"Origin": "null"}, 403),
    "a rebound name": (OURS | {"Host": "evil.example", "Origin": "http://evil.example"}, 421),
}


@pytest.mark.parametrize(("headers", "status"), foreign.values(), ids=foreign.keys())
def test_pages_of_other_origins_cannot_change_anything(
    address: str, headers: dict[str, str], status: int
) -> None:
    page = post(address, "/things/break", headers, b"{}")

    assert refusal(page)[0] == status
    assert "access-control-allow-origin" not in page.headers


def test_no_page_of_another_origin_is_let_in_when_it_asks_before(address: str) -> None:
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}

    page = get(address, "/things/add", "OPTIONS", asks)

    assert page.status == 405
    assert not [name for name in page.headers if name.startswith("access-control")]


def test_a_page_of_the_server_itself_may(address: str) -> None:
    assert post(address, headers=OURS | {"Origin": f"http://{address}"}).status == 200


wrong = {
    "no JSON": ("/things/add", b"{", 400, ""),
    "no object": ("/things/add", b"[1]", 400, ""),
    "a deep one": ("/things/add", b"[" * 60_000, 400, ""),
    "an argument too few": ("/things/add", b"{}", 400, "invalid"),
    "an argument too many": ("/things/add", b'{"name": "a", "x": 1}', 400, "invalid"),
    "a wrong type": ("/things/add", b'{"name": "a", "count": "1"}', 400, "invalid"),
    "no such operation": ("/things/rename", b"{}", 404, "unsupported"),
    "one that only reads": ("/things", b"{}", 405, ""),
    "a page": ("/livez", b"{}", 405, ""),
    "a page with a permission": ("/queues", b"{}", 405, ""),
    "another run of the server": ("/things/add?run=another", b"{}", 421, ""),
    "too much": ("/things/add", b" " * (MAX_BODY_BYTES + 1), 413, ""),
    "a bug": ("/things/break", b'{"name": "a"}', 500, ""),
}


@pytest.mark.parametrize(("path", "body", "status", "failure"), wrong.values(), ids=wrong.keys())
def test_what_cannot_be_called_is_a_problem_in_json(
    address: str, path: str, body: bytes, status: int, failure: str
) -> None:
    assert refusal(post(address, path, body=body)) == (status, failure)
    assert get(address).status == 200


def test_an_operation_that_changes_something_is_not_called_by_get(address: str) -> None:
    page = get(address, "/things/add?name=a")

    assert refusal(page) == (405, "")
    assert page.headers["allow"] == "POST"


@pytest.mark.parametrize("failure", Failure)
def test_each_class_of_failure_has_a_status_and_is_named(address: str, failure: Failure) -> None:
    page = post(address, "/things/fail", body=b'{"name": "%s"}' % failure.encode())

    assert refusal(page) == (STATUSES[failure], failure)


def test_an_operation_knows_who_asks() -> None:
    administration, asked = Administration(), list[Principal]()

    def ask(peer: Peer, given: Count) -> None:
        asked.append(peer.principal)
        auth.authorize(peer.principal, Action.ALTER, Resource("topic", "a"))  # type: ignore[arg-type]

    auth = Auth(authorize=deny_all)
    administration.offer("things/add", Count, ask, changes=True)
    with pages_served(administration=administration, auth=auth) as address:
        login = OURS | {"Authorization": "Basic YW5uOng="}
        denied = post(address, headers=login)
        unknown = post(address, headers=OURS | {"Authorization": "Bearer x"})

    assert (refusal(denied), asked) == ((403, "denied"), [Principal("ann")])
    assert refusal(unknown) == (401, "unauthenticated")
    assert "www-authenticate" in unknown.headers
