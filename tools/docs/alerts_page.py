"""Make the page of dashboards and alerts: docs/alerts.md.

The rule: how to import and tune them is written here; the list of alerts, with their limits, comes
from the rules themselves.
"""

from __future__ import annotations

from dashboards.alerts.alert import KEEP_FIRING_FOR
from dashboards.alerts.rules import ALERTS
from dashboards.signals.signal import RUNBOOKS
from tools.docs.markdown import code, page, plain, shell, table

ABOUT = """How to bring the boards into Grafana and the rules into Prometheus by hand, and how to make alerts fit your clusters. The
[chart](../helm/kafka-controller-monitor/README.md) does the first two for a Prometheus operator and Grafana's sidecar. Queries are run on a real Prometheus by the tests; the boards were
never opened in a Grafana where this was written."""

SCRAPE = """## What Prometheus must scrape

The exporter with `honor_labels: true`, for the label `cluster` is the watched one, and each watcher (9641) and fold (9642), without which *Pipeline* lacks its delays and `KcmNoWatcherLeads`, `KcmStandbyMissing` and `KcmFoldRestarts`
cannot fire. They listen on 127.0.0.1 until `--metrics-host` says otherwise. Two installations in one Prometheus: give each a job of its own; *Pipeline* lets you choose by job and instance.

```yaml
scrape_configs:
  - job_name: kcm
    honor_labels: true
    static_configs:
      - targets: ["exporter:9640", "watcher:9641", "stream:9642"]
```"""

LINKS = f"""## Links to runbooks

Alerts and boards link to `{
    RUNBOOKS
}/NAME`, where an exporter on the same machine serves the runbooks. Put the address by which people reach yours in its place, in copies of the files:

{
    shell(
        "cp -r helm/kafka-controller-monitor/files kcm-files",
        f"sed -i 's#{RUNBOOKS}#https://kcm.example.com/runbooks#' kcm-files/rules/*.yaml kcm-files/dashboards/*.json",
    )
}"""

BOARDS = """## Boards into Grafana

By hand, in Grafana 10 or newer:

1. *Connections*, *Data sources*, *Add new data source*, *Prometheus*: its URL, then *Save & test*. A data source that is there will do.
2. *Dashboards*, *New*, *New folder*: `Kafka`.
3. In the folder *New*, *Import*, *Upload dashboard JSON file*: `fleet.json`, then *Import*. No question follows: a board takes its data source from its own choice at the top.
4. The same for `controller.json`, `quorum.json`, `partitions.json`, `balance.json`, `pipeline.json`. Import all: they link to each other by the tag `kafka-controller-monitor`, and by their uids, `kcm-fleet` and so on.
5. Open *Kafka Controller Monitor / Fleet*, choose the data source at the top, and one or all clusters. If the list of clusters is empty, this data source has no `kcm_cluster_up`: see the targets in Prometheus.

A newer release is imported the same way: Grafana says that the uid exists, *Import (Overwrite)* replaces the board. What you changed in it is lost, so save a copy of yours under another name first.

By Grafana's API, all at once, also to replace them:

```
for board in kcm-files/dashboards/*.json; do
  jq '{dashboard: (. + {id: null}), overwrite: true}' "$board" |
    curl -fsS -H "Authorization: Bearer $GRAFANA_TOKEN" -H "Content-Type: application/json" --data @- https://grafana.example.com/api/dashboards/db
done
```

By files: lay them where a provider of Grafana's provisioning looks (`/etc/grafana/provisioning/dashboards/kcm.yaml`):

```yaml
apiVersion: 1
providers:
  - name: kafka-controller-monitor
    folder: Kafka
    type: file
    options: {path: /var/lib/grafana/dashboards/kcm}
```

A release (`python -m tools.release`) has the same boards in the form of grafana.com: their import asks for the data source, and for the address of your runbooks.

## With jsonnet

The generated files are a mixin as well, `mixin.libsonnet` beside them; a release packs it. With jsonnet-bundler, `jb install` takes the unpacked folder, and the runbooks get your address:

```
local kcm = (import 'kafka-controller-monitor-mixin-0.1.0/mixin.libsonnet') + {
  _config+:: { runbookBaseUrl: 'https://kcm.example.com/runbooks' },
};
{ grafanaDashboards+:: kcm.grafanaDashboards, prometheusAlerts+:: kcm.prometheusAlerts }
```"""

