// The partitions: how many meet each condition, and which, in pages. The exporter searches all of them. A page is
// requested when a person wants another, and when something in ZooKeeper has changed, not with each sign of life.

import { $, el, setChildren, setText, show, Table } from "./dom.js";
import { ask, Asking, clusterPath, stateOf } from "./ask.js";
import { count, number, words } from "./format.js";

const ROWS = 50;
const TYPING_MS = 250;

// name in the API, name in the counts, text, severity if any is a problem
const CONDITIONS = [
  ["offline", "offline", "Offline", "critical"],
  ["under-min-isr", "under_min_isr", "Under min ISR", "critical"],
  ["under-replicated", "under_replicated", "Under-replicated", "warning"],
  ["at-min-isr", "at_min_isr", "At min ISR", null],
  ["not-preferred", "preferred_imbalance", "Not led by the preferred replica", null],
  ["electable", "preferred_electable", "Electable", null],
  ["reassigning", "reassigning", "Reassigning", null],
  ["without-state", "without_state", "Without a state", "warning"],
  ["single-replica", "replication_factor_1", "With a single replica", null],
  ["min-isr-blocking", "min_isr_blocks", "Blocking each restart (min ISR)", null],
  ["on-gone-brokers", null, "On brokers that are gone", null],
  ["one-rack", null, "With all replicas in one rack", null],
  ["deleting", null, "Of topics being deleted", null],
];

const OF_ZOOKEEPER = new Set(["without-state", "deleting"]); // a KRaft controller decides and writes at once

const TILES = 7; // tiles that are always shown; the others are shown while they are a problem

const COLUMNS = [
  { head: "Partition", row: true, cell: (p) => `${p.topic}-${p.partition}` },
  {
    head: "State",
    cell: (p) => {
      const well = p.unknown.includes("offline") ? "not known" : "well";
      const state = p.conditions.length ? p.conditions.map(words).join(", ") : well;
      if (p.unreadable && p.leader === null) return "not known: its znode cannot be read";
      return p.unreadable ? `${state}: the last good value, its znode cannot be read` : state;
    },
  },
  { head: "Leader", cell: leader },
  { head: "In sync", cell: inSync },
  { head: "Missing", cell: missing },
  { head: "Replicas", cell: replicas },
  { head: "Min ISR", number: true, cell: (p) => number(p.min_isr) },
];

const table = new Table($("partition-table"), "Partitions, by topic and number", COLUMNS);
const initial = new URLSearchParams(location.search);
const wanted = {
  filter: initial.get("filter"),
  contains: initial.get("contains") ?? "",
  broker: initial.get("broker") ?? "",
  after: null,
  chosen: initial.has("filter"),
};
let cluster = null;
let search = 0;
let next = null;

function leader(p) {
  if (p.leader === null) return p.unreadable ? "not known" : "no state yet";
  if (p.leader < 0) return el("strong", {}, "✖ nobody");
  if (p.conditions.includes("offline")) return el("strong", {}, `✖ ${p.leader}, gone`);
  return p.leader === p.preferred ? String(p.leader) : `${p.leader}, preferred is ${p.preferred}`;
}

// A leaderless partition keeps its last member in the ISR, whether that broker is live or not.
function inSync(p) {
  if (p.isr === null) return "–";
  return p.isr.map((id) => (p.gone.includes(id) ? `${id} (gone)` : `${id}`)).join(", ") || "nobody";
}

function missing(p) {
  if (p.isr === null) return "–";
  const out = p.replicas.filter((id) => !p.isr.includes(id) && !p.adding.includes(id));
  return out.length ? el("strong", {}, out.join(", ")) : "–";
}

function replicas(p) {
  const moves = [
    p.adding.length ? `adding ${p.adding.join(", ")}` : "",
    p.removing.length ? `removing ${p.removing.join(", ")}` : "",
  ];
  const moving = moves.filter(Boolean).join("; ");
  return `${p.replicas.join(", ")}${moving ? ` (${moving})` : ""}`;
}

export function showPartitions(picture) {
  cluster = picture;
  const { counts } = picture;
  setText(
    $("totals"),
    `${count(counts.partitions, "partition")} in ${count(counts.topics, "topic")}${counts.deleting_topics ? `, ${count(counts.deleting_topics, "topic")} being deleted` : ""}.`,
  );
  const filter = wanted.chosen ? wanted.filter : byDefault(counts);
  if (filter !== wanted.filter || counted(filter) === 0) leaveList();
  wanted.filter = filter;
  setChildren($("tiles"), tiles(counts));
  options(counts, picture.brokers);
  asking.follow([wanted.filter, stateOf(picture)], picture.as_of);
}

// The cursor of one list is not valid in another, nor in one that has become empty.
function leaveList() {
  wanted.after = null;
  next = null;
  show($("partition-next"), false);
  show($("partition-first"), false);
}

// The filter until a person chooses one: the worst condition; a search for a name is in all partitions.
function byDefault(counts) {
  if (wanted.contains.trim() || wanted.broker) return "";
  const found = CONDITIONS.find(([, name, , severity]) => severity && counts[name] > 0);
  if (found) return found[0];
  return counts.preferred_imbalance > 0 ? "not-preferred" : "offline";
}

// How many partitions meet a condition; null where that is not counted, or not known.
function counted(filter) {
  const name = CONDITIONS.find(([each]) => each === filter)?.[1];
  return name ? cluster.counts[name] : null;
}

