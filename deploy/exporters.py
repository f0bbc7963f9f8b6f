"""The exporters and the platforms there are, as the distribution installs them (exporters/pyproject.toml).

An exporter such as `xentop` is the program xentop-exporter, in the folder `xen` of exporters/virtscope, and the job
xentop of prometheus.yml. Its folder is its platform, but for those that run on any. ssh-exporter is none of them: it
reads hosts of these platforms from elsewhere, has their metrics, and runs where it is asked to.
"""

from __future__ import annotations

import tomllib

from deploy.programs import CHECKOUT

OVER_SSH = "ssh"
_PROJECT = tomllib.loads((CHECKOUT / "exporters/pyproject.toml").read_text())["project"]
PROGRAMS = {
    program.removesuffix("-exporter"): entry.split(".")[1] for program, entry in _PROJECT["scripts"].items()
}  # by exporter: virtscope.FOLDER.__main__:main
FOLDERS = {exporter: folder for exporter, folder in PROGRAMS.items() if exporter != OVER_SSH}
OF_ANY_PLATFORM = ("perf", "sched")
PLATFORM_OF = {exporter: folder for exporter, folder in FOLDERS.items() if exporter not in OF_ANY_PLATFORM}
PLATFORMS = tuple(sorted({"base", "cgroup", *PLATFORM_OF.values()}))  # these two are node_exporter's and cAdvisor's

_MORE_PREFIXES = {"perf": ("resctrl_",)}


def prefixes(exporter: str) -> tuple[str, ...]:
    """How the names of its metrics begin: of what it reads, and of itself."""
    return tuple(dict.fromkeys((f"{FOLDERS[exporter]}_", f"{exporter}_", *_MORE_PREFIXES.get(exporter, ()))))
