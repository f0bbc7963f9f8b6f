"""Which files are changed, and which tests judge each: those of the file alone, as they are fast."""

from __future__ import annotations

import re

from deploy.programs import CHECKOUT

# Parsers, models, arithmetic, deadlines and costs. A module NAME is judged by test_NAME.py, or by those of these
# names, of another folder of tests/unit with its name.
_PYTHON = {
    ("exporters/virtscope/toolkit", "tests/unit/toolkit"): {
        "answering": "",
        "bounded": "",
        "cli": "",
        "collect": "",
        "encrypted": "",
        "exposition": "",
        "families": "exposition",
        "lines": "exposition",
        "pages": "",
        "record": "",
        "recording": "replay",
        "replay": "",
        "scrape": "",
        "server": "server answering",
    },
    ("exporters/virtscope/toolkit/webconfig", "tests/unit/toolkit/webconfig"): {
        "auth": "",
        "config": "",
        "document": "",
        "tls": "",
    },
    ("exporters/virtscope/openvz", "tests/unit/openvz"): {
        "beancounters": "",
        "ioacct": "",
        "latency": "",
        "procfs": "procfs recorded ioacct",
        "quota": "",
        "veinfo": "",
        "vestat": "vestat units exporter",
        "vzlist": "",
    },
    ("exporters/virtscope/kvm", "tests/unit/kvm"): {
        "command_line": "",
        "guests": "",
        "host_files": "",
        "libvirt": "",
        "limits": "",
        "model": "command_line metrics proxmox",
        "processes": "processes guests",
        "proxmox": "",
        "recorded": "",
        "taps": "",
        "threads": "",
    },
    ("exporters/virtscope/toolkit", "tests/unit/perf"): {
        "hierarchy": "cgroups",
    },
    ("exporters/virtscope/sched", "tests/unit/sched"): {
        "metrics": "",
        "names": "",
        "pairs": "pairs metrics",
        "privileges": "",
        "program": "",
        "reasons": "",
    },
    ("exporters/virtscope/perf", "tests/unit/perf"): {
        "cgroups": "",
        "counters": "",
        "events": "",
        "groups": "",
        "kernel": "kernel counters",
        "machine": "support",
        "metrics": "pages counters",
        "perf_record": "",
        "perf_report": "",
        "profile": "profile top",
        "resctrl": "",
        "scaling": "",
        "support": "",
        "zeros": "",
    },
    ("exporters/virtscope/xen", "tests/unit/xen"): {
        "continuity": "continuity toolstack",
        "devices": "libxenstat_fields netdev xentop_text",
        "hypervisor": "libxenstat",
        "libxenstat": "libxenstat libxenstat_fields",
        "metrics": "recorded libxenstat_fields xentop_text every_source toolstack",
        "model": "libxenstat_fields continuity every_source toolstack recorded",
        "netdev": "netdev libxenstat",
        "runstate": "",
        "text_networks": "",
        "toolstack": "toolstack xl",
        "xenstore": "",
        "xentop": "",
        "xentop_text": "",
        "xentrace": "",
        "xentrace_file": "",
        "xl": "",
        "xl_domains": "xl_texts",
        "xl_host": "xl_texts",
    },
    ("exporters/virtscope/ssh", "tests/unit/ssh"): {
        "child": "",
        "files": "",
    },
    ("alerts/generator", "tests/unit/alerts"): {
        "application": "refusals examples",
        "histograms": "refusals examples promql",
        "words": "",
    },
    ("deploy", "tests/unit/alerts"): {"documents": "refusals"},
}
_RULES = ("prometheus/rules", "alerts/rules")

BAR = 0.9
"""Which share of all mutants must be killed."""


def judges() -> dict[str, list[str]]:
    """Every file that is changed, and its tests: pytest's, or for rules promtool's."""
    found = {
        f"{folder}/{name}.py": [_test(tests, test) for test in (judged_by or name).split()]
        for (folder, tests), modules in _PYTHON.items()
        for name, judged_by in modules.items()
    }
    for folder in _RULES:
        for file in sorted((CHECKOUT / folder).glob("*.yml")):
            found[f"{folder}/{file.name}"] = _unit_tests(folder.partition("/")[0], file.stem)
    return found


def _test(folder: str, name: str) -> str:
    """The tests NAME, or FOLDER/NAME of another folder of tests/unit."""
    elsewhere, slash, name = name.rpartition("/")
    return f"tests/unit/{elsewhere}/test_{name}.py" if slash else f"{folder}/test_{name}.py"


def _unit_tests(folder: str, rules: str) -> list[str]:
    """promtool's tests that load a file NAME.yml: its own, which are NAME.yml and NAME_PART.yml, and then the others.

    The longest come last, as a mutant's tests end with the first that fails.
    """
    tests = [test for test in (CHECKOUT / folder / "tests").glob("*.yml") if f"/{rules}.yml" in test.read_text()]
    own = re.compile(rf"{rules}(_.+)?")
    tests.sort(key=lambda test: (not own.fullmatch(test.stem), test.stat().st_size))
    return [str(test.relative_to(CHECKOUT)) for test in tests]
