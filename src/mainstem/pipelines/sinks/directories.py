"""Replaces tables that are directories by their copies."""

from pathlib import Path


def is_local(path: str) -> bool:
    """Tell whether a path is in this machine's file systems, and not the address of a store."""
    return "://" not in path or path.startswith("file://")


def adopt(path: Path, name: str) -> None:
    """Replace the directory by the copy of that name; the old directory is kept beside it.

    A crash between the two renames leaves the copy under its own name, and repeating the call
    completes the swap; if the copy does not exist, the swap is complete.
    """
    copy = path.with_name(f"{path.name}.{name}")
    if not copy.exists():
        return
    if path.exists():
        path.rename(path.with_name(f"{path.name}.before-{name}"))
    copy.rename(path)
