"""`make rules` reports each refusal in one line: file, line, key, the problem and the remedy."""

import shutil
from pathlib import Path

import yaml

from alerts.generator.application import Application, read_application
from alerts.generator.build import CHECKOUT, read
from alerts.generator.histograms import Histogram, names_dropped, read_histograms
from deploy.documents import FileError, parse
from tests.support.refusals import assert_refused

SHOP = """\
app: shop
about: The web shop.
host: xen1
tiers:
  web: shop-web
  db: shop-db
objectives:
  latency: {share: 0.99, seconds: 0.3}
  availability: {share: 0.999}
  mean: {seconds: 0.1}
low_traffic: 0.2
"""
MAPPED = """\
histograms:
  - metric: http_request_duration_seconds
    selector: {job: app, handler: /api/.*}
    app: {label: service}
    tier: {is: web}
    method: {label: method}
    status: {label: code}
    edges: [0.1, 0.25, 0.5, 1]
"""
CONFIGURATION = CHECKOUT / "prometheus/prometheus.yml"
DROPPED = names_dropped(CONFIGURATION.read_text())
SENSORS = "my @EDGES = qw(0.005 0.1 0.25 0.3 0.4 1);\n"


def application(text: str) -> Application:
    return read_application(parse(text, "alerts/objectives/shop.yml"))


def histograms(text: str) -> list[Histogram]:
    return [*read_histograms(parse(text, "prometheus/histograms.yml"), DROPPED)]


def checkout(folder: Path, histograms: str = "histograms: []\n", **applications: str) -> Path:
    """A checkout with only these inputs."""
    for name in ("alerts/objectives", "prometheus", "telegraf"):
        (folder / name).mkdir(parents=True)
    (folder / "prometheus" / "histograms.yml").write_text(histograms)
    (folder / "prometheus" / "settings.yml").touch()
    shutil.copy(CONFIGURATION, folder / "prometheus")
    (folder / "telegraf" / "access_log.pl").write_text(SENSORS)
    for name, text in applications.items():
        (folder / "alerts" / "objectives" / f"{name}.yml").write_text(text)
    return folder


# A replaced part of SHOP, its replacement, and the beginning of the message: line, key, problem.
APPLICATIONS = [
    # Keys.
    ("low_traffic: 0.2", "low_trafic: 0.2", "11: low_trafic: no such key; did you mean low_traffic?"),
    ("about: The", "colour: The", "2: colour: no such key; there are app, about, host, tiers, objectives, low_traffic"),
    ("seconds: 0.3", "second: 0.3", "8: objectives.latency.second: no such key; did you mean seconds?"),
    ("low_traffic: 0.2\n", "", "1: low_traffic: is missing"),
    ("{share: 0.999}", "{}", "9: objectives.availability.share: is missing"),
    ("about: The web shop.", "app: shop2", "2: app: is there twice"),
    # Values.
    ("share: 0.99,", "share: 99,", "8: objectives.latency.share: 99 must be between 0 and 1; 99 % is 0.99"),
    ("{share: 0.999}", "{share: 1}", "9: objectives.availability.share: 1 must be between 0 and 1"),
    ("{share: 0.999}", "{share: 0.9999999}", "9: objectives.availability.share: 0.9999999 allows less than one bad "),
    (
        "share: 0.99,",
        "share: 0.9,",
        "8: objectives.latency.share: 0.9 could never page: a burn rate of 14.4 needs more",
    ),
    ("low_traffic: 0.2", "low_traffic: 0", "11: low_traffic: should be greater than 0, not '0'"),
    ("low_traffic: 0.2", "low_traffic: 0x10", "11: low_traffic: should be a valid number, unable to parse"),
    ("The web shop.", "The {{shop}}.", "2: about: must not contain {{, which would start a template"),
    # Names.
    ("app: shop", "app: shop-[0-9]+", "5: tiers.web: must say with {app} which of shop-[0-9]+ a virtual server"),
    ("web: shop-web", "web: '{app}/{app}'", "5: tiers.web: {app} may occur only once"),
    ("web: shop-web", "web: '{ap}-web'", "5: tiers.web: {ap} is unknown"),
    ("web: shop-web", "Web: shop-web", "5: tiers.Web: a tier's name must be small letters, digits and _"),
    ("app: shop", r'app: "sh\nop"', r"1: app: 'sh\nop' has a character that can't be in a name, such as a newline"),
    ("app: shop", "app: ' '", "1: app: should be a name or a regular expression"),
    ("app: shop", "app: shop-[0-9+", "1: app: bad regular expression 'shop-[0-9+': unterminated character set"),
    ("web: shop-web", r"web: (s)\1", r"5: tiers.web: bad regular expression '(s)\\1': Prometheus has no '\\1'"),
    # Python accepts these, and Prometheus doesn't.
    *(
        ("host: xen1", f"host: '{regex}'", f"3: host: bad regular expression {regex!r}: Prometheus has no {what!r}")
        for regex, what in [
            *(("(?!xen1).*", "(?!"), (r"xen\Z", r"\Z"), (r"\u0078en[12]", r"\u")),
            *(("x{1001}", "{1001}"), ("x{2,30000}", "{2,30000}"), ("xen[0-9]{,3}", "{,3}")),
        ]
    ),
    # YAML.
    ("{seconds: 0.1}", "{seconds: 0,1}", "10: objectives.mean.1: is not a key; decimals need a point, as in 0.5"),
    ("host: xen1", "<<: {host: xen1}", "3: <<: is not a key"),
    (
        "web: shop-web",
        "web: {app}-web",
        "5: is not YAML: expected <block end>, but found '<scalar>'; close the bracket, or put",
    ),
    (
        "app: shop",
        "  app: shop",
        "2: is not YAML: expected '<document start>', but found '<block mapping start>'; check ",
    ),
    (SHOP, "app: {shop\n", "1: is not YAML: expected ',' or '}', but got '<stream end>'; close the bracket, or put"),
    (SHOP, "# nothing yet\n", "1: app: is missing"),
    (SHOP, "app: a\nabout: b\nobjectives: {}\nlow_traffic: 1\n", "3: objectives: names no objective"),
]
HISTOGRAMS = [
    ("_seconds\n", "_seconds_bucket\n", "2: histograms[1].metric: name it without _bucket"),
    ("_seconds\n", "_milliseconds\n", "2: histograms[1].metric: is not in seconds"),
    ("http_request_duration", "größe", "2: histograms[1].metric: 'größe_seconds' is not a metric name"),
    ("{is: web}", "{is: web, label: tier}", "5: histograms[1].tier: must be {label: NAME}"),
    ("handler: ", "hand-ler: ", "3: histograms[1].selector.hand-ler: 'hand-ler' is not a label name"),
    ("{label: service}", "{label: größe}", "4: histograms[1].app.label: 'größe' is not a label name"),
    ("0.25, 0.5", "0.25, 0.25", "8: histograms[1].edges[3]: 0.25 must be greater than the edge before it, 0.25"),
    ("[0.1, 0.25, 0.5, 1]", "[]", "8: histograms[1].edges: is empty"),
]


