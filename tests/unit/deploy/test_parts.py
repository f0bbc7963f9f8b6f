"""deploy/parts.py: settings besides ports, and those that a running stack keeps."""

from deploy import StackError
from deploy.parts import DEMO_PARTS, kept, options, ports
from tests.support.refusals import assert_refused

HERE = {
    "PROMETHEUS_EXTERNAL_URL": "http://127.0.0.1:9095",
    "ALERTMANAGER_EXTERNAL_URL": "http://127.0.0.1:9093",
    "GF_SERVER_ROOT_URL": "http://127.0.0.1:3000",
    "PROMETHEUS_RETENTION_SIZE": "20GB",
}
PORT = {"PROMETHEUS_PORT": "9095"}


def test_links_lead_to_this_machine_and_its_ports_unless_others_are_given() -> None:
    assert options({"PROMETHEUS_EXTERNAL_URL": ""}, ports(PORT)) == HERE
    given = {"PROMETHEUS_EXTERNAL_URL": "https://monitor.example.org/prometheus", "PROMETHEUS_RETENTION_SIZE": "500MB"}
    assert options(given, ports(PORT)) == {**HERE, **given}
    assert "ALERTMANAGER_EXTERNAL_URL" not in options({}, ports({}, DEMO_PARTS))


def test_what_is_no_address_or_no_size_is_refused() -> None:
    for url in ("monitor.example.org", "ftp://monitor", "http://", "http://a b", "https://a/?b", "http://a'b"):
        words = r"^GF_SERVER_ROOT_URL=.* is not an address such as https://"
        assert_refused(StackError, words, options, {"GF_SERVER_ROOT_URL": url}, ports({}))
    for size in ("20", "0GB", "20 GB", "20GiB", "-1GB", "1.5GB"):
        words = r"^PROMETHEUS_RETENTION_SIZE=.* is not a size such as 20GB or 500MB$"
        assert_refused(StackError, words, options, {"PROMETHEUS_RETENTION_SIZE": size}, ports({}))


def test_a_running_stack_keeps_what_it_was_given_and_no_defaults() -> None:
    given = {"ALERTMANAGER_EXTERNAL_URL": "https://monitor.example.org"}
    running = {**PORT, **options({**given, **PORT}, ports(PORT))}
    assert kept(running) == {**PORT, **given}


def test_what_is_no_port_or_two_parts_port_is_refused() -> None:
    for text in ("http", "0", "65536", "-1", "٣"):
        assert_refused(StackError, f"PROMETHEUS_PORT={text} is not a port", ports, {"PROMETHEUS_PORT": text})
    assert_refused(StackError, "prometheus and alertmanager both use port 9093", ports, {"PROMETHEUS_PORT": "9093"})
