"""Prometheus's passwords and keys get into neither git nor a Docker image."""

import re
import shutil
import subprocess

import pytest

from tests.compose.compose_file import CHECKOUT

SECRETS = [
    *(f"prometheus/{name}" for name in ("secrets/xentop-password", "secrets/any.yml", "xentop-password")),
    *("prometheus/running.yml", "alerts/running.yml", "local/alertmanager.yml", "local/generated/digest"),
    *("prometheus/ca.crt", "prometheus/client.key", ".stack/secrets/grafana-admin-password"),
]


def is_sent(path: str) -> bool:
    """Whether `docker build` sends a file: the last matching line of .dockerignore decides, folders included."""
    sent = True
    for line in (CHECKOUT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!").rstrip("/")
        if pattern and not line.startswith("#"):
            parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
            regex = "".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*)", pattern))
            if re.fullmatch(f"{regex}(?:/.*)?", path):
                sent = line.startswith("!")
    return sent


def test_no_image_gets_a_secret() -> None:
    assert [secret for secret in SECRETS if is_sent(secret)] == []
    assert not is_sent("prometheus/targets/local/node.yml")
    for pattern in ("prometheus/*.yml", "prometheus/rules/**/*.yml", "prometheus/targets/*.yml", "alerts/rules/*.yml"):
        files = [str(file.relative_to(CHECKOUT)) for file in CHECKOUT.glob(pattern) if "running" not in file.name]
        assert files
        assert [file for file in files if not is_sent(file)] == [], "the demo reads it"


def test_git_does_not_get_a_secret() -> None:
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip("this is no git checkout")
    for secret in SECRETS:
        ignored = subprocess.run(["git", "check-ignore", "--no-index", "--quiet", secret], cwd=CHECKOUT, check=False)
        assert ignored.returncode == 0, secret


def test_shipped_files_and_docs_have_passwords_in_files_of_their_own() -> None:
    [named] = re.findall(r"password_file: ([^}]*)}", (CHECKOUT / "docs/watched-hosts.md").read_text())
    assert f"prometheus/{named}" in SECRETS
    gate = (CHECKOUT / "deploy/packages/push/gate/vmauth.yml").read_text()
    assert set(re.findall(r"password: (\S+)", gate)) == {'"%{HOST1_PASSWORD}"', '"%{HOST1_WEB01_PASSWORD}"'}


def test_no_password_is_sent_to_whoever_answers() -> None:
    """Without a certificate check, any process that has taken the port would receive it."""
    for file in CHECKOUT.glob("deploy/packages/ansible/**/*.yml"):
        for task in re.split(r"(?m)^- name: ", file.read_text()):
            assert not ("validate_certs: false" in task and "password: " in task), file
