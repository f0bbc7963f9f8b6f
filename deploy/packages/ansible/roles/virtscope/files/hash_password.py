"""Prints a bcrypt hash of the password on standard input; reuses the hash in web.yml if it matches."""

import re
import sys
from pathlib import Path

import bcrypt

password = sys.stdin.read().encode()
web = Path("/etc/virtscope/web.yml")
there = re.search(r"\$2[aby]\$[^\"]+", web.read_text()) if web.exists() else None
kept = there[0] if there and bcrypt.checkpw(password, there[0].encode()) else None
sys.stdout.write(kept or bcrypt.hashpw(password, bcrypt.gensalt(10)).decode())
