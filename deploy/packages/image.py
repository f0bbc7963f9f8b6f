"""The exporters' image for several architectures, as an OCI archive, without a container engine or an emulator.

Its files are the exporters' and those of Debian's packages, as in exporters/Dockerfile, of the release that runs here.
They are unpacked and not configured: no program of the other architecture has to run. The same packages and the same
commit give the same bytes. `skopeo copy oci-archive:FILE docker://REGISTRY/NAME` publishes it.

Format: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
"""

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy import StackError
from deploy.packages import deb
from deploy.places import CHECKOUT

ARCHITECTURES = ("amd64", "arm64")
# python3-* are requirements/exporters.in; the others as in exporters/Dockerfile.
PACKAGES = ["busybox", "libbpf1", "libvirt-clients", "python3", "python3-bcrypt", "python3-prometheus-client"]
PACKAGES += ["python3-yaml", r"^libxenmisc4\.[0-9]+$"]
LEFT_OUT = re.compile(r"usr/share/(doc/.*/(?!copyright$)[^/]+|info/.+|lintian/.+|locale/.+|man/.+)|.*/__pycache__/.+")
MERGED = ("bin", "lib", "lib64", "sbin")  # links to the folders of these names in /usr
USERS = "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"
CONFIG = {
    "User": "nobody",
    "Env": ["PATH=/usr/sbin:/usr/bin", "PYTHONPATH=/opt/virtscope", "PYTHONDONTWRITEBYTECODE=1"],
    "Entrypoint": ["python3", "-m"],
}


class ImageError(StackError):
    """The image can't be built."""


def build(target: Path) -> Path:
    """Write the archive into the folder `target`, and return its path; raises `ImageError`."""
    blobs: dict[str, bytes] = {}

    def added(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    date = deb.source_date()
    labels = {"org.opencontainers.image.version": deb.version(), "org.opencontainers.image.licenses": "Apache-2.0"}
    manifests = []
    for architecture in ARCHITECTURES:
        layer = _layer(architecture, date)
        platform = {"architecture": architecture, "os": "linux"}
        config = {
            **platform,
            "created": datetime.fromtimestamp(date, UTC).isoformat(),
            "config": {**CONFIG, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        layers = [added(gzip.compress(layer, 6, mtime=date), "layer.v1.tar+gzip")]
        manifest = _manifest(config=added(_json(config), "config.v1+json"), layers=layers)
        manifests.append({**added(_json(manifest), "manifest.v1+json"), "platform": platform})
    index = added(_json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests}), "index.v1+json")
    named = {**index, "annotations": {"org.opencontainers.image.ref.name": deb.version()}}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]}),
        **blobs,
    }
    target.mkdir(parents=True, exist_ok=True)
    archive = target / f"virtscope-exporters-{deb.version()}.oci.tar"
    archive.write_bytes(_tar({name: _Entry(0o644, content) for name, content in files.items()}, date))
    return archive


_INDEX = "application/vnd.oci.image.index.v1+json"


def _manifest(**parts: Any) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", **parts}


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


class _Entry:
    """A file, or a folder or link without content, of the image."""

    def __init__(self, mode: int, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
        self.mode, self.content, self.kind, self.link = mode, content, kind, link


def _layer(architecture: str, date: int) -> bytes:
    entries = {name: _Entry(0o777, kind=tarfile.SYMTYPE, link=f"usr/{name}") for name in MERGED}
    entries |= {"tmp": _Entry(0o1777, kind=tarfile.DIRTYPE), "etc/passwd": _Entry(0o644, USERS.encode())}
    entries["etc/group"] = _Entry(0o644, GROUPS.encode())
    with tempfile.TemporaryDirectory(prefix="virtscope-image-") as folder:
        for package in _downloaded(architecture, Path(folder)):
            entries |= _unpacked(package)
    for file in sorted((CHECKOUT / "exporters/virtscope").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            entries[f"opt/virtscope/{file.relative_to(CHECKOUT / 'exporters')}"] = _Entry(0o644, file.read_bytes())
    for name in list(entries):
        for parent in Path(name).parents:
            if str(parent) != ".":
                entries.setdefault(str(parent), _Entry(0o755, kind=tarfile.DIRTYPE))
    return _tar(entries, date)


def _downloaded(architecture: str, folder: Path) -> Iterator[Path]:
    """The packages and all that they depend on, by this machine's sources, in a state of apt of its own."""
    for each in ("state/lists/partial", "cache/archives/partial"):
        (folder / each).mkdir(parents=True)
    (folder / "status").touch()
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Dir::State": f"{folder}/state",
        "Dir::State::status": f"{folder}/status",
        "Dir::Cache": f"{folder}/cache",
    }
    apt = ["apt-get", "--quiet=2", "--yes", *(f"--option={name}={value}" for name, value in options.items())]
    for words in (["update"], ["install", "--no-install-recommends", "--download-only", *PACKAGES]):
        try:
            done = subprocess.run([*apt, *words], capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise ImageError("an image is made of Debian's packages: run this on Debian") from error
        if done.returncode != 0:
            raise ImageError(f"apt-get {words[0]} for {architecture} failed: {done.stderr.strip()}")
    yield from sorted((folder / "cache/archives").glob("*.deb"))


def _unpacked(package: Path) -> dict[str, _Entry]:
    """The package's files without documentation, by their paths in a system whose /bin is /usr/bin."""
    stream = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(stream)) as content:
        for member in content:
            name = _merged(member.name.removeprefix("./").rstrip("/"))
            if not name or name == "." or name in MERGED or LEFT_OUT.fullmatch(name):
                continue
            file = content.extractfile(member) if member.isreg() else None
            link = _merged(member.linkname.removeprefix("./")) if member.islnk() else member.linkname
            found[name] = _Entry(member.mode, file.read() if file else b"", kind=member.type, link=link)
    return found


def _merged(name: str) -> str:
    return f"usr/{name}" if name.partition("/")[0] in MERGED else name


def packed(folder: Path, name: str) -> bytes:
    """The files of a folder as a compressed tar file, below this name: the same content gives the same bytes."""
    files = (file for file in folder.rglob("*") if file.is_file())
    entries = {f"{name}/{file.relative_to(folder)}": _Entry(0o644, file.read_bytes()) for file in files}
    return gzip.compress(_tar(entries, deb.source_date()), 6, mtime=deb.source_date())


def _tar(entries: Mapping[str, _Entry], date: int) -> bytes:
    """A tar file of root's, sorted by name: folders before what is in them, files before links to them."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in sorted(entries.items(), key=lambda item: (item[1].kind == tarfile.LNKTYPE, item[0])):
            member = tarfile.TarInfo(name)
            member.mode, member.type, member.linkname, member.mtime = entry.mode, entry.kind, entry.link, date
            member.size = len(entry.content)
            tar.addfile(member, io.BytesIO(entry.content))
    return written.getvalue()
