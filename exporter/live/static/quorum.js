// The quorum of a KRaft cluster: whether it commits, which controllers follow, and what its log says of the cluster.

import { $, Table, el, setChildren, show, since } from "./dom.js";
import { clock, count, duration, list, number } from "./format.js";

const WITH_MARGIN = 3; // voters of the smallest quorum that goes on without one of them

let table = null;

const COLUMNS = [
  { head: "Controller", row: true, cell: ({ node }) => `node ${node}` },
  { head: "Role", cell: ({ role }) => role },
  { head: "Lag in records", number: true, cell: ({ records }) => number(records) },
  { head: "Behind for", number: true, cell: ({ ms }) => (ms === null ? "not known" : duration(ms)) },
];

export function showQuorum({ quorum, controller }) {
  show($("quorum"), quorum !== null);
  if (quorum === null) return;
  setChildren($("quorum-facts"), facts(quorum));
  const { voters, observers } = quorum.lags;
  const rows = [
    ...voters.map((lag) => ({ ...lag, role: lag.node === controller?.id ? "active controller" : "voter" })),
    ...observers.map((lag) => ({ ...lag, role: "observer" })),
  ];
  show($("quorum-table"), rows.length > 0);
  table ??= new Table($("quorum-table"), "Controllers: how far each is, as the active one says", COLUMNS);
  table.update(rows.map((row) => ({ ...row, key: row.node })));
}

function facts(quorum) {
  const { spare_voters: spare, voters, features } = quorum;
  const levels = Object.entries(features).map(([name, level]) => `${name} ${level}`);
  const unknown = Object.entries(quorum.unknown).map(([kind, times]) => `${kind} (${number(times)})`);
  return [
    fact("Commits", commits(quorum)),
    fact("Voters", voters.length ? list(voters) : "not known"),
    fact("May be lost", margin(spare, voters.length)),
    fact("Candidates not elected", number(quorum.candidacies)),
    quorum.snapshot_at === null
      ? null
      : fact("Newest snapshot", since(quorum.snapshot_at, "", ` ago, up to offset ${number(quorum.snapshot_end)}`)),
    levels.length ? fact("Features", levels.join(", ")) : null,
    unknown.length ? fact("Records of a newer Kafka, skipped", unknown.join(", ")) : null,
    quorum.unreachable_since === null
      ? null
      : fact("Controllers", `none has answered since ${clock(quorum.unreachable_since)}`),
    quorum.leader_silent_since === null
      ? null
      : fact("Active controller", `${quorum.leader} has not answered since ${clock(quorum.leader_silent_since)}`),
  ].filter(Boolean);
}

function commits({ commits_stopped: stopped, high_watermark: end, high_watermark_since: at }) {
  if (end === null) return "not known";
  const upTo = `up to offset ${number(end)}`;
  if (stopped) return [`stopped ${upTo}, `, since(at)];
  return `${upTo}, known at ${clock(at)}${stopped === null ? "; whether they go on is not known" : ""}`;
}

function margin(spare, voters) {
  if (spare === null) return "not known: the active controller does not answer DescribeQuorum";
  if (voters < WITH_MARGIN) return `none: it takes ${WITH_MARGIN} voters to lose one`;
  return spare === 0 ? "no further controller" : count(spare, "controller");
}

function fact(name, text) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, ...(Array.isArray(text) ? text : [text])));
}
