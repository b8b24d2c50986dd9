// The rehearsal of a broker's stop, started by a button: it shows what the controller would do, and changes nothing.

import { $, el, setChildren, setText, show, Table } from "./dom.js";
import { ask, Asking, clusterPath } from "./ask.js";
import { count, list, number } from "./format.js";

const SHOWN = 10;

let name = null; // the cluster's name
let broker = null; // the broker whose stop is rehearsed; null: none
let table = null;

const COLUMNS = [
  { head: "Partition", row: true, cell: (row) => row.key },
  { head: "Leader", cell: (row) => moved(leader(row.leader_before), leader(row.leader)) },
  { head: "ISR", cell: (row) => moved(row.isr_before.join(", "), row.isr.join(", ")) },
];

// After a failure a person must ask again: it is too much work to be retried automatically.
const asking = new Asking(async () => {
  const asked = broker;
  if (asked === null) return null;
  try {
    const step = `stop-broker:${asked}`;
    const answer = await ask(clusterPath(name, "/rehearsal"), { step, limit: SHOWN });
    if (asked === broker) put(answer);
  } catch (error) {
    if (asked === broker) setText($("rehearsal-lead"), `Not known: ${error.message}.`);
  }
  return null;
});

export function rehearseButton(id) {
  const label = `Rehearse a stop of broker ${id}`;
  const run = () => rehearse(id);
  return el("button", { type: "button", id: `rehearse-${id}`, "aria-label": label, on: { click: run } }, "Rehearse a stop");
}

// A rehearsal of one cluster is not shown for another.
export function showRehearsal(picture) {
  if (picture.name === name) return;
  name = picture.name;
  close();
}

function close() {
  broker = null;
  show($("rehearsal"), false);
}

function rehearse(id) {
  broker = id;
  setText($("rehearsal-title"), `A stop of broker ${id}, rehearsed`);
  setText($("rehearsal-lead"), "The exporter simulates Kafka's controller …");
  setText($("rehearsal-kcm"), `kcm rehearse --cluster ${name} --stop-broker ${id}`);
  setChildren($("rehearsal-notes"), []);
  show($("rehearsal-table"), false);
  show($("rehearsal"), true);
  $("rehearsal-close").onclick = close;
  $("rehearsal").focus();
  asking.now();
}

function put(answer) {
  const [step] = answer.steps;
  setText($("rehearsal-lead"), step.refused ? `It would be refused: ${step.refused}.` : lead(step));
  table ??= new Table($("rehearsal-table"), "Partitions that would change", COLUMNS);
  const rows = step.changes.partitions.map((row) => ({
    ...row,
    key: `${row.topic}-${row.partition}`,
    class: row.leader !== null && row.leader < 0 ? "is-critical" : "",
  }));
  table.update(rows);
  show($("rehearsal-table"), rows.length > 0);
  setChildren(
    $("rehearsal-notes"),
    notes(answer, step).map((note) => el("li", {}, note)),
  );
}

function lead(step) {
  const led = step.leaders_moved.reduce((sum, each) => sum + each.partition_count, 0);
  const parts = [
    `${count(step.went_offline.count, "partition")} would go offline`,
    `${number(step.went_under_min_isr.count)} under min ISR`,
    `${count(led, "leader")} would move`,
  ];
  const elected = step.controller_candidates.length
    ? ` A controller would be elected: ${race(step)}.`
    : "";
  return `${parts.join(", ")}; ${count(step.zookeeper_writes, "ZooKeeper write")}.${elected}`;
}

function race(step) {
  const candidates = step.controller_candidates;
  if (candidates.length === 1) return `broker ${candidates[0]}`;
  return `a race of brokers ${list(candidates.map(String))}`;
}

function notes(answer, step) {
  const { changes } = step;
  const left = changes.count - changes.partitions.length;
  const found = left > 0 ? [`${count(left, "more partition")} would change.`] : [];
  if (answer.pending_writes > 0)
    found.push(`Writes are pending for ${count(answer.pending_writes, "partition")}: the rehearsal begins after them.`);
  found.push(...step.races.map((each) => `A race: ${each.text}.`));
  found.push(...answer.unknown.map((each) => `Not known: ${each.what}: ${each.text}.`));
  return found;
}

function leader(id) {
  return id === null || id < 0 ? "none" : String(id);
}

function moved(before, after) {
  return before === after ? after : `${before} → ${after}`;
}
