"""The limit of open files of this process (RLIMIT_NOFILE)."""

import resource

_MOST = 65_536
_SHARE = 0.6
"""Share of the limit for segment files; the rest is for sockets and everything else."""


def raise_open_files() -> int:
    """Raise the soft limit to the hard limit; return how many segments may stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = _MOST if soft == resource.RLIM_INFINITY else min(soft, _MOST)
    return int(most * _SHARE)
