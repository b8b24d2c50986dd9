// The newest events, one line each.

import { $, at, el, setChildren } from "./dom.js";
import { clusterPath } from "./ask.js";
import { count, kindWords, number, words } from "./format.js";

const NOT_SHOWN = new Set([
  "kind",
  "at",
  "id",
  "partitions",
  "partition_count",
  "controller_epoch",
  "from_broker",
  "to_broker",
  "vacancy_ms",
  "vacancy_min_ms",
  "vacancy_max_ms",
  "elected_at",
  "held_until",
  "of_quorum",
  "command",
  "threshold_percentage",
  "port",
]);

const ELECTED_BY = {
  kcm: "by kcm elect",
  rebalance: "by the controller itself (inferred)",
  znode: "by request under /admin",
  other: "by others",
};

export function showEvents(picture) {
  setChildren(
    $("events-list"),
    picture.events.map((event) => el("li", {}, at(event.at), ` ${eventWords(event)}`)),
  );
  if (picture.events.length === 0)
    setChildren($("events-list"), [el("li", { class: "muted" }, "None is kept.")]);
  $("events-more").href = clusterPath(picture.name, "/events?limit=1000");
}

function eventWords(event) {
  if (event.kind === "IncidentClosed")
    return `Incident ${event.incident.number} closed: ${event.incident.summary}`;
  if (event.kind === "RecommendationGraded") return graded(event.grade);
  if (event.kind === "IncidentOpened")
    return `Incident ${event.number} opened: ${kindWords(event.opened_by).toLowerCase()}`;
  const parts = [`${kindWords(event.kind)}${move(event)}`];
  for (const [name, value] of Object.entries(event)) {
    if (!NOT_SHOWN.has(name) && value !== null && value !== undefined)
      parts.push(...field(name, value));
  }
  if (event.partition_count !== undefined) parts.push(partitions(event));
  else if (typeof event.partitions === "number") parts.push(count(event.partitions, "partition"));
  return parts.join(", ");
}

// Who elected, as text; empty where nobody did.
export function electedBy(grade) {
  const who = Object.entries(grade.elected_by ?? {}).map(
    ([origin, times]) => `${number(times)} ${ELECTED_BY[origin] ?? origin}`,
  );
  return who.length > 0 ? `; elected ${who.join(", ")}` : "";
}

function graded(grade) {
  const back =
    grade.outcome === "withdrawn"
      ? ""
      : `: ${count(grade.regained, "leader")} regained of ${grade.watched}`;
  return `Recommendation ${grade.number} ${grade.outcome}${back}${electedBy(grade)}`;
}

function field(name, value) {
  if (Array.isArray(value))
    return value.every((each) => typeof each !== "object")
      ? [`${words(name)} ${value.join("+")}`]
      : [];
  if (typeof value === "object") return [];
  if (typeof value === "boolean") return [`${words(name)}: ${value ? "yes" : "no"}`];
  return [
    `${words(name)} ${name === "election" || name === "cause" || name === "end" ? words(String(value)) : value}`,
  ];
}

function move(event) {
  const { from_broker: from, to_broker: to } = event;
  const what = event.of_quorum ? "node" : "broker";
  if (from === undefined && to === undefined) return "";
  if (to === undefined) return ` from ${what} ${from}`;
  return from === undefined ? ` to ${what} ${to}` : `, ${what} ${from} → ${to}`;
}

function partitions(event) {
  const named = event.partitions.map((each) => `${each.topic}-${each.partition}`).join(", ");
  const more = event.partition_count > event.partitions.length ? ", …" : "";
  return `${count(event.partition_count, "partition")}${named ? `: ${named}${more}` : ""}`;
}