def test_an_application_or_a_histogram_with_a_mistake() -> None:
    for was, becomes, message in APPLICATIONS:
        said = assert_refused(FileError, "", application, changed(SHOP, was, becomes))
        assert said.startswith(f"alerts/objectives/shop.yml:{message}"), said
    for was, becomes, message in HISTOGRAMS:
        said = assert_refused(FileError, "", histograms, changed(MAPPED, was, becomes))
        assert said.startswith(f"prometheus/histograms.yml:{message}"), said
    for share in (0.95, 0.999999):
        availability = application(changed(SHOP, "{share: 0.999}", f"{{share: {share}}}")).objectives.availability
        assert availability
        assert availability.share == share
    assert application(changed(SHOP, "app: shop", "app: 404")).app.text == "404"
    assert not histograms("# none\n")


def changed(text: str, was: str, becomes: str) -> str:
    assert was in text
    return text.replace(was, becomes, 1)


def test_a_histogram_that_job_app_would_drop_or_keeps() -> None:
    """Without a selector for job it may be from job app; with one for another job, it isn't."""
    for name in ("node_request_duration", "container", "app_request_duration", "shop:request"):
        metric = f"{name}_seconds"
        mapped = MAPPED.replace("http_request_duration_seconds", metric)
        problem = rf"^prometheus/histograms\.yml:2: histograms\[1\]\.metric: job app drops {metric}_bucket "
        assert_refused(FileError, problem, histograms, mapped)
        assert_refused(FileError, problem, histograms, mapped.replace("job: app, ", ""))
        (histogram,) = histograms(mapped.replace("job: app", "job: shop"))
        assert histogram.metric == metric
    for metric in ("app_http_request_duration_seconds", "nodejs_request_seconds", "upload_seconds"):  # similar names
        mapped = MAPPED.replace("http_request_duration_seconds", metric)
        assert [each.metric for each in histograms(mapped)] == [metric]
    jobs = {job["job_name"]: job for job in yaml.safe_load(CONFIGURATION.read_text())["scrape_configs"]}
    inside = jobs["app_in_guests"]["metric_relabel_configs"]
    assert tuple(step["regex"] for step in inside if step.get("action") == "drop") == DROPPED, "the same inside guests"
    assert not [step for step in [*jobs["app"]["metric_relabel_configs"], *inside] if step.get("action") == "keep"]


def refusal(folder: Path) -> str:
    return assert_refused(FileError, "", read, folder)


