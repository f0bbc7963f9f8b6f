"""Generate a fleet's files, or run a small one on this machine.

python -m deploy.fleet generate FOLDER | compose | up | down | status
"""

import argparse
import sys
from pathlib import Path

from deploy import StackError, grafana, merge
from deploy.fleet import compose, native, settings
from deploy.fleet.generate import generate


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.fleet", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    writing = commands.add_parser("generate", help="write all configuration files into a folder")
    writing.add_argument("folder", type=Path)
    commands.add_parser("compose", help="write compose.fleet.yaml, and the files that it has in .stack/fleet")
    commands.add_parser("up", help="start the fleet on this machine, or bring a running one up to date")
    commands.add_parser("down", help="stop it; its data is kept")
    commands.add_parser("status", help="show its parts")
    arguments = parser.parse_args()
    try:
        chosen = settings.read(merge.fleet_settings())
        match arguments.command:
            case "generate":
                generate(chosen, arguments.folder.absolute())
            case "compose":
                compose.FILE.write_text(compose.text(chosen))
                generate(chosen, native.FOLDER)
                grafana.make_password()
            case "up":
                native.up(chosen)
            case "down":
                native.down()
            case "status":
                return 0 if native.status(chosen) else 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
