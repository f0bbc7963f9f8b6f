"""Examples in documentation and comments are accepted unchanged."""

import re

from alerts.generator.application import read_application
from alerts.generator.build import CHECKOUT
from alerts.generator.histograms import read_histograms
from deploy.documents import parse

OBJECTIVES = (CHECKOUT / "docs" / "objectives.md").read_text()


def blocks(language: str) -> list[str]:
    """The code blocks of docs/objectives.md, without their indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", OBJECTIVES, re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def test_the_application_of_the_documentation() -> None:
    (text,) = [block for block in blocks("yaml") if "low_traffic" in block]
    shop = read_application(parse(text, "alerts/objectives/shop.yml"))
    assert shop.objectives.model_dump() == {
        "latency": {"share": 0.99, "seconds": 0.3},
        "availability": {"share": 0.999},
        "mean": {"seconds": 0.1},
    }
    assert shop.tiers == {"web": "shop-web", "db": "shop-db"}
    (of_many,) = [block for block in blocks("yaml") if block.startswith("app: auction")]
    rest = "about: Many.\nobjectives: {mean: {seconds: 1}}\nlow_traffic: 1\n"
    assert not read_application(parse(of_many + rest, "alerts/objectives/auction.yml")).app.single


def test_the_histogram_of_the_documentation_is_that_of_the_file() -> None:
    (text,) = [block for block in blocks("yaml") if block.startswith("histograms:")]
    (histogram,) = read_histograms(parse(text, "docs"), ())
    comments = (CHECKOUT / "prometheus" / "histograms.yml").read_text().partition("#\n# histograms:")[2]
    commented = "histograms:" + re.sub("^# ?", "", comments.partition("\nhistograms:")[0], flags=re.MULTILINE)
    assert read_histograms(parse(commented, "prometheus/histograms.yml"), ()) == (histogram,)
