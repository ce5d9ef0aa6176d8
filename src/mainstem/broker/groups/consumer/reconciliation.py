"""Reconciliation: how one member moves from the partitions it owns to its target (KIP-848).

How this works: a member keeps the partitions that it owns and that are in its target. It is told to
give up the others, and stays in its epoch until it confirms that. Then it enters the epoch of the
assignment with all partitions of its target that are free. Partitions that other members have not
given up yet follow later, in the same epoch. So no two members ever own the same partition.

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
    """Return a member's next state.

    ``owned``: the partitions that it reports as owned; None if it reports none.
    """
    if current.stage is Stage.STABLE:
        if current.epoch == epoch:
            return current
        return _step(member_id, current, current.epoch, target, epoch, owners, owned)
    if current.stage is Stage.REVOKING:
        if _still_has(owned, current.revoked):
            return current
        # It has completed its own revocation, so it is at least one epoch ahead.
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
    """Return the previous epoch, which a member still sends if the last answer was lost."""
    return current.previous_epoch if epoch == current.epoch else current.epoch


def _still_has(owned: Partitions | None, revoked: Partitions) -> bool:
    """Tell whether a member still owns revoked partitions, or has not reported any yet."""
    return owned is None or not owned.isdisjoint(revoked)
