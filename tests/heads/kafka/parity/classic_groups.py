"""Scenarios of classic groups: members that join, sync, stay and leave."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.heads.kafka.parity.classic_member import Member, let_go, only_member
from tests.heads.kafka.parity.classic_requests_to_new_groups import shown
from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike
from tests.heads.kafka.parity.group_admin import commit, cursor, cursors_deleted
from tests.heads.kafka.parity.members import ANN, listed
from tests.heads.kafka.parity.share_members import deleted

SHORTEST_MS, LONGEST_MS = 6_000, 1_800_000
"""Sessions, if nothing else is set."""


@alike
def joining_a_classic_group_with_too_little(side: Side) -> Iterator[Said]:
    group = side.group()
    yield "no group", Member(side, "").join()
    yield "unknown", Member(side, group, member=ANN).join()
    yield "an unknown instance", Member(side, group, "i", member=ANN).join()
    for version in (0, 4, 5, 9):
        ann = Member(side, group)
        yield version, "no protocols", ann.join((), version=version)
        yield version, "no type", ann.join(kind="", version=version)
        yield version, "short", ann.join(session_ms=SHORTEST_MS - 1, version=version)
        yield version, "long", ann.join(session_ms=LONGEST_MS + 1, version=version)


@unlike("who was refused, or never used its id, leaves no group behind")
def a_group_of_nobody(side: Side) -> Iterator[Said]:
    group = side.group()
    ann = Member(side, group)
    ann.join(())
    ann.join()
    ann.leave()
    # Not described: that Apache Kafka does only when the next thing is written beside it.
    yield deleted(side, group)


@alike
def joining_an_empty_classic_group(side: Side) -> Iterator[Said]:
    for version in (0, 3, 4, 5, 6, 7, 8, 9):
        group = side.group()
        ann = Member(side, group)
        yield version, "joins", ann.join(version=version)
        yield version, "again", ann.join(version=version)
        yield version, "shown", shown(side, group)
        yield version, "again", ann.join(version=version)
        yield version, "otherwise", ann.join(("mine", "yours"), version=version)
        yield version, "leaves", ann.leave(0), shown(side, group), listed(side, group)
        yield version, "again", ann.join(version=version)


@alike
def an_id_that_is_not_used(side: Side) -> Iterator[Said]:
    group = side.group()
    ann = Member(side, group)
    ann.join()
    ann.generation = 0
    yield "beats", ann.beat(), ann.beat(-1), ann.beat(1)
    yield "syncs", ann.sync()
    yield "commits", commit(side, group, 1, ann.id, 0)
    yield "leaves", ann.leave(), ann.leave()
    yield "joins", ann.join()


@alike
def the_only_member(side: Side) -> Iterator[Said]:
    group = side.group()
    ann = Member(side, group)
    ann.enter()
    yield "before it syncs", ann.beat(), shown(side, group), listed(side, group)
    yield "commits", commit(side, group, 1, ann.id, 1)
    yield "another generation", ann.sync(generation=2), ann.sync(generation=0)
    yield "none", ann.sync(generation=-1)
    yield "another type", ann.sync(kind="consumer")
    yield "another protocol", ann.sync(protocol="yours")
    yield "nobody", Member(side, group, member=ANN).sync(generation=1)
    yield "syncs", ann.sync({ann.id: b"all", ANN: b"nothing"})
    yield "again", ann.sync({ann.id: b"else"})
    yield "says little", ann.sync(kind=None), ann.sync(protocol=None)
    yield "said little", ann.sync(kind=None, protocol=None, version=4)
    yield "shown", shown(side, group), listed(side, group)
    yield "beats", ann.beat(), ann.beat(0), ann.beat(2), ann.beat(-1)
    yield "nobody beats", Member(side, group, member=ANN).beat(1), Member(side, group).beat(1)
    yield "nowhere", Member(side, side.group(), member=ANN).beat(1)
    nameless = Member(side, "", member=ANN)
    yield "no name", nameless.beat(1), nameless.sync(generation=1), nameless.leave()
    yield "an instance", Member(side, group, "i", member=ann.id).beat(1)
    yield "assigns anew", ann.join(), ann.beat(), ann.sync()
    yield "deleted", deleted(side, group)
    yield "cursors deleted", cursors_deleted(side, group)
    yield "leaves", ann.leave(), ann.beat(), shown(side, group), listed(side, group)
    yield "commits", commit(side, group, 1, ann.id, 2), commit(side, group, 2)
    yield "cursor", cursor(side, group)
    yield "deleted", deleted(side, group), deleted(side, group), shown(side, group)
    yield "no name", deleted(side, ""), shown(side, "")


@contextmanager
def _newcomer(side: Side) -> Iterator[tuple[Member, Member]]:
    """Give the only member of a group, and one with another connection that has not joined."""
    ann = only_member(side)
    with side.another() as peer:
        yield ann, Member(side, ann.group, peer=peer)


@alike
def a_second_member(side: Side) -> Iterator[Said]:
    with _newcomer(side) as (ann, bob):
        group = ann.group
        yield "of another type", bob.join(kind="consumer")
        yield "of another protocol", bob.join(("yours",))
        yield "comes", bob.join(("yours", "mine"))
        yield "not yet", ann.beat(), shown(side, group)
        bob.send_join(("yours", "mine"))
        # Requests of two connections are answered in no order: it is there once ann is told.
        while ann.beat() == "NONE":
            pass
        yield "gathering", shown(side, group), listed(side, group)
        yield "ann syncs", ann.sync()
        yield "ann commits", commit(side, group, 1, ann.id, 1)
        yield "another generation", ann.beat(2)
        yield "ann", ann.join(("mine", "yours"))
        yield "bob", bob.joined()
        yield "shown", shown(side, group)
        chosen = "mine"
        yield "bob beats", bob.beat()
        bob.send_sync(protocol=chosen)
        yield "ann's other protocol", ann.sync(protocol="yours")
        yield "ann assigns", ann.sync({ann.id: b"1", bob.id: b"2"}, protocol=chosen)
        yield "bob has", bob.synced()
        yield "bob again", bob.join(("yours", "mine"))
        yield "stable", ann.beat(), shown(side, group)
        yield "bob leaves", bob.leave(), ann.beat(), bob.beat()
        yield "ann alone", ann.join(("mine", "yours")), ann.sync()


@alike
def followers_that_wait(side: Side) -> Iterator[Said]:
    with _newcomer(side) as (ann, bob):
        group = ann.group
        bob.join()
        bob.send_join()
        while ann.beat() == "NONE":
            pass
        ann.join()
        bob.joined()
        bob.send_sync()
        yield "the leader leaves", ann.leave()
        yield "bob is told", bob.synced()
        yield "bob", bob.beat(), bob.join(), bob.sync()
        yield "bob beats", bob.beat(), shown(side, group)


@alike
def static_members_of_a_classic_group(side: Side) -> Iterator[Said]:
    for version in (5, 9):
        group = side.group()
        ann = Member(side, group, "i")
        yield "ann", ann.join(version=version)
        yield "before it syncs", Member(side, group, "i", member=ANN).sync(generation=1)
        yield "ann syncs", ann.sync({ann.id: b"all"})
        bob = Member(side, group, "i")
        yield "bob", bob.join(version=version), bob.sync()
        yield "ann is fenced", ann.beat(), ann.sync(), ann.join(version=version)
        yield "ann leaves", ann.leave()
        yield "ann commits", commit(side, group, 1, ann.id, 1, instance="i")
        yield "without its instance", commit(side, group, 1, ann.id, 1)
        yield "another instance", commit(side, group, 1, bob.id, 1, instance="j")
        yield "bob commits", commit(side, group, 1, bob.id, 1, instance="i")
        yield "shown", shown(side, group), bob.beat()
        eve = Member(side, group, "i")
        yield "otherwise", eve.join(metadata=b"more", version=version)
        yield "shown", shown(side, group)
        yield "eve", eve.sync(), eve.beat()
        zoe = Member(side, group, "i")
        yield "another protocol", zoe.join(("yours",), version=version)
        yield "shown", shown(side, group)


def _instance(side: Side) -> Member:
    """Return a static member that is alone in a group, and has synced."""
    found = Member(side, side.group(), "i")
    found.join()
    found.sync()
    return found


@alike
def members_that_are_let_go(side: Side) -> Iterator[Said]:
    ann = _instance(side)
    group = ann.group
    yield "nobody", let_go(side, group)
    yield "no such member", let_go(side, group, (ANN, None), ("", None))
    yield "no such instance", let_go(side, group, ("", "j"), (ANN, "j"), (ann.id, "j"))
    yield "not its instance", let_go(side, group, (ANN, "i"))
    yield "no group", let_go(side, "", (ANN, None)), let_go(side, "")
    yield "unknown group", let_go(side, side.group(), (ANN, None), ("", "i"))
    yield "unknown group, nobody", let_go(side, side.group())
    yield "twice", let_go(side, group, ("", "i"), ("", "i"), (ann.id, None))
    yield "shown", shown(side, group)
    ann.id = ""
    ann.join()
    ann.sync()
    yield "by its id", let_go(side, group, (ann.id, None)), shown(side, group)
    for version in (0, 1, 2):
        bob = Member(side, group)
        bob.enter()
        yield version, Member(side, group, member=ANN).leave(version), bob.leave(version)
        yield version, bob.leave(version)


@alike
def static_members_in_other_words(side: Side) -> Iterator[Said]:
    group = side.group()
    ann = Member(side, group, "i")
    ann.join()
    ann.sync({ann.id: b"all"})
    plain = Member(side, group, member=ann.id)
    plain.generation = ann.generation
    yield "without its instance", plain.beat(), plain.sync()
    other = Member(side, group, "j", member=ann.id)
    yield "with another", other.beat(1), other.sync(generation=1), other.join()
    yield "again", ann.join(), ann.sync()
    yield "no version of instances", commit(side, group, 1, ann.id, ann.generation, version=6)
    for name in ("", " ", "i" * 249, "i" * 250, "..", "\n"):
        yield name, Member(side, side.group(), name).join()[0]


@alike
def a_static_member_that_joins_while_others_gather(side: Side) -> Iterator[Said]:
    ann = _instance(side)
    group = ann.group
    with side.another() as peer, side.another() as third:
        bob = Member(side, group, "j", peer=peer)
        bob.send_join()
        while ann.beat() == "NONE":
            pass
        eve = Member(side, group, "i", peer=third)
        yield "eve", eve.join()
        yield "bob", bob.joined()
        yield "ann", ann.beat(), ann.join()
        yield "shown", shown(side, group)
        yield "eve assigns", eve.sync({eve.id: b"1", bob.id: b"2"}), bob.sync()
        yield "let go", let_go(side, group, ("", "i"), ("", "j")), shown(side, group)
