"""How many files this process may hold open."""

import resource

_MOST = 65_536
_SHARE = 0.6
"""The rest is for sockets, and for whatever else the program around us opens."""


def raise_open_files() -> int:
    """Raise the soft limit as far as the hard one allows; return how many segments may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = _MOST if soft == resource.RLIM_INFINITY else min(soft, _MOST)
    return int(most * _SHARE)
