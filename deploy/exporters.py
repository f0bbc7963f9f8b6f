"""The exporters and the platforms, from exporters/pyproject.toml.

The exporter `xentop` is the program xentop-exporter, the folder `xen` of exporters/virtscope, and the job xentop in
prometheus.yml. The folder is the platform, except for exporters that run on any. ssh-exporter isn't among them: it
reads hosts of these platforms remotely, exposes their metrics, and is optional.
"""

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
PLATFORMS = tuple(sorted({"base", "cgroup", *PLATFORM_OF.values()}))  # the first two are node_exporter's and cAdvisor's

# Applications may have other metrics of memory_.
_MORE_PREFIXES = {
    "perf": ("resctrl_",),
    "sched": ("blk_", "irq_", "memory_delay_", "memory_evicted_", "memory_reclaim_"),
}


def prefixes(exporter: str) -> tuple[str, ...]:
    """The prefixes of its metrics' names: metrics of the platform, and of the exporter itself."""
    return tuple(dict.fromkeys((f"{FOLDERS[exporter]}_", f"{exporter}_", *_MORE_PREFIXES.get(exporter, ()))))
