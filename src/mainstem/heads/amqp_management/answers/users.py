"""Users and permissions: only the user of the request is shown, and changes are refused.

There is no list of users: the server's identity rules decide who may log in.
"""

from mainstem.auth import CLUSTER, Action
from mainstem.core.errors import Denied, Failure, Unauthenticated
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.answers.vhosts import names
from mainstem.heads.amqp_management.call import Answer, Call, Item, refuse
from mainstem.heads.amqp_management.listing import listed

USERS = "users cannot be managed here: the server has no list of users"
PERMISSIONS = "permissions cannot be managed here: they are part of the server's configuration"
POLICIES = "policies are not supported: give arguments when a queue or an exchange is declared"
PARAMETERS = "parameters are not supported: there is no federation and no shovel"
LIMITS = "limits of virtual hosts and users are not supported; see the server's settings"


def _whoami(call: Call) -> object:
    return {"name": call.peer.principal.name, "tags": _tags(call)}


def _user(call: Call) -> object:
    if call.path["user"] != call.peer.principal.name:
        raise OperationFailed(Failure.NOT_FOUND, "only the user who asks is known")
    return _item(call)


def _users(call: Call) -> object:
    call.check()
    return listed([_item(call)], call.query)


def _permissions(call: Call) -> object:
    call.check()
    if not call.context.auth.allows_all:
        why = "permissions are rules of this server that this API has no form for"
        raise OperationFailed(Failure.UNSUPPORTED, why)
    user, vhosts = call.peer.principal.name, names(call)
    if "vhost" in call.path:
        vhosts = [call.vhost]
    found: list[Item] = [
        {"user": user, "vhost": each, "configure": ".*", "write": ".*", "read": ".*"}
        for each in vhosts
    ]
    return listed(found, call.query)


def _none(call: Call) -> object:
    call.check()
    return listed([], call.query)


def _item(call: Call) -> Item:
    return {"name": call.peer.principal.name, "tags": _tags(call), "limits": {}}


def _tags(call: Call) -> list[str]:
    try:
        call.context.auth.authorize(call.peer.principal, Action.ALTER, CLUSTER)
    except (Denied, Unauthenticated):
        return ["management"]
    return ["administrator"]


def _lists(kind: str, *paths: str) -> dict[str, Answer]:
    return {f"GET {kind}{path}": _none for path in paths}


def _refused(why: str, *paths: str) -> dict[str, Answer]:
    return {f"{method} {path}": refuse(why) for path in paths for method in ("PUT", "DELETE")}


ROUTES: dict[str, Answer] = {
    "GET whoami": _whoami,
    "GET users": _users,
    "GET users/{user}": _user,
    "GET users/{user}/permissions": _permissions,
    "GET permissions": _permissions,
    "GET permissions/{vhost}/{user}": _permissions,
    "GET vhosts/{vhost}/permissions": _permissions,
    **_lists("topic-permissions", ""),
    **_lists("policies", "", "/{vhost}"),
    **_lists("operator-policies", "", "/{vhost}"),
    **_lists("parameters", "", "/{component}", "/{component}/{vhost}"),
    **_lists("global-parameters", ""),
    **_lists("vhost-limits", "", "/{vhost}"),
    **_lists("user-limits", "", "/{user}"),
    "POST users/bulk-delete": refuse(USERS),
    **_refused(USERS, "users/{user}"),
    **_refused(PERMISSIONS, "permissions/{vhost}/{user}", "topic-permissions/{vhost}/{user}"),
    **_refused(POLICIES, "policies/{vhost}/{name}", "operator-policies/{vhost}/{name}"),
    **_refused(PARAMETERS, "parameters/{component}/{vhost}/{name}", "global-parameters/{name}"),
    **_refused(LIMITS, "vhost-limits/{vhost}/{name}", "user-limits/{user}/{name}"),
}
