"""Authentication and authorization while there are no users."""

import pytest

from mainstem.auth import ANONYMOUS, CLUSTER, Action, Auth, Credentials, Peer, Principal, deny_all
from mainstem.core.errors import Denied, Failure, Unauthenticated


def test_who_connects_is_nobody_in_particular() -> None:
    peer = Auth().peer("127.0.0.1:5")

    assert peer == Peer("127.0.0.1:5", ANONYMOUS, tls=False)


@pytest.mark.parametrize("address", ["127.0.0.1:5", "127.3.2.1:5", "[::1]:5", "::1:5"])
def test_who_logs_in_on_this_machine_is_believed(address: str) -> None:
    peer = Auth().authenticate("PLAIN", Credentials("ann", b"secret"), Peer(address))

    assert peer == Peer(address, Principal("ann"))


def test_who_logs_in_without_a_name_is_nobody_in_particular() -> None:
    assert Auth().authenticate("ANONYMOUS", Credentials(), Peer("[::1]:5")).principal is ANONYMOUS


@pytest.mark.parametrize("address", ["10.0.0.1:5", "1270.0.0.1:5", "?:0", ""])
def test_nobody_else_can_log_in(address: str) -> None:
    with pytest.raises(Unauthenticated, match="no users yet") as refused:
        Auth().authenticate("PLAIN", Credentials("ann", b"secret"), Peer(address))

    assert refused.value.failure is Failure.UNAUTHENTICATED


def test_everything_is_allowed() -> None:
    assert Auth().allows_all
    Auth().authorize(ANONYMOUS, Action.ALTER, CLUSTER)


def test_other_rules_are_kept_to() -> None:
    auth = Auth(authorize=deny_all)

    assert not auth.allows_all
    with pytest.raises(Denied, match=r"'ANONYMOUS' may not alter cluster 'mainstem'.*ask") as told:
        auth.authorize(ANONYMOUS, Action.ALTER, CLUSTER)
    assert told.value.failure is Failure.DENIED


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(Credentials("ann", b"secret"))
