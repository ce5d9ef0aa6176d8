"""Sockets that lose what comes to them: the kernel drops packets before TCP sees them.

A filter on a socket drops packets like a network that loses them. Whoever sends to it gets no
acknowledgement and sends again, as to a machine that is far away or gone; nothing of this needs
rights or a network of its own. Sockets accepted by a listener have its filter.
"""

import ctypes
import socket
import struct

_ATTACH_FILTER = 26
_LOAD_HALF, _MODULO, _IF_EQUAL, _RETURN = 0x28, 0x94, 0x15, 0x06
_IP_ID = 2**32 - 0x100000 + 4
"""Where a filter finds the number that IP gives to a packet: one more than to the one before.

It is 0 in the answer to a first packet, which has no socket yet.
"""
_DROP, _KEEP = (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFFFFFF)

Step = tuple[int, int, int, int]


def _filter(*steps: Step) -> tuple[bytes, ctypes.Array[ctypes.c_char]]:
    """Return the value of the socket option, and what it points to, which must outlive its use."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    return struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)), code


_EVERYTHING = _filter(_DROP)
_FIFTH = _filter((_LOAD_HALF, 0, 0, _IP_ID), (_MODULO, 0, 0, 5), (_IF_EQUAL, 0, 1, 3), _DROP, _KEEP)

LOSE_A_FIFTH = (socket.SOL_SOCKET, _ATTACH_FILTER, _FIFTH[0])
"""A socket option: every fifth packet is lost, so one that is sent again gets through."""


def vanish(peer: socket.socket) -> None:
    """Let nothing reach a socket any more: for the other side, its machine has gone."""
    peer.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, _EVERYTHING[0])


def lose_a_fifth(peer: socket.socket) -> None:
    """Let every fifth packet to a socket, or to those that it accepts, be lost."""
    peer.setsockopt(*LOSE_A_FIFTH)
