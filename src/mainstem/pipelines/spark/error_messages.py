"""Readable error messages: the cause in one line, the whole stack trace in a file."""

import re
import traceback
from pathlib import Path

from pyspark.errors import PySparkException

from mainstem.core.errors import MainstemError
from mainstem.pipelines.format.data_loss import ADVICE
from mainstem.pipelines.state.table_state import StateDirectory

_MOST_CHARACTERS = 1000
CRASHED = "Python worker exited unexpectedly"
_PYTHONS = re.compile(
    r"^\s*(?P<kind>[\w.]*(?:Error|Exception|Exit|Interrupt)|mainstem\.[\w.]+)(?:: (?P<said>.+))?$",
    re.MULTILINE,
)
"""Matches the last line of a Python stack trace: error class and message."""
_WRAPPERS = ("mainstem.", "pyspark.", "py4j.")
"""Packages of errors whose class names are left out."""


def cause_of(error: BaseException, file: Path) -> str:
    """Return the cause of an error as one line, without Spark's plans and stack traces.

    ``file`` is the pipeline file, for advice on what to run.
    """
    # PySpark passes some errors of py4j on as they are.
    if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j."):
        text = _spark_cause(str(error))
    elif isinstance(error, MainstemError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    text = " ".join(text.split()).replace(ADVICE, _advice(file))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def save_traceback(error: BaseException, cause: str, state_dir: StateDirectory) -> str:
    """Write the stack trace to the table's error file; return a sentence that names the file."""
    whole = "".join(traceback.format_exception(error))
    state_dir.directory.mkdir(parents=True, exist_ok=True)
    state_dir.error.write_text(f"{cause}\n\n{whole}", errors="backslashreplace")
    return f"the whole error is in {state_dir.error}"


def _spark_cause(text: str) -> str:
    if CRASHED in text:
        return (
            "a Python function of the query ended its process: by os._exit, by a crash of a "
            "library, or killed by the system because memory ran out"
        )
    text = text.split("\nJVM stacktrace", maxsplit=1)[0].split("=== Streaming Query", maxsplit=1)[0]
    found = list(_PYTHONS.finditer(text)) if "Traceback (most recent call last)" in text else []
    if not found:
        return text.split(";\n")[0]
    kind, said = found[-1]["kind"], found[-1]["said"]
    if not said:
        return kind
    return said if kind.startswith(_WRAPPERS) else f"{kind}: {said}"


def _advice(file: Path) -> str:
    return (
        "rebuild the tables from the events that are left: mainstem pipeline run "
        f"{file.name} --replay --into NAME, then mainstem pipeline swap {file.name} NAME"
    )
