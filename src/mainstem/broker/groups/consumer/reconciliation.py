"""One member's way from what it owns to what it should own: it gives up first, then it is given.

How this works: a member keeps what it owns and should own. What it owns and should not, it is told
to give up; it stays in its epoch until it says that it has. Then it comes into the epoch of the
assignment, with all it should own that is free. What others have not given up yet it gets later,
in the same epoch. So a partition is never owned by two members.

    stable ── another epoch ──▶ revoking ── has given up ──▶ waiting ── others have ──▶ stable
                     └──────── nothing to give up ──────────────┘
"""

from collections.abc import Mapping

from mainstem.broker.groups.consumer.records import NOTHING, Current, Partitions, Stage
from mainstem.log.port import PartitionId


def reconcile(
    member_id: str,
    current: Current,
    target: Partitions,
    epoch: int,
    owners: Mapping[PartitionId, str],
    owned: Partitions | None,
) -> Current:
    """Return the next step of a member; ``owned`` is what it says it owns, None if it does not."""
    if current.stage is Stage.STABLE:
        if current.epoch == epoch:
            return current
        return _step(member_id, current, current.epoch, target, epoch, owners, owned)
    if current.stage is Stage.REVOKING:
        if _still_has(owned, current.revoked):
            return current
        # It has come as far as its next epoch at least, whatever the group's is by now.
        return _step(member_id, current, current.epoch + 1, target, epoch, owners, owned)
    return _step(member_id, current, current.epoch, target, epoch, owners, owned)


def _step(
    member_id: str,
    current: Current,
    reached: int,
    target: Partitions,
    epoch: int,
    owners: Mapping[PartitionId, str],
    owned: Partitions | None,
) -> Current:
    kept = current.owned & target
    revoked = current.owned - target
    if revoked and _still_has(owned, revoked):
        return Current(reached, _before(current, reached), Stage.REVOKING, kept, revoked)
    free = {at for at in target - kept if owners.get(at, member_id) == member_id}
    given = kept | free
    stage = Stage.STABLE if given == target else Stage.WAITING
    return Current(epoch, _before(current, epoch), stage, frozenset(given), NOTHING)


def _before(current: Current, epoch: int) -> int:
    """Return the epoch before, in which a member may still be whose last answer was lost."""
    return current.previous_epoch if epoch == current.epoch else current.epoch


def _still_has(owned: Partitions | None, revoked: Partitions) -> bool:
    """Tell whether a member has yet to give something up; as long as it says nothing, it has."""
    return owned is None or not owned.isdisjoint(revoked)