function tiles(counts) {
  const shown = CONDITIONS.filter(
    ([, name, , severity], index) => index < TILES || (severity && counts[name] > 0),
  );
  return shown.map(([filter, name, text, severity]) => {
    const value = counts[name];
    const kind = value > 0 && severity ? severity : "none";
    const symbol = value > 0 && severity ? `${severity === "critical" ? "✖" : "▲"} ` : "";
    return el(
      "li",
      { data: { severity: kind } },
      el(
        "button",
        { type: "button", data: { filter }, "aria-pressed": String(wanted.filter === filter) },
        el("b", {}, `${symbol}${number(value)}`),
        ` ${text}`,
      ),
    );
  });
}

function options(counts, brokers) {
  const all = [el("option", { value: "" }, "All")];
  for (const [filter, name, text] of CONDITIONS) {
    if (OF_ZOOKEEPER.has(filter) && cluster.log.absent.includes("pending_writes")) continue;
    all.push(
      el("option", { value: filter }, name === null ? text : `${text} (${number(counts[name])})`),
    );
  }
  choose($("partition-filter"), all, wanted.filter ?? "");
  const ids = [
    el("option", { value: "" }, "Any"),
    ...brokers.map((b) => el("option", { value: b.id }, String(b.id))),
  ];
  choose($("partition-broker"), ids, wanted.broker);
  if (document.activeElement !== $("partition-topic")) $("partition-topic").value = wanted.contains;
}

// A list that a person has open is not changed.
function choose(select, made, value) {
  if (document.activeElement !== select || select.options.length !== made.length)
    setChildren(select, made);
  if (select.value !== value) select.value = value;
}

const asking = new Asking(
  async () => {
    const mine = ++search;
    const { name } = cluster;
    if (counted(wanted.filter) === 0) {
      put([], null, 0);
      return null;
    }
    const answer = await ask(clusterPath(name, "/search"), {
      text: wanted.contains.trim(),
      filter: wanted.filter,
      broker: wanted.broker,
      limit: ROWS,
      after: wanted.after,
    });
    if (mine !== search) return null;
    put(answer.partitions, answer.next, answer.matched);
    return answer.as_of;
  },
  (message) => setText($("partition-note"), `The partitions cannot be listed now: ${message}.`),
);

function put(found, after, matched) {
  next = after;
  const gone = (p) => (p.isr ?? []).filter((id) => cluster.brokers_live !== null && !cluster.brokers_live.includes(id));
  table.update(
    found.map((p) => ({
      ...p,
      gone: gone(p),
      key: `${p.topic}/${p.partition}`,
      class: p.conditions.includes("offline") ? "is-critical" : "",
    })),
  );
  show($("partition-table"), found.length > 0);
  setText($("partition-note"), note(found, matched));
  show($("partition-next"), after !== null);
  show($("partition-first"), wanted.after !== null);
}

function note(found, matched) {
  const title = CONDITIONS.find(([each]) => each === wanted.filter)?.[2];
  const what = title && title[0].toLowerCase() + title.slice(1);
  const narrowed = [
    wanted.contains ? `name contains “${wanted.contains}”` : "",
    wanted.broker ? `replica on broker ${wanted.broker}` : "",
  ].filter(Boolean);
  const by = [what, ...narrowed].filter(Boolean).join(", ");
  if (found.length === 0) {
    const where = wanted.after === null ? "" : ` after ${wanted.after} any more`;
    return `No partition${where}${by ? `: ${by}` : ""}.`;
  }
  return `${wanted.after === null ? "" : `After ${wanted.after}: `}${number(found.length)} of ${number(matched)} shown${by ? `: ${by}` : ""}.`;
}

function change(changes, { chosen = true } = {}) {
  if (!("after" in changes)) leaveList();
  Object.assign(wanted, { chosen: wanted.chosen || chosen }, changes);
  const query = new URLSearchParams(location.search);
  if (wanted.chosen) query.set("filter", wanted.filter ?? "");
  for (const name of ["contains", "broker"])
    wanted[name] ? query.set(name, wanted[name]) : query.delete(name);
  history.replaceState(null, "", `?${query}${location.hash}`);
  search += 1;
  if (cluster === null) return;
  if (!wanted.chosen) wanted.filter = byDefault(cluster.counts);
  setChildren($("tiles"), tiles(cluster.counts));
  options(cluster.counts, cluster.brokers);
  asking.now();
}

let typing = 0;
$("partition-form").addEventListener("submit", (event) => event.preventDefault());
$("partition-filter").addEventListener("change", (event) => change({ filter: event.target.value }));
$("partition-broker").addEventListener("change", (event) =>
  change({ broker: event.target.value }, { chosen: false }),
);
$("partition-topic").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ contains: event.target.value }, { chosen: false }), TYPING_MS);
});
$("partition-first").addEventListener("click", () => turn(null));
$("partition-next").addEventListener("click", () => turn(next));
$("tiles").addEventListener("click", (event) => pick(event.target.closest("[data-filter]")));
$("problems").addEventListener("click", (event) => pick(event.target.closest("[data-filter]")));

function pick(element) {
  if (element) change({ filter: element.dataset.filter });
}

// The buttons stay in place until the answer arrives, so that they keep the focus.
function turn(after) {
  change({ after });
  $("partition-table").scrollIntoView({ block: "nearest" });
}
