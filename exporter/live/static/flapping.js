// ISRs that shrink again and again: by broker to blame, with the partitions behind it. The head of the page says whether
// that is a problem.

import { $, setText, show, Table } from "./dom.js";
import { ask, Asking, clusterPath, stateOf } from "./ask.js";
import { clock, count, duration, list, number } from "./format.js";

const LISTED = 20;
const AGAIN_AFTER_MS = 60_000; // the window moves even while nothing changes

let cluster = null;
let brokers = null;
let table = null;
let openedAt = null;

// This is an inference: the ISR shows which replica left under which leader, not why.
const BROKER_COLUMNS = [
  { head: "To blame", row: true, cell: (row) => row.name },
  { head: "Partitions", number: true, cell: (row) => number(row.partition_count) },
  { head: "Left", number: true, cell: (row) => times(row.as_replica) },
  { head: "Others left it", number: true, cell: (row) => times(row.as_leader) },
];
const COLUMNS = [
  { head: "Partition", row: true, cell: (row) => `${row.topic}-${row.partition}` },
  { head: "Shrank", number: true, cell: (row) => count(row.shrinks, "time") },
  { head: "To blame", cell: (row) => blamed(row) },
];

const asking = new Asking(
  async () => {
    const answer = await ask(clusterPath(cluster.name, "/flapping"), { limit: LISTED });
    put(answer);
    return answer.as_of;
  },
  (message) => setText($("flapping-lead"), `Not known now: ${message}.`),
);

export function showFlapping(picture) {
  cluster = picture;
  // By the browser's steady clock: each answer sets the exporter's clock, and a step of that is no elapsed time.
  openedAt ??= performance.now();
  const turn = Math.floor((performance.now() - openedAt) / AGAIN_AFTER_MS);
  asking.follow([stateOf(picture), turn], picture.as_of);
}

function put(answer) {
  const { blames, partitions, partition_count: flapping } = answer;
  setText($("flapping-lead"), lead(answer));
  brokers ??= new Table($("flapping-brokers"), "Brokers to blame for ISRs that flap", BROKER_COLUMNS);
  const rows = blames.map((blame) => ({ ...blame, key: blame.broker, name: `broker ${blame.broker}` }));
  if (answer.unexplained > 0)
    rows.push({
      key: null,
      name: "not known",
      partition_count: answer.unexplained_partition_count,
      as_replica: answer.unexplained,
      as_leader: 0,
    });
  brokers.update(rows);
  show($("flapping-brokers"), rows.length > 0);
  table ??= new Table($("flapping-table"), "Partitions whose ISR flaps", COLUMNS);
  table.update(partitions.map((row) => ({ ...row, key: `${row.topic}/${row.partition}` })));
  const unlisted = flapping - partitions.length;
  const which = unlisted > 0 ? `, the ${partitions.length} worst` : "";
  setText($("flapping-summary"), `${count(flapping, "partition")}${which}`);
  show($("flapping-partitions"), flapping > 0);
}

// What happened before events are held is not known, and not called quiet.
function lead(answer) {
  if (answer.held_from === null) return "Not known: no events are held yet.";
  const isWhole = answer.held_from <= answer.since;
  const when = isWhole
    ? `in the last ${duration(answer.until - answer.since).replace(" 0 min", "")}`
    : `since ${clock(answer.held_from)}, from when on events are held`;
  const flapping = answer.partition_count;
  return `${flapping === 0 ? "No ISR" : count(flapping, "ISR")} shrank ${answer.times} times or more ${when}.`;
}

function times(value) {
  return value === 0 ? "–" : count(value, "time");
}

function blamed({ blames, unexplained }) {
  const parts = blames.map((blame) => {
    const as = [
      blame.as_replica > 0 ? `left ${count(blame.as_replica, "time")}` : null,
      blame.as_leader > 0 ? `others left it ${count(blame.as_leader, "time")}` : null,
    ];
    return `broker ${blame.broker} (${as.filter(Boolean).join(", ")})`;
  });
  if (unexplained > 0) parts.push(`not known ${count(unexplained, "time")}`);
  return list(parts, 3);
}
