"""Coverage-guided fuzzing: changes bytes, and keeps those changes that reach new code.

    python -m tests.faults.fuzzing.fuzz TARGET CORPUS [libFuzzer's flags]

The corpus is a directory that begins with the seeds and grows. What makes a target fail is written
to the current directory, and the process ends.
"""

import sys
from importlib import import_module
from pathlib import Path

import atheris

REACHED = {
    "requests": "mainstem.kafka_protocol.server_codec",
    "records": "mainstem.core.records",
    "unpacking": "mainstem.core.compression",
    "conversations": "tests.faults.fuzzing.fuzz_targets",
    "amqp": "mainstem.heads.amqp091.session",
}
"""What a target gets to, with what that imports: to instrument all takes many times as long."""

with atheris.instrument_imports(include=["mainstem"]):
    import_module(REACHED[sys.argv[1]])

from tests.faults.fuzzing.fuzz_seeds import seeds  # noqa: E402 - these are not to be instrumented
from tests.faults.fuzzing.fuzz_targets import TARGETS  # noqa: E402

from mainstem.kafka_protocol import server_codec  # noqa: E402
from mainstem.kafka_protocol.apis import APIS  # noqa: E402
from mainstem.kafka_protocol.decoders import decoder  # noqa: E402


def instrument_decoders() -> None:
    """Have the decoders report what they reach: generated code is not seen by the import hook."""
    for api in APIS.values():
        for version in range(api.first, api.last + 1):
            flexible = api.flexible(version)
            decode = atheris.instrument_func(decoder(api.request, version, flexible))
            server_codec._request_decoders[api.key, version] = decode, flexible


def main(target: str, corpus: Path, flags: list[str]) -> None:
    """Fuzz until a flag or a failure ends it; does not return."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    if target in ("requests", "conversations"):
        instrument_decoders()
    atheris.Setup([sys.argv[0], str(corpus), *flags], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
