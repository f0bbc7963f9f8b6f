"""Finds words in texts for people that tools/wording.yml has better ones for.

python -m tools.wording            FILE:LINE: "WORDS": write BETTER ONES; exits with 1 if there are any
python -m tools.wording PATH ...   only in these files and folders

It reads comments, strings and names of tests in Python; everything except names in Perl; everything in other files.
"""

import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
WORDS = ROOT / "tools/wording.yml"
KINDS = {".conf", ".html", ".in", ".jsonnet", ".libsonnet", ".md", ".pl", ".py", ".service", ".tmpl", ".toml"}
KINDS |= {".yaml", ".yml"}
NAMES = {"Makefile", "Dockerfile"}
# Third-party texts, and files that contain the words deliberately.
SKIPPED = ("tests/fixtures", "tests/unit/test_docs.py", "deploy/go", "tools/wording.yml")


def better_words() -> dict[re.Pattern[str], str]:
    """Return the better words for each pattern."""
    words: dict[str, str] = yaml.safe_load(WORDS.read_text())
    return {
        re.compile(rf"(?<![\w-])(?<!\w:)(?:{words})(?![\w-]|:\w)", re.IGNORECASE): better
        for words, better in words.items()
    }


def files(places: Sequence[str]) -> Iterator[Path]:
    """Yield the files with texts for people in these places, or in the whole checkout."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *places]
    for name in subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        file = ROOT / name
        if file.is_file() and (file.suffix in KINDS or file.name in NAMES) and not name.startswith(SKIPPED):
            yield file


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line for people."""
    if file.suffix == ".py":
        with tokenize.open(file) as source:
            for token in tokenize.generate_tokens(source.readline):
                if token.type in (tokenize.COMMENT, tokenize.STRING):
                    yield from enumerate(token.string.split("\n"), token.start[0])
                elif token.type == tokenize.NAME and token.string.startswith("test_"):
                    yield token.start[0], token.string.replace("_", " ")
    elif file.suffix == ".md":
        for number, line in enumerate(file.read_text().split("\n"), 1):
            yield number, re.sub(r"`[^`]*`", "``", line)  # without names and programs' output
    elif file.suffix == ".pl":
        for number, line in enumerate(file.read_text().split("\n"), 1):
            yield number, re.sub(r"[$@%&]\w+|->\{\w+\}", "", line)
    else:
        yield from enumerate(file.read_text().split("\n"), 1)


def findings(places: Sequence[str]) -> Iterator[str]:
    """Yield a line for each word that is found."""
    better = better_words()
    for file in files(places):
        for number, text in lines(file):
            for pattern, instead in better.items():
                for found in pattern.finditer(text):
                    yield f'{file.relative_to(ROOT)}:{number}: "{found[0]}": write {instead}'


def main() -> None:
    """Print all findings; exit with 1 if there are any."""
    found = list(findings(sys.argv[1:]))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
