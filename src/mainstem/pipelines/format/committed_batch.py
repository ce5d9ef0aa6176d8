"""Marks: a mark identifies the last batch that a writer committed, so that none comes twice."""

import msgspec

from mainstem.core.errors import InvalidSetting, MainstemError


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Identifies the last batch that a writer committed.

    A new checkpoint is a new run and counts batches from 0.
    """

    batch: int
    run: str = ""
    """The run id that Spark stores in the checkpoint; empty if it is not known."""
    rows: int = -1
    digest: int = 0
    """In parallel mode, the digest of the rows that one task wrote."""

    def text(self) -> str:
        """Return the mark as the text that is committed with the batch."""
        return msgspec.json.encode(self).decode()


class OtherRows(MainstemError):
    """Raised if a task that Spark repeats has other rows than those it committed before."""


def mark_of(text: str) -> Mark | None:
    """Parse the text of a committed mark; None if there is none."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Mark)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise InvalidSetting(
            f"the group that keeps the mark of this pipeline holds {text!r:.200}, which is none: "
            "somebody else uses that group; give the pipeline another name"
        ) from None


def is_written(last: Mark | None, batch: int, run: str) -> bool:
    """Tell whether a batch was written; raises InvalidSetting if the mark does not show it."""
    if last is None:
        return False
    if run and last.run and run != last.run:
        # A new checkpoint counts its batches from 0 again.
        return False
    if batch < last.batch and not (run and last.run):
        raise InvalidSetting(
            f"batch {batch} is to be written, and batch {last.batch} of this pipeline has been: "
            "if the checkpoint is a new one, give the pipeline a new name; otherwise name the "
            "checkpoint's life with the option run"
        )
    return batch <= last.batch
