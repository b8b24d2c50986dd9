// ISRs that shrink again and again, with the broker to blame. The head of the page says whether that is a problem.

import { $, el, setChildren, setText, show, Table } from "./dom.js";
import { ask, Asking, clusterPath, stateOf } from "./ask.js";
import { clock, count, duration, list } from "./format.js";

const LISTED = 20;
const AGAIN_AFTER_MS = 60_000; // the window moves even while nothing changes

let cluster = null;
let table = null;
let openedAt = null;

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
  const times = Math.floor((performance.now() - openedAt) / AGAIN_AFTER_MS);
  asking.follow([stateOf(picture), times], picture.as_of);
}

function put(answer) {
  const window = duration(answer.until - answer.since).replace(" 0 min", "");
  setText(
    $("flapping-lead"),
    answer.partition_count === 0
      ? `No ISR shrank ${answer.times} times or more in the last ${window}.`
      : `${count(answer.partition_count, "ISR")} shrank ${answer.times} times or more in the last ${window}.`,
  );
  table ??= new Table($("flapping-table"), "Partitions whose ISR flaps", COLUMNS);
  table.update(
    answer.partitions.map((row) => ({ ...row, key: `${row.topic}/${row.partition}` })),
  );
  show($("flapping-table"), answer.partitions.length > 0);
  setChildren(
    $("flapping-notes"),
    notes(answer).map((text) => el("li", {}, text)),
  );
}

function notes(answer) {
  const lines = [];
  if (answer.blames.length > 0) lines.push(`At fault, over all partitions: ${blamed(answer)}.`);
  const unlisted = answer.partition_count - answer.partitions.length;
  if (unlisted > 0) lines.push(`${count(unlisted, "ISR flaps", "ISRs flap")} besides.`);
  if (answer.held_from === null) lines.push("No events are held yet.");
  else if (answer.held_from > answer.since)
    lines.push(`Events are held since ${clock(answer.held_from)}; before that nothing is known.`);
  return lines;
}

// This is an inference: the ISR shows which replica left under which leader, not why.
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
