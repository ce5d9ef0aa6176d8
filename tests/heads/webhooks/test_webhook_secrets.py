"""Secrets by reference."""

import stat
from pathlib import Path

import pytest

from mainstem.core.errors import InvalidSetting
from mainstem.heads.webhooks.secret_store import SecretStore
from mainstem.heads.webhooks.signatures import SYMMETRIC, signer_of


def test_a_generated_secret_is_in_a_file_that_only_the_server_reads(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "secrets", {})

    reference, secret = store.generate("shop", SYMMETRIC)

    (file,) = (tmp_path / "secrets").iterdir()
    assert reference == f"file:{file.name}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert SecretStore(tmp_path / "secrets", {}).read(reference) == secret
    assert signer_of(secret)


def test_a_server_in_memory_keeps_generated_secrets_in_memory() -> None:
    store = SecretStore(None, {})

    reference, secret = store.generate("shop", SYMMETRIC)

    assert store.read(reference) == secret
    with pytest.raises(InvalidSetting, match=r"webhooks\.secrets"):
        SecretStore(None, {}).read(reference)


def test_a_secret_is_read_from_the_environment() -> None:
    store = SecretStore(None, {"WEBHOOK_SECRET_SHOP": " s3cret\n", "PASSWORD": "p"})

    assert store.read("env:WEBHOOK_SECRET_SHOP") == "s3cret"
    with pytest.raises(InvalidSetting, match="no environment variable"):
        store.read("env:WEBHOOK_SECRET_OTHER")


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "whsec_c2VjcmV0",
        "env:PASSWORD",
        "env:WEBHOOK_SECRET a",
        "file:",
        "file:/etc/passwd",
        "file:../x",
        "file:..",
        "file:.hidden",
        "file:a/b",
        "file:a\n",
        "http://x",
    ],
)
def test_other_references_are_refused(reference: str, tmp_path: Path) -> None:
    store = SecretStore(tmp_path, {"PASSWORD": "p"})

    with pytest.raises(InvalidSetting, match="never as the secret itself") as refused:
        store.read(reference)

    assert "c2VjcmV0" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_text("x" * 10_001)
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "folder").mkdir()
    store = SecretStore(tmp_path, {})

    for name in ("missing", "empty", "large", "binary", "folder"):
        with pytest.raises(InvalidSetting, match=f"secret file:{name}"):
            store.read(f"file:{name}")


def test_only_generated_secrets_are_deleted(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, {})
    (tmp_path / "own").write_text("mine")
    reference, _ = store.generate("shop", SYMMETRIC)

    store.delete("file:own", "shop")
    store.delete("env:WEBHOOK_SECRET", "shop")
    store.delete(reference, "sho")
    assert len(list(tmp_path.iterdir())) == 2

    store.delete(reference, "shop")
    assert [each.name for each in tmp_path.iterdir()] == ["own"]
