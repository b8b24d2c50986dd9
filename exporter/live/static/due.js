// The controller writes that are due, partition by partition; hidden while there are none.

import { $, setText, show, since, setChildren, Table } from "./dom.js";
import { ask, Asking, clusterPath, stateOf } from "./ask.js";
import { count, list, number, words } from "./format.js";

const LISTED = 20;

let cluster = null;
let table = null;

const COLUMNS = [
  { head: "Partition", row: true, cell: (row) => `${row.topic}-${row.partition}` },
  { head: "Write", cell: (row) => `${words(row.kind)}${row.sure ? "" : " (perhaps)"}` },
  { head: "Expected", cell: (row) => expected(row) },
  { head: "Due", cell: (row) => (row.since === null ? "not known" : since(row.since, "for ")) },
];

const asking = new Asking(
  async () => {
    if (!isOwing()) return null;
    const answer = await ask(clusterPath(cluster.name, "/writes-due"), { limit: LISTED });
    if (isOwing()) put(answer);
    return answer.as_of;
  },
  (message) => setText($("due-lead"), `Not known now: ${message}.`),
);

function isOwing() {
  return Object.values(cluster.writes_due.counts).some((each) => each > 0);
}

export function showDue(picture) {
  cluster = picture;
  show($("due"), isOwing());
  if (!isOwing()) return;
  setChildren($("due-lead"), lead(picture.writes_due));
  asking.follow([stateOf(picture), picture.writes_due.counts], picture.as_of);
}

function lead(due) {
  const kinds = Object.entries(due.counts).map(([kind, each]) => `${number(each)} ${words(kind)}`);
  return [
    `By kind: ${kinds.join(", ")}`,
    due.owed_since === null ? "." : since(due.owed_since, "; something has been due for "),
  ];
}

function put(answer) {
  table ??= new Table($("due-table"), "Writes that the controller owes", COLUMNS);
  table.update(answer.writes.map((row) => ({ ...row, key: `${row.topic}/${row.partition}` })));
  show($("due-table"), answer.writes.length > 0);
  const unlisted = answer.partition_count - answer.writes.length;
  setText($("due-title"), unlisted > 0 ? `Writes due (${count(unlisted, "more partition")})` : "Writes due");
}

function expected({ leader, isr }) {
  if (leader === -1) return "no leader";
  const parts = [leader === null ? null : `leader ${leader}`, isr === null ? null : `ISR ${list(isr)}`];
  return parts.filter(Boolean).join(", ") || "not known";
}
