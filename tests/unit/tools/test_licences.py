"""No dependency comes in whose licence isn't in requirements/licences.yml and compatible with how it is used."""

from __future__ import annotations

import os
import re

import pytest

from tools import go_programs
from tools.licences import installed, licence_of, listed, pinned
from tools.programs import CHECKOUT

# They ask for their notice and no more; what is shipped, in the bundle, has nothing else.
PERMISSIVE = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Modification", "CC-PDDC", "CC0-1.0"}
PERMISSIVE |= {"ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "UPL-1.0", "ZPL-2.1", "Zlib"}
# They ask for the source of their own files, unchanged here; CC-BY-SA is of a module's documentation.
BY_FILE = {"CC-BY-SA-4.0", "LGPL-2.1-or-later", "LGPL-3.0", "MPL-2.0"}
# Used to build and test, as programs of their own: nothing of the project is part of them, or they of it.
GPL_PROGRAMS = {"ansible-core", "ansible-lint", "codespell", "yamllint"}

REQUIREMENTS = [str(file.relative_to(CHECKOUT)) for file in sorted(CHECKOUT.glob("requirements/*.txt"))]


def licences(expression: str) -> set[str]:
    return set(re.split(r" (?:AND|OR) ", expression))


def test_each_pinned_package_is_listed_and_no_other() -> None:
    assert set(listed()["python"]) == set[str]().union(*map(pinned, REQUIREMENTS))


@pytest.mark.parametrize("name", sorted(listed()["python"].keys() & installed().keys()))
def test_a_package_has_the_licence_that_is_listed(name: str) -> None:
    assert licence_of(installed()[name]) in {listed()["python"][name], None}


def test_what_is_shipped_asks_for_its_notice_only() -> None:
    for name in pinned("requirements/exporters.txt"):
        assert licences(listed()["python"][name]) <= PERMISSIVE, name


def test_every_licence_allows_the_use() -> None:
    assert set(listed()["python"]) >= GPL_PROGRAMS
    found = {name: licences(said) for names in listed().values() for name, said in names.items()}
    assert [name for name in found.keys() - GPL_PROGRAMS if not found[name] <= PERMISSIVE | BY_FILE] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", go_programs.PROGRAMS)
def test_each_module_of_a_go_program_is_listed(program: str) -> None:
    if go_programs.state(program).name != "built" and os.environ.get("CI") != "true":
        pytest.skip(f"{program} isn't built here")
    assert go_programs.modules(program).keys() <= listed()["go"].keys()
