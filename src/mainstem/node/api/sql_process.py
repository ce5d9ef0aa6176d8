"""The process that answers one SQL query of the admin port; it can read tables of pipelines."""

from pathlib import Path

from mainstem.pipelines.stored_rows import stored_rows
from mainstem.sql.answer import serve

if __name__ == "__main__":
    serve(lambda state, name: stored_rows(Path(state), name))
