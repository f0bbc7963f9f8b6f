"""The emulated Xen hosts of this folder's tests, one at a time, and the project's Prometheus."""

import time
from collections.abc import Iterator

import pytest

from tests.support import Prometheus
from tests.support.emulated import log_of
from tests.support.reporting import Report, pytest_terminal_summary, report
from tests.xen.exporters import SecondExporter, second_exporter_in
from tests.xen.host import CREDIT, CREDIT2, EXPORTER_PORT, HostPlan, XenHost, need_emulation
from tests.xen.image import image
from tests.xen.package import exporter_as_tar
from tests.xen.snapshot import resumed

__all__ = ["pytest_terminal_summary", "report"]

HOSTS = (CREDIT2, CREDIT)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hosts(*plans): the emulated Xen hosts that a test runs on (default: CREDIT2)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test on each of its hosts: a system test on CREDIT2, a long one on the other, unless long on both."""
    if "xen" in metafunc.fixturenames:
        chosen = metafunc.definition.get_closest_marker("hosts")
        plans: tuple[HostPlan, ...] = chosen.args if chosen else (CREDIT2,)
        is_long = metafunc.definition.get_closest_marker("long") is not None
        hosts = [
            pytest.param(
                plan, id=plan.name, marks=[pytest.mark.long if is_long or plan is CREDIT else pytest.mark.system]
            )
            for plan in plans
        ]
        metafunc.parametrize("xen", hosts, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts by host, so that each is started once and stopped before the next one starts."""

    def place(item: pytest.Item) -> int:
        if not (isinstance(item, pytest.Function) and hasattr(item, "callspec") and "xen" in item.callspec.params):
            return 0
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))  # the first test also builds and boots
        return HOSTS.index(item.callspec.params["xen"])

    items.sort(key=place)


@pytest.fixture(scope="session")
def xen(tmp_path_factory: pytest.TempPathFactory, report: Report, request: pytest.FixtureRequest) -> Iterator[XenHost]:
    """A running Xen host as planned, with running guests and the exporter in Dom0."""
    need_emulation()
    plan: HostPlan = request.param
    workdir = tmp_path_factory.mktemp(plan.name)
    exporter = exporter_as_tar(workdir)
    begun = time.monotonic()
    with resumed(plan, image(), workdir) as host:
        host.set_clock()
        host.install(exporter)
        host.start_exporter("xen", EXPORTER_PORT)
        seconds = time.monotonic() - begun
        report(f"{plan.name}: {seconds:.0f} s until {len(plan.guests)} guests and the exporter were running")
        failed = request.session.testsfailed
        yield host
        if request.session.testsfailed > failed:
            report("The exporter's log:\n" + host.dom0(f"cat {log_of('xen')}"))
            report(f"The console:\n{host.console()}")


@pytest.fixture(scope="module")
def prometheus(xen: XenHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The project's Prometheus, after scraping the host for long enough to compute rates.

    It scrapes more often than in the shipped configuration, because tests wait for scrapes. That keeps the emulated
    Dom0 busy and makes its guests wait, so it ends with the tests that use it.
    """
    with Prometheus(tmp_path_factory.mktemp("prometheus"), {"xentop": [xen.target]}, interval="2s") as server:
        server.wait_for("host:overhead:ratio", seconds=120)
        yield server


@pytest.fixture(scope="module")
def text_exporter(xen: XenHost) -> Iterator[SecondExporter]:
    """A second exporter in Dom0, with the source xentop."""
    with second_exporter_in(xen, "--source=xentop --xl.interval=0") as exporter:
        yield exporter
