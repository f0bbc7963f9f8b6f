"""Records which Prometheus wrote the stack's data: versions before 2.55 can't read data of 3."""

from deploy import StackError
from deploy.programs import CHECKOUT

PROMETHEUS_DATA = CHECKOUT / ".stack" / "data" / "prometheus"
WRITER = PROMETHEUS_DATA.with_name("prometheus-version")
FIRST_READER = (2, 55)  # of data of 3: https://prometheus.io/docs/prometheus/latest/migration/


def require_readable(version: str) -> None:
    """Raise `StackError` if this version of Prometheus, such as "2.42.0+ds-5", can't read the data."""
    if not (PROMETHEUS_DATA.exists() and WRITER.exists()):
        return
    writer = WRITER.read_text().strip()
    if _release(writer) >= (3, 0) and _release(version) < FIRST_READER:
        raise StackError(
            f".stack/data/prometheus was written by Prometheus {writer}, and {version} can't read that: "
            "`make tools-update` looks for a newer Prometheus; to start without the data: "
            f"mv .stack/data/prometheus .stack/data/prometheus-{writer}"
        )


def written_by(version: str) -> None:
    """Record the version of Prometheus that writes the data now."""
    WRITER.write_text(f"{version}\n")


def _release(version: str) -> tuple[int, int]:
    """The first two numbers of a version.

    >>> _release("2.42.0+ds-5+deb12u1")
    (2, 42)
    """
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
