"""The pages of the admin port as a client of HTTP sees them."""

import http.client
import threading

from tests.heads.admin.web import answer_to, connect, get, pages_served


def test_a_server_that_turns_is_alive() -> None:
    with pages_served() as address:
        page = get(address, "/livez")

    assert (page.status, page.text) == (200, "ok\n")
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"


def test_a_server_that_can_be_used_is_ready() -> None:
    with pages_served(not_ready=lambda: None) as address:
        assert get(address, "/readyz").status == 200


def test_one_that_cannot_says_why_and_is_alive_all_the_same() -> None:
    with pages_served(not_ready=lambda: "recovering: it takes a while") as address:
        page = get(address, "/readyz")

        assert (page.status, page.text) == (503, "recovering: it takes a while\n")
        assert get(address, "/livez").status == 200


def test_head_has_the_length_and_no_body() -> None:
    with pages_served(metrics=lambda: "a 1\n") as address:
        page = get(address, "/metrics", "HEAD")

    assert (page.status, page.text, page.headers["content-length"]) == (200, "", "4")


def test_the_status_is_said_in_words_too() -> None:
    with pages_served(not_ready=lambda: "why") as address, connect(address) as peer:
        answer = answer_to(
            peer, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )

    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")


def test_a_query_is_passed_over() -> None:
    with pages_served() as address:
        assert get(address, "/livez?verbose").status == 200


def test_a_page_that_is_not_there_names_those_that_are() -> None:
    with pages_served() as address:
        page = get(address, "/healthz")

    assert page.status == 404
    assert "/readyz" in page.text


def test_other_methods_are_not_answered() -> None:
    with pages_served() as address:
        page = get(address, "/livez", "DELETE")

    assert page.status == 405
    assert sorted(page.headers["allow"].split(", ")) == ["GET", "HEAD", "POST"]


def test_a_connection_carries_many_requests() -> None:
    with pages_served() as address:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.connect()
        kept = connection.sock
        for path in ("/livez", "/healthz", "/metrics", "/livez"):
            connection.request("GET", path)
            connection.getresponse().read()
            assert connection.sock is kept
        connection.close()


def test_nothing_is_shared_with_pages_of_other_origins() -> None:
    with pages_served() as address:
        page = get(address)

    assert not any(name.startswith("access-control") for name in page.headers)


def test_what_is_made_slowly_keeps_nobody_waiting_and_is_made_once_for_all_who_ask() -> None:
    made = 0
    asked, go_on = threading.Event(), threading.Event()

    def metrics() -> str:
        nonlocal made
        made += 1
        asked.set()
        assert go_on.wait(20)
        return f"made {made}\n"

    with pages_served(metrics) as address:
        peers = [connect(address) for _ in range(5)]
        for peer in peers:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert asked.wait(20)
        # Answered in between, so that the five have been heard by now.
        assert get(address).status == 200
        go_on.set()
        answers = {answer_to(peer, b"") for peer in peers}
        for peer in peers:
            peer.close()

    assert len(answers) == 1
    assert answers.pop().endswith(b"made 1\n")


def test_a_page_that_cannot_be_made_is_an_error_of_the_server() -> None:
    def metrics() -> str:
        raise ValueError("a bug")

    with pages_served(metrics) as address:
        page = get(address, "/metrics")

        assert page.status == 500
        assert "a bug" not in page.text
        assert get(address).status == 200
