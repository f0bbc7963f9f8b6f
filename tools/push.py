"""Configuration of agents that push a host's metrics, with the jobs and limits of prometheus/prometheus.yml.

python -m tools.push    write deploy/packages/push/prometheus.yml and otelcol.yml (make docs)
"""

import json
from typing import Any

import yaml

from deploy.programs import CHECKOUT

FOLDER = CHECKOUT / "deploy/packages/push"
# Jobs of other machines: ssh-exporter's hosts, which would all appear as this host; the lab's clients; the stack.
_NOT_OF_A_HOST = {"xentop_over_ssh", "vestat_over_ssh", "ssh", "advise", "lab", "prometheus", "alertmanager", "stack"}

Yaml = dict[str, Any]


def jobs() -> list[Yaml]:
    """The jobs of a host's own agent, each with a targets file next to its configuration."""
    configuration = yaml.safe_load((CHECKOUT / "prometheus/prometheus.yml").read_text())
    own = [job for job in configuration["scrape_configs"] if job["job_name"] not in _NOT_OF_A_HOST]
    for job in own:
        for discovery in job["file_sd_configs"]:
            discovery["files"] = [
                file for file in discovery["files"] if file.startswith("targets/") and "/local/" not in file
            ]
    return own


def prometheus() -> str:
    """The configuration of Prometheus in agent mode."""
    return f"""\
# Prometheus in agent mode on a host that can't be scraped: docs/push.md. Made of prometheus/prometheus.yml by
# `python -m tools.push`; yours are the name, the address, the password, and the files in targets/.
#
#   prometheus --agent --config.file=prometheus.yml --web.listen-address=127.0.0.1:9095 --storage.agent.path=DATA
global:
  scrape_interval: 15s # at most: the rules take rates over a minute
  scrape_timeout: 10s

remote_write:
  - url: https://gate.example.org:8427/api/v1/write
    basic_auth:
      username: host1
      password_file: /etc/virtscope/push-password
    queue_config:
      batch_send_deadline: 1s # rules see a sample as much later
      retry_on_http_429: true
    metadata_config:
      send: false # the gate drops it

{_dump({"scrape_configs": jobs()})}"""


def otelcol() -> str:
    """The configuration of OpenTelemetry's Collector, which expands dollar signs."""
    receiver = {
        "config": {
            "global": {"scrape_interval": "15s", "scrape_timeout": "10s"},
            "scrape_configs": jobs(),
        }
    }
    return f"""\
# OpenTelemetry's Collector on a host that can't be scraped: docs/push.md. Made of prometheus/prometheus.yml by
# `python -m tools.push`; yours are the name, the address, the password, and the files in targets/, a folder of the
# directory it runs in.
extensions:
  basicauth/gate:
    client_auth:
      username: host1
      password_file: /etc/virtscope/push-password

exporters:
  prometheus_remote_write:
    http:
      endpoint: https://gate.example.org:8427/api/v1/write
      auth: {{authenticator: basicauth/gate}}
    # Names and labels as the exporters have them.
    translation_strategy: UnderscoreEscapingWithoutSuffixes
    disable_scope_info: true
    target_info: {{enabled: false}}
    remote_write_queue: {{enabled: true, queue_size: 10000}}
    max_batch_request_parallelism: 1 # in order
    retry_on_failure: {{enabled: true, max_interval: 30s, max_elapsed_time: 0s}} # 0: until it is sent

processors:
  memory_limiter: {{check_interval: 1s, limit_mib: 256}} # beyond, scrapes fail: how much it buffers

service:
  extensions: [basicauth/gate]
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [prometheus], processors: [memory_limiter], exporters: [prometheus_remote_write]}}

{_dump({"receivers": {"prometheus": receiver}}).replace("$", "$$")}"""


def _dump(part: Yaml) -> str:
    """As YAML without aliases: each job is self-contained."""
    return yaml.safe_dump(json.loads(json.dumps(part)), sort_keys=False, width=120, default_flow_style=None)


def main() -> None:
    (FOLDER / "prometheus.yml").write_text(prometheus())
    (FOLDER / "otelcol.yml").write_text(otelcol())


if __name__ == "__main__":
    main()
