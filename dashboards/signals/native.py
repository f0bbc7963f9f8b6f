"""An exporter's own series, which no rule has reduced: to one for each set of labels, as a host may be scraped twice.

Those of the chosen host, or of another scope. One platform alone has them, so that the host's name selects them.
"""

from __future__ import annotations

from dashboards.signals import Scope

HOST = Scope('host="$host"')


def latest(metric: str, by: str, at: Scope = HOST, /, **labels: str) -> str:
    """The value of each.

    >>> latest("xen_domain_vcpus", "domid, domain", domain="$vserver")
    'max by (domid, domain) (xen_domain_vcpus{host="$host", domain=~"$vserver"})'
    """
    return f"max by ({by}) ({at(metric, **labels)})"


def rate(counter: str, by: str, **labels: str) -> str:
    """How fast the counter of each grows, per second."""
    return f"avg by ({by}) (rate({HOST(counter, **labels)}[$__rate_interval]))"


def growth(counter: str, by: str, at: Scope = HOST, /, **labels: str) -> str:
    """By how much the counter of each grew in the time that is shown."""
    return f"avg by ({by}) (increase({at(counter, **labels)}[$__range]))"


def there_now(expr: str, by: str, metric: str, **labels: str) -> str:
    """Those series of `expr` alone that have the metric now: a rate or a growth goes on for what has ended."""
    return f"({expr} and on ({by}) {HOST(metric, **labels)})"


def described(expr: str, by: str, info: str, labels: str) -> str:
    """The series of `expr`, with labels of the info metric that has the same of `by`; those without one stay as they
    are."""
    return f"{expr} * on ({by}) group_left ({labels}) topk by ({by}) (1, {info}) or ignoring ({labels}) {expr}"
