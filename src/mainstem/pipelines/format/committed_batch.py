"""The mark that a writer stores with each batch, so that a repeated batch is not written twice."""

import msgspec

from mainstem.core.errors import InvalidSetting, MainstemError


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The number of the last batch that a writer committed, and the Spark run that it was part of.

    Batch numbers begin again with 0 in a new checkpoint, which is a new run.
    """

    batch: int
    run: str = ""
    """The run id that Spark stores in the checkpoint; empty if it is not known."""
    rows: int = -1
    digest: int = 0
    """In parallel mode, the digest of the rows that one task wrote."""

    def text(self) -> str:
        """Return the mark as JSON text; it is committed in the same transaction as the batch."""
        return msgspec.json.encode(self).decode()


class OtherRows(MainstemError):
    """Raised if a task that Spark repeats after a crash has other rows than it committed before."""


def mark_of(text: str) -> Mark | None:
    """Parse a committed mark; None if ``text`` is empty, as before the first batch."""
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
    """Return whether the batch was committed before, according to the last mark.

    Raises InvalidSetting if that cannot be known: the batch number is smaller, and no run id tells
    whether a new checkpoint counts from 0 again.
    """
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
