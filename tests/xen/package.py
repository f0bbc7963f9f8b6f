"""The exporters' wheel, installed as on a watched host, ready to be unpacked there."""

import importlib.metadata
import io
import subprocess
import sys
import tarfile
from pathlib import Path

from deploy.programs import CHECKOUT


def exporter_as_tar(workdir: Path) -> bytes:
    """Build the wheel and install it with its one run-time dependency; return the installation as a tar file.

    PyYAML and bcrypt are left out: only --web.config.file needs them.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels, site = workdir / "wheels", workdir / "site"
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(CHECKOUT / "exporters")]
    subprocess.run([*pip, *build], check=True, timeout=120)
    [wheel] = wheels.glob("virtscope-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True, timeout=120)

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(site, arcname=".")
        for file in importlib.metadata.files("prometheus_client") or ():
            archive.add(file.locate(), arcname=str(file))
    return packed.getvalue()