def test_a_threshold_is_an_edge_of_every_histogram_that_may_have_the_application(tmp_path: Path) -> None:
    """The mapped histogram has applications as a label: this one may be in it, or come from a sensor."""
    shop = SHOP.replace("seconds: 0.3}", "seconds: 0.35}")
    assert refusal(checkout(tmp_path / "sensors", shop=shop)) == (
        "alerts/objectives/shop.yml:8: objectives.latency.seconds: 0.35 is not a bucket edge of "
        "app_request_duration_seconds; nearest first, it could be 0.3, 0.4, 0.25, 0.1, 0.005, 1"
    )
    assert refusal(checkout(tmp_path / "label", MAPPED, shop=SHOP)) == (
        "alerts/objectives/shop.yml:8: objectives.latency.seconds: 0.3 is not a bucket edge of "
        "http_request_duration_seconds and app_request_duration_seconds; nearest first, it could be 0.25, 0.1, 1"
    )
    named = MAPPED.replace("{label: service}", "{is: shop}")
    half = SHOP.replace("seconds: 0.3}", "seconds: 0.5}")  # not a bucket of the sensors
    other = SHOP.replace("app: shop", "app: cart")
    assert len(read(checkout(tmp_path / "named", named, shop=half, cart=other)).applications) == 2


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    wrong = SHOP.replace("{share: 0.99, seconds: 0.3}", "{share: 99, seconds: -0.3}").replace(
        "share: 0.999", "share: 7"
    )
    lines = refusal(checkout(tmp_path, shop=wrong, cart=wrong.replace("app: shop", "app: cart"))).splitlines()
    mistakes = [("8", "latency.share"), ("8", "latency.seconds"), ("9", "availability.share")]
    assert [line.split(": ")[:2] for line in lines] == [
        [f"alerts/objectives/{name}.yml:{line}", f"objectives.{key}"]
        for name in ("cart", "shop")
        for line, key in mistakes
    ]


def test_two_files_for_one_application(tmp_path: Path) -> None:
    for number, (app, refused) in enumerate({"shop": True, "sh.*": True, "cart": False, "shop-[0-9]+": False}.items()):
        second = SHOP.replace("app: shop", f"app: {app}").replace(" shop-", " x{app}-")
        folder = checkout(tmp_path / str(number), shop=SHOP, second=second)
        if refused:
            assert refusal(folder).startswith("alerts/objectives/shop.yml:1: app: shop has objectives in alerts/obj")
        else:
            assert len(read(folder).applications) == 2
    other = SHOP.replace("host: xen1", "host: xen2")
    assert len(read(checkout(tmp_path / "on another host", shop=SHOP, shop2=other)).applications) == 2


def test_two_patterns_that_may_mean_one_application_are_reported(tmp_path: Path) -> None:
    first = SHOP.replace(" shop-", " x{app}-").replace("app: shop", "app: shop-.*")
    overlapping = ("sho.*", "shop-[a-z]+-eu", "cart|(s|t).*", "s(a|h).*")
    for number, app in enumerate((*overlapping, "cart|rubis-[0-9]+", "shop", "shopping-.*")):
        second = SHOP.replace(" shop-", " x{app}-").replace("app: shop", f"app: {app}")
        lines = read(checkout(tmp_path / f"{number}", first=first, second=second)).doubts
        expected = [f"alerts/objectives/second.yml:1: app: {app}"] if app in overlapping else []
        assert [line.partition(" may match ")[0] for line in lines] == expected
        elsewhere = checkout(tmp_path / f"{number} other", first=first, second=second.replace("xen1", "xen2"))
        assert read(elsewhere).doubts == []


def test_a_file_that_can_not_be_read_or_that_nobody_would_read(tmp_path: Path) -> None:
    folder = checkout(tmp_path, shop=SHOP)
    shop = folder / "alerts" / "objectives" / "shop.yml"
    shop.write_bytes(SHOP.encode() + b"# caf\xe9\n")
    assert refusal(folder) == "alerts/objectives/shop.yml:12: is not UTF-8: invalid continuation byte"
    shop.unlink()
    shop.symlink_to("gone.yml")
    assert refusal(folder) == "alerts/objectives/shop.yml:1: can't be read: No such file or directory"
    shop.rename(shop.with_suffix(".yaml"))
    assert refusal(folder) == "alerts/objectives/shop.yaml:1: the file's name must end in .yml, or it isn't read"
    spaced = checkout(tmp_path / "spaced", **{"My Shop": SHOP})
    assert refusal(spaced).startswith("alerts/objectives/My Shop.yml:1: the file's name must be small letters")
    (spaced / "telegraf" / "access_log.pl").write_text("my @BOUNDS = qw(1);")
    (spaced / "alerts" / "objectives" / "My Shop.yml").unlink()
    assert refusal(spaced).startswith("telegraf/access_log.pl:1: has no line `my @EDGES = qw(...)`")
