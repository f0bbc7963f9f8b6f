"""An exporter's own series, not reduced by a rule: one for each set of labels, as a host may be scraped twice.

Series of the chosen host, or of another scope. Only one platform has them, so the host's name is enough to select them.
"""

from dashboards.signals import Scope

HOST = Scope('host="$host"')


def latest(metric: str, by: str, at: Scope = HOST, /, **labels: str) -> str:
    """The value of each series.

    >>> latest("xen_domain_vcpus", "domid, domain", domain="$vserver")
    'max by (domid, domain) (xen_domain_vcpus{host="$host", domain=~"$vserver"})'
    """
    return f"max by ({by}) ({at(metric, **labels)})"


def rate(counter: str, by: str, **labels: str) -> str:
    """The counter's rate per second for each series."""
    return f"avg by ({by}) (rate({HOST(counter, **labels)}[$__rate_interval]))"


def growth(counter: str, by: str, at: Scope = HOST, /, **labels: str) -> str:
    """The counter's growth in the time range for each series."""
    return f"avg by ({by}) (increase({at(counter, **labels)}[$__range]))"


def there_now(expr: str, by: str, metric: str, **labels: str) -> str:
    """Only series of `expr` that have the metric now: rates and growths continue after an object has ended."""
    return f"({expr} and on ({by}) {HOST(metric, **labels)})"


def described(expr: str, by: str, info: str, labels: str) -> str:
    """The series of `expr`, with labels of the info metric that matches in `by`; series without a match are
    unchanged."""
    return f"{expr} * on ({by}) group_left ({labels}) topk by ({by}) (1, {info}) or ignoring ({labels}) {expr}"
