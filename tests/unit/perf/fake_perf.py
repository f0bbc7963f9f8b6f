"""A fake perf that records its arguments and runs the test's scripts."""

from pathlib import Path

_SCRIPT = """#!/bin/sh
folder=$(dirname "$0")
echo "$*" >> "$folder/asked"
while [ "$1" != record ] && [ "$1" != report ]; do shift; done
what=$1
while [ $# -gt 0 ]; do
  case $1 in -o|-i) data=$2; shift;; esac
  shift
done
. "$folder/$what.sh"
"""

REPORT = (
    "# Total Lost Samples: 3\\n# Samples: 4  of event 'cpu-clock'\\n# Event count (approx.): 40\\n"
    "# Overhead\\t Samples\\t Period\\tShared Object\\tSymbol\\n"
    "75.00%\\t3\\t30\\tweb\\t[.] main\\n25.00%\\t1\\t10\\t[kernel.kallsyms]\\t[k] copy_page\\n"
)


class FakePerf:
    """A folder for PATH with a program `perf` that runs one shell script for `record` and another for `report`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fake-perf"
        self.folder.mkdir()
        program = self.folder / "perf"
        program.write_text(_SCRIPT)
        program.chmod(0o755)
        self.record('echo data > "$data"')
        self.report('cat "$data" >/dev/null && cat "$folder/report"')
        self.reports(REPORT)

    def record(self, script: str) -> None:
        (self.folder / "record.sh").write_text(script + "\n")

    def report(self, script: str) -> None:
        (self.folder / "report.sh").write_text(script + "\n")

    def reports(self, text: str) -> None:
        (self.folder / "report").write_text(text.replace("\\n", "\n").replace("\\t", "\t"))

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()