RULES = f"""## Rules into Prometheus

Prometheus 2.42 or newer: the rules use `keep_firing_for` ({
    KEEP_FIRING_FOR
}, so that a short gap in the scrapes ends no alert).

{
    shell(
        "promtool check rules kcm-files/rules/kafka-controller-monitor.yaml",
        "cp kcm-files/rules/kafka-controller-monitor.yaml /etc/prometheus/rules/",
        "curl -fsS -X POST http://localhost:9090/-/reload    # or SIGHUP; rule_files: [/etc/prometheus/rules/*.yaml]",
    )
}

Name your clusters: as it is shipped `KcmNotServed` fires while none at all is served, and `KcmBlind` misses one of several for 6 hours only. In your copy of the file:

```yaml
- alert: KcmNotServed
  expr: absent(kcm_cluster_up{{cluster="prod"}}) or absent(kcm_cluster_up{{cluster="stage"}})
```

Every alert has the labels `cluster` and `severity`, those about one broker `broker` as well. In Alertmanager, somebody is woken by `critical` and nobody by `warning`; while the monitor itself does not see a cluster, what it says
about Kafka is old, but for what it still hears of the controllers: of a quorum that is lost or commits nothing it sees no commits either.

```yaml
route:
  receiver: day
  group_by: [cluster, alertname]
  routes:
    - matchers: [severity="critical"]
      receiver: pager
inhibit_rules:
  - source_matchers: [alertname=~"KcmBlind|KcmNotServed"]
    target_matchers: [alertname=~"Kafka.*", alertname!~"KafkaController(Missing|Silent)|KafkaQuorumCommitsStopped"]
    equal: [cluster]
```"""

TUNING = """## Make alerts fit

Watch them for a week as they are. Then, for each that fired and changed nothing:

- **It is about planned work**: a [silence](operating.md#silences-for-planned-work), not a change.
- **It is right, and not worth a night**: lower its severity.
- **It came and went by itself**: a longer `for`. Do not lengthen that of what clients feel at once (`KafkaPartitionsOffline`, `KafkaPartitionsUnderMinIsr`, `KafkaUncleanLeaderElection`).
- **Your clusters live with more of it**: a higher threshold. `KafkaLeadersSkewed` measures a habit, `KafkaPartitionsUnderReplicated` a number that grows with the cluster. `KafkaLeadersImbalanced` and
  `KafkaLeadersCannotReturn` follow Kafka's own leader.imbalance.per.broker.percentage: say it by `leader_imbalance_percentage`.
- **It does not concern you**: disable it. `KcmCheckpointFull` needs kubelet's metrics, `KcmStandbyMissing` a second watcher.

With the chart, by values; what is left out stays, and a name or a key that it does not know is refused:

```yaml
prometheusRule:
  enabled: true
  alerts:
    KafkaPartitionsUnderReplicated: {threshold: 100, for: 30m}
    KafkaLeadersSkewed: {enabled: false}
    KafkaControllerFlapping: {severity: warning, labels: {team: kafka}}
```

The live page judges by the same values: the chart hands them to the exporter. There a disabled alert is no problem, and a severity that is neither `critical` nor `warning` changes who is notified, not how bad it is.
Boards go on to draw the shipped limits.

Without the chart, in your copy of the file: the number at the end of `expr`, `for`, `labels.severity`. One cluster of several is tuned by a second rule: take the cluster out of the first (`cluster!="stage"` in `expr`) and copy it with
`cluster="stage"` and other limits. Say the same to the exporter, so that its page judges alike (`kcm.toml`; the setting [`alerts`](configuration.md)):

```toml
[alerts.KafkaPartitionsUnderReplicated]
threshold = 100
for = "30m"

[alerts.KafkaLeadersSkewed]
enabled = false
```

Then `promtool check rules`, and compare with the new file at each upgrade.

## All alerts

What is compared with a number can be given another `threshold`; the others say yes or no, or follow a setting of Kafka. Each name leads to its runbook."""


def alerts_page() -> str:
    """Return the page."""
    rows = (
        (
            f"[{alert.name}](runbooks/{alert.name}.md)",
            str(alert.threshold.severity),
            code(alert.threshold.for_text),
            code(alert.threshold.condition),
            plain(alert.signal.meaning),
        )
        for alert in ALERTS
    )
    listed = table(("Alert", "Severity", "For", "Threshold", "Compares"), rows)
    return page("Boards and alerts", ABOUT, SCRAPE, LINKS, BOARDS, RULES, TUNING, listed)
