"""The demo's commands, for deploy/demo.py and for compose.yaml.

python -m demo prepare --folder FOLDER --promtool FILE --prometheus FILE --ports JSON
python -m demo sensors --folder FOLDER --port PORT
"""

import argparse
import json
import logging
import subprocess
import sys
from pathlib import Path

from demo import prepare, server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo", description="A simulated experiment from a study.")
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="make recordings, history and configuration")
    serving = commands.add_parser("sensors", help="serve the simulated sensors' metrics")
    for command in (preparing, serving):
        command.add_argument("--folder", type=Path, required=True, help="for all generated files")
    preparing.add_argument("--promtool", type=Path, required=True)
    preparing.add_argument("--prometheus", type=Path, required=True)
    preparing.add_argument("--ports", required=True, help="ports of prometheus, xentop, kvm, vestat and sensors")
    serving.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    if given.command == "prepare":
        try:
            prepare.prepare(given.folder, given.promtool, given.prometheus, json.loads(given.ports))
        except subprocess.CalledProcessError as error:
            sys.exit(f"{Path(error.cmd[0]).name} failed: {error.output.strip()}")
    else:
        server.serve(given.port, prepare.read_origin(given.folder))


if __name__ == "__main__":
    main()
