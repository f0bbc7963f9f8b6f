"""Passwords and keys that Prometheus reads stay where they are: neither git nor a Docker image gets them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SECRETS = [
    "prometheus/secrets/xentop-password",
    "prometheus/secrets/any.yml",
    "prometheus/xentop-password",
    "prometheus/ca.crt",
    "prometheus/client.key",
    ".stack/secrets/grafana-admin-password",
]


def is_sent(path: str) -> bool:
    """Whether `docker build` gets a file: the last line of .dockerignore that matches it or a folder above decides."""
    sent = True
    for line in (CHECKOUT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!").rstrip("/")
        if pattern and not line.startswith("#"):
            parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
            regex = "".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*)", pattern))
            if re.fullmatch(f"{regex}(?:/.*)?", path):
                sent = line.startswith("!")
    return sent


@pytest.mark.parametrize("secret", SECRETS)
def test_no_image_gets_a_secret(secret: str) -> None:
    assert not is_sent(secret)


def test_the_demo_s_image_gets_what_it_reads() -> None:
    for pattern in ("prometheus/*.yml", "prometheus/rules/**/*.yml", "prometheus/targets/*.yml", "alerts/rules/*.yml"):
        files = [str(file.relative_to(CHECKOUT)) for file in CHECKOUT.glob(pattern)]
        assert files
        assert [file for file in files if not is_sent(file)] == []
    assert not is_sent("prometheus/targets/local/node.yml")


@pytest.mark.parametrize("secret", SECRETS)
def test_git_does_not_get_a_secret(secret: str) -> None:
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip("this is no git checkout")
    ignored = subprocess.run(["git", "check-ignore", "--no-index", "--quiet", secret], cwd=CHECKOUT, check=False)
    assert ignored.returncode == 0


def test_the_password_of_the_docs_is_such_a_file() -> None:
    docs = (CHECKOUT / "docs/watched-hosts.md").read_text()
    [named] = re.findall(r"password_file: ([^}]*)}", docs)
    assert f"prometheus/{named}" in SECRETS
    assert re.search(rf"install -m 640 .* prometheus/{named}", docs)


def test_no_file_in_git_asks_for_a_password_to_be_written_into_it() -> None:
    text = (CHECKOUT / "packaging/push/gate/vmauth.yml").read_text()
    assert set(re.findall(r"password: (\S+)", text)) == {'"%{HOST1_PASSWORD}"', '"%{HOST1_WEB01_PASSWORD}"'}
    assert "or write it here" not in text


def test_no_password_is_sent_to_whoever_answers() -> None:
    """Without a check of the certificate, that may be anybody who has taken the port."""
    for file in CHECKOUT.glob("packaging/ansible/**/*.yml"):
        for task in re.split(r"(?m)^- name: ", file.read_text()):
            assert not ("validate_certs: false" in task and "password: " in task), file
