// What the controller has yet to do: requests and topics that wait, and its pending writes, partition by partition;
// hidden while there is nothing.

import { $, el, setText, show, since, setChildren, Table } from "./dom.js";
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
    if (!hasPending()) return null;
    const answer = await ask(clusterPath(cluster.name, "/pending-writes"), { limit: LISTED });
    if (hasPending()) put(answer);
    return answer.as_of;
  },
  (message) => setText($("pending-lead"), `Not known now: ${message}.`),
);

function hasPending() {
  return Object.values(cluster.pending_writes.counts ?? {}).some((each) => each > 0);
}

export function showPendingWrites(picture) {
  cluster = picture;
  const waiting = waits(picture);
  setChildren($("waits-list"), waiting.map((parts) => el("li", {}, ...parts)));
  show($("waits"), waiting.length > 0);
  show($("pending"), hasPending());
  if (!hasPending()) return;
  setChildren($("pending-lead"), lead(picture.pending_writes));
  asking.follow([stateOf(picture), picture.pending_writes.counts], picture.as_of);
}

// What waits, each as the parts of a line; what may not be read is not known.
function waits({ pending, counts, pending_writes: writes, log }) {
  const lines = [];
  const hasWork = !log.absent.includes("pending_writes"); // what a cluster does not have is not unknown
  if (pending.reassign_partitions === null && !log.absent.includes("requests"))
    lines.push(["What tools have requested under /admin is not known."]);
  if (hasWork && counts.deleting_topics === null) lines.push(["Which topics are to be deleted is not known."]);
  if (hasWork && counts.without_state === null) lines.push(["Which partitions have no state is not known."]);
  if (hasWork && writes.counts === null) lines.push(["The controller's pending writes are not known."]);
  if (pending.preferred_election)
    lines.push(["A request for preferred elections (/admin/preferred_replica_election)."]);
  if (pending.reassign_partitions)
    lines.push(["A request for reassignments (/admin/reassign_partitions)."]);
  if (counts.reassigning > 0 || pending.oldest_reassignment_at !== null)
    lines.push([`${count(counts.reassigning, "partition")} being reassigned`, ...oldest(pending.oldest_reassignment_at)]);
  if (counts.deleting_topics > 0 || pending.oldest_deletion_at !== null)
    lines.push([`${count(counts.deleting_topics, "topic")} to be deleted`, ...oldest(pending.oldest_deletion_at)]);
  if (counts.without_state > 0)
    lines.push([`${count(counts.without_state, "partition")} without a state, and so without a leader.`]);
  if (pending.notifications > 0)
    lines.push([`${count(pending.notifications, "notification")} of brokers.`]);
  return lines;
}

function oldest(at) {
  return at === null ? ["."] : [since(at, "; the oldest has waited for ", ".")];
}

function lead(pending) {
  const kinds = Object.entries(pending.counts).map(([kind, each]) => `${number(each)} ${words(kind)}`);
  return [
    `By kind: ${kinds.join(", ")}`,
    pending.pending_since === null ? "." : since(pending.pending_since, "; the oldest has been pending for "),
  ];
}

function put(answer) {
  table ??= new Table($("pending-table"), "Pending writes of the controller", COLUMNS);
  table.update(answer.writes.map((row) => ({ ...row, key: `${row.topic}/${row.partition}` })));
  show($("pending-table"), answer.writes.length > 0);
  const unlisted = answer.partition_count - answer.writes.length;
  setText($("pending-title"), unlisted > 0 ? `Pending writes (${count(unlisted, "more partition")})` : "Pending writes");
}

function expected({ leader, isr }) {
  if (leader === -1) return "no leader";
  const parts = [leader === null ? null : `leader ${leader}`, isr === null ? null : `ISR ${list(isr)}`];
  return parts.filter(Boolean).join(", ") || "not known";
}
