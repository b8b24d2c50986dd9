// All clusters, the worst first.

import { $, el, setText, sign, since, Table } from "./dom.js";
import { count, number } from "./format.js";
import { wellText } from "./problems.js";

let table = null;
let rows = [];

const COLUMNS = [
  {
    head: "Cluster",
    row: true,
    cell: (row) => [
      sign(row.severity),
      " ",
      el("a", { href: `?cluster=${encodeURIComponent(row.name)}` }, row.name),
    ],
  },
  { head: "What is wrong", cell: wrong },
  {
    head: "Figures",
    cell: (row) => (row.status === "live" ? "live" : strong(row.status ?? "not known")),
  },
  { head: "Controller", cell: controller },
  {
    head: "Brokers",
    number: true,
    cell: (row) =>
      row.brokers_gone
        ? strong(`${row.brokers_live}, ${row.brokers_gone} gone`, "warning")
        : number(row.brokers_live),
  },
  { head: "Partitions", number: true, cell: (row) => number(row.counts.partitions) },
  { head: "Offline", number: true, cell: (row) => bad(row.counts.offline) },
  { head: "Under min ISR", number: true, cell: (row) => bad(row.counts.under_min_isr) },
  {
    head: "Under-replicated",
    number: true,
    cell: (row) => bad(row.counts.under_replicated, "warning"),
  },
  { head: "Not preferred", number: true, cell: (row) => number(row.counts.preferred_imbalance) },
];

function wrong(row) {
  const more = row.problem_count > 1 ? ` (and ${row.problem_count - 1} more)` : "";
  if (row.headline) return `${row.headline}${more}`;
  return row.status === "live" ? "nothing" : "nothing that is known";
}

function controller(row) {
  if (row.controller.id === null) return "not known";
  if (row.controller.id < 0) {
    return row.controller.vacant_since === null
      ? strong("nobody")
      : [strong("nobody"), since(row.controller.vacant_since, " for ")];
  }
  return `${row.controller.is_broker ? "broker" : "node"} ${row.controller.id}`;
}

function bad(value, severity) {
  return value > 0 ? strong(number(value), severity) : number(value);
}

function strong(text, severity = "critical") {
  return el("strong", { class: severity }, text);
}

export function showFleet(clusters, doubt) {
  rows = clusters;
  table ??= new Table($("fleet-table"), "Watched clusters, the worst first", COLUMNS);
  const critical = rows.filter((row) => row.severity === "critical").length;
  const warned = rows.filter((row) => row.severity === "warning").length;
  const state =
    critical + warned === 0
      ? sentence(wellText(doubt))
      : `${critical} critical, ${warned} with warnings, ${rows.length - critical - warned} well.`;
  setText($("fleet-summary"), `${count(rows.length, "cluster")}. ${state}`);
  refill();
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function refill() {
  const wanted = $("fleet-find").value.trim().toLowerCase();
  const shown = rows.filter((row) => row.name.toLowerCase().includes(wanted));
  table?.update(shown.map((row) => ({ ...row, key: row.name, class: `is-${row.severity}` })));
}

$("fleet-find").addEventListener("input", refill);
