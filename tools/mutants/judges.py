"""The files to change, and the tests that judge each: only the file's own tests, as they are fast."""

import re

from deploy.programs import CHECKOUT

# Parsers, models, arithmetic, deadlines and costs. A module NAME is judged by test_NAME.py, or by tests of the given
# names; a name may include another folder of tests/unit.
_PYTHON = {
    ("exporters/virtscope/toolkit", "tests/unit/toolkit"): {
        "answering": "server",
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
        "server": "",
        "totals": "",
    },
    ("exporters/virtscope/toolkit/webconfig", "tests/unit/toolkit/webconfig"): {
        "auth": "",
        "config": "",
        "document": "",
        "tls": "config",
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
        "profile": "",
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
        "child": "connection",
        "connection": "",
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
"""The share of mutants that must be killed."""


def judges() -> dict[str, list[str]]:
    """All files to change with their tests: pytest's, or promtool's for rules."""
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
    """The tests NAME, or FOLDER/NAME in another folder of tests/unit."""
    elsewhere, slash, name = name.rpartition("/")
    return f"tests/unit/{elsewhere}/test_{name}.py" if slash else f"{folder}/test_{name}.py"


def _unit_tests(folder: str, rules: str) -> list[str]:
    """promtool's tests that load a file NAME.yml: first its own, NAME.yml and NAME_PART.yml, then the others.

    The longest are last, as a mutant's tests end at the first failure.
    """
    tests = [test for test in (CHECKOUT / folder / "tests").glob("*.yml") if f"/{rules}.yml" in test.read_text()]
    own = re.compile(rf"{rules}(_.+)?")
    tests.sort(key=lambda test: (not own.fullmatch(test.stem), test.stat().st_size))
    return [str(test.relative_to(CHECKOUT)) for test in tests]
