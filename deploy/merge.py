"""Merges the shipped configuration with local/: `python -m deploy.merge` writes both unchecked files.

local/ wins. Mappings are merged, and so are jobs, receivers and other list entries of the same name. Lists of other
mappings, of files and of templates are appended. Alertmanager's local routes precede the shipped ones by severity.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from deploy import StackError
from deploy.configuration import ALERTMANAGER, GENERATED, PROMETHEUS, SHIPPED, local_file, unchecked
from deploy.programs import CHECKOUT

_APPENDED = {"rule_files", "scrape_config_files", "templates"}
_NAMES = ("job_name", "name")
_FLEET = ".stack/fleet.yml"
_Mapping = dict[str, Any]


class MergeError(StackError):
    """A local file can't be merged. The message is its name, the key and the problem."""


def prometheus() -> _Mapping:
    """Prometheus's configuration, for a file in prometheus/; raises `MergeError`."""
    found = _configuration(PROMETHEUS)
    found["rule_files"] = [_generated_here(pattern) for pattern in found["rule_files"]]
    return found


def alertmanager() -> _Mapping:
    """Alertmanager's configuration, for a file in alerts/; raises `MergeError`."""
    return _configuration(ALERTMANAGER)


def fleet_settings() -> Path:
    """The fleet's settings: the shipped file, or one in .stack if local/fleet.yml changes any; raises `MergeError`."""
    shipped, local, merged = (CHECKOUT / name for name in ("deploy/fleet/fleet.yml", "local/fleet.yml", _FLEET))
    if not local.exists():
        return shipped
    merged.parent.mkdir(exist_ok=True)
    merged.write_text(_text(of_files(shipped, local), shipped, local))
    return merged


def of_files(shipped_file: Path, file: Path) -> _Mapping:
    """The shipped file merged with a file of local/, which may be missing; raises `MergeError`."""
    shipped: _Mapping = yaml.safe_load(shipped_file.read_text())
    if not file.exists():
        return shipped
    name = f"local/{file.name}"
    try:
        local = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise MergeError(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    return shipped if local is None else _merged(shipped, local, name)


def _configuration(running: Path) -> _Mapping:
    return of_files(CHECKOUT / SHIPPED[running], local_file(running))


def _merged(shipped: _Mapping, local: object, place: str) -> _Mapping:
    if not isinstance(local, dict):
        raise MergeError(f"{place}: {local!r} is not a mapping")
    found = dict(shipped)
    for key, value in local.items():
        here = f"{place}: {key}"
        ours = shipped.get(key)
        if isinstance(ours, dict):
            found[key] = _merged(ours, value, here)
        elif isinstance(ours, list) and (key in _APPENDED or any(isinstance(each, dict) for each in ours)):
            if not isinstance(value, list):
                raise MergeError(f"{here}: {value!r} is not a list")
            found[key] = _before_severities(ours, value) if key == "routes" else _joined(ours, value, here)
        else:
            found[key] = value
    return found


def _joined(shipped: list[Any], local: list[Any], place: str) -> list[Any]:
    """Both lists, with members of the same name merged."""
    found = {_name(each) or f"shipped {number}": each for number, each in enumerate(shipped)}
    for number, each in enumerate(local):
        name = _name(each)
        found[name or f"local {number}"] = _merged(found[name], each, f"{place}: {name}") if name in found else each
    return list(found.values())


def _name(member: object) -> str:
    return next((str(member[key]) for key in _NAMES if key in member), "") if isinstance(member, dict) else ""


def _before_severities(shipped: list[_Mapping], local: list[Any]) -> list[Any]:
    """Routes to nobody stay first: these alerts only inhibit others."""
    silent = [route for route in shipped if route["receiver"] == "nobody"]
    return [*silent, *local, *(route for route in shipped if route not in silent)]


def _generated_here(pattern: str) -> str:
    """The pattern for files in local/generated instead of the shipped ones, if they exist."""
    place = os.path.normpath(f"prometheus/{pattern}")
    return f"../{GENERATED.relative_to(CHECKOUT)}/{place}" if [*GENERATED.glob(place)] else pattern


def _text(document: _Mapping, *sources: Path) -> str:
    comment = f"# Made of {' and '.join(str(file.relative_to(CHECKOUT)) for file in sources)}: change the latter.\n"
    return comment + yaml.safe_dump(document, sort_keys=False, width=10**6, allow_unicode=True)


def main() -> int:
    try:
        for running, document in ((PROMETHEUS, prometheus()), (ALERTMANAGER, alertmanager())):
            local, new = local_file(running), unchecked(running)
            new.unlink(missing_ok=True)
            new.touch(0o600)
            if local.exists():  # it may have passwords
                shutil.copymode(local, new)
                os.chown(new, -1, local.stat().st_gid)
            else:
                new.chmod(0o644)
            new.write_text(_text(document, CHECKOUT / SHIPPED[running], local))
    except MergeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
