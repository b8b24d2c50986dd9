// The controller, since when, and its predecessors: as text and as a timeline.

import { $, at, el, setChildren, setText, show, since } from "./dom.js";
import { clock, count, duration, full, now, number, words } from "./format.js";
import { electionsWithin, timeline } from "./timeline.js";

const SVG = "http://www.w3.org/2000/svg";
const WINDOWS_MIN = [10, 60, 360]; // those of kafka_controller_recent_elections
const CHANGES_LISTED = 20;
const LABEL_NEEDS = 3; // percent of the timeline that a broker's id needs
const WORDS_NEED = 12; // percent that "not seen" needs

let shown = null;
let seenUntil = null; // up to when the figures follow ZooKeeper; null: now

export function showController(picture) {
  shown = picture;
  const controller = picture.controller;
  $("controller-who").dataset.severity =
    controller === null ? "unknown" : controller.id < 0 ? "critical" : "none";
  setChildren($("controller-who"), who(controller, picture));
  const changes = picture.elections;
  setChildren($("elections-list"), changes.slice(0, CHANGES_LISTED).map(change));
  show($("elections"), changes.length > 0);
  strip();
}

// Figures that do not follow ZooKeeper say nothing about who is the controller since they stopped.
export function showUntil(at) {
  if (at === seenUntil) return;
  seenUntil = at;
  strip();
}

// What a controller's id names: in a KRaft cluster it may be of no broker.
function node(id, { brokers, quorum }) {
  const isBroker = quorum === null || brokers.some((broker) => broker.id === id);
  return `${isBroker ? "broker" : "node"} ${id}`;
}

function who(controller, picture) {
  if (controller === null) return ["Not known"];
  if (controller.id < 0) {
    return [
      "Nobody",
      controller.vacant_since === null
        ? ""
        : el("small", {}, since(controller.vacant_since, " for ")),
    ];
  }
  const name = node(controller.id, picture);
  const host = picture.brokers.find((broker) => broker.id === controller.id)?.host;
  return [
    name[0].toUpperCase() + name.slice(1),
    el(
      "small",
      {},
      host ? ` ${host}` : "",
      controller.elected_at === null ? "" : since(controller.elected_at, ", for "),
    ),
  ];
}

const WORK = {
  not_needed: "no write is pending",
  working: "at work",
  slow: "slow: writes have been pending for long",
  zombie: "does not do its work",
  unknown: "not known now",
};
const FAILOVER = {
  not_needed: "none was needed",
  under_way: "under way",
  done: "done",
  unknown: "not seen",
};

function facts(picture) {
  const { controller, pending_writes: pending, log, migration } = picture;
  if (controller === null) return [kraft(log, migration), stoppable(picture)].filter(Boolean);
  const hasWork = !log.absent.includes("pending_writes");
  const failover = FAILOVER[controller.failover] ?? controller.failover;
  const took =
    controller.failover_last_ms === null
      ? ""
      : `, the last took ${duration(controller.failover_last_ms)}`;
  return [
    fact("Epoch", controller.epoch === null ? "not known" : number(controller.epoch)),
    fact("Elections", elections(picture)),
    hasWork ? fact("Work", WORK[pending.health]) : null,
    hasWork ? fact("Failover work", `${failover}${took}`) : null,
    fact(
      "Last time without a controller",
      vacancy(controller.vacancy_last_min_ms, controller.vacancy_last_max_ms),
    ),
    controller.missed_elections
      ? fact("Elections not seen", `${number(controller.missed_elections)}, counted by the epoch`)
      : null,
    controller.stale_writes
      ? fact("Writes under an old epoch", number(controller.stale_writes))
      : null,
    kraft(log, migration),
    stoppable(picture),
  ].filter(Boolean);
}

// Which controllers may be stopped; of figures that are not of now only what would break is shown.
function stoppable({ controllers_if_lost: controllers }) {
  if (controllers.length === 0) return null;
  const texts = controllers.map(({ id, safe, text }) => {
    if (safe === false) return `${id} ✖ no: ${text}`;
    return safe && seenUntil === null ? `${id} ✔ yes` : `${id} not known${safe ? " now" : `: ${text}`}`;
  });
  return fact("Safe to stop", texts.join("; "));
}

function kraft(log, migration) {
  if (log.kraft_since === null) return null;
  const copy =
    migration === null
      ? "ZooKeeper is a copy"
      : `ZooKeeper is a copy up to offset ${migration.metadata_offset} of epoch ${migration.metadata_epoch}, written ${clock(migration.written_at)}`;
  return fact("KRaft", `a KRaft controller runs the cluster since ${clock(log.kraft_since)}; ${copy}`);
}

function elections(picture) {
  const until = now();
  const counts = WINDOWS_MIN.map((min) => [electionsWithin(picture, min * 60_000, until), min]);
  if (counts[0][0] === null) return "not known";
  const inWords = counts.map(([times, min]) => `${number(times)} in ${spanText(min * 60_000)}`);
  const since = picture.counters_since;
  const isYoung = until - since < WINDOWS_MIN.at(-1) * 60_000;
  return `${inWords.join(", ")}${isYoung ? `; counted since ${clock(since)}` : ""}`;
}

function fact(name, text) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, text));
}

function vacancy(least, most) {
  if (most === null) {
    return least === null ? "not seen" : `${duration(least)} at least`;
  }
  return least === null || least === most
    ? duration(most)
    : `${duration(least)} to ${duration(most)}`;
}

function change(event) {
  if (event.kind === "Baseline") return el("li", {}, at(event.at), ` counting began${found(event)}`);
  if (event.kind === "ControllerVacated")
    return el("li", {}, at(event.at), vacated(event));
  const from = event.from_broker < 0 ? "nobody" : event.from_broker;
  const parts = [`${shown.quorum === null ? "broker" : "node"} ${from} → ${event.to_broker}`];
  if (event.epoch !== null && event.epoch !== undefined) parts.push(`epoch ${event.epoch}`);
  if (event.vacancy_max_ms !== undefined && event.vacancy_max_ms !== null)
    parts.push(`nobody for ${vacancy(event.vacancy_min_ms ?? null, event.vacancy_max_ms)}`);
  if (event.cause && event.cause !== "unknown") parts.push(words(event.cause));
  if (event.missed_elections) parts.push(`${count(event.missed_elections, "election")} not seen`);
  return el("li", {}, at(event.at), ` ${parts.join(", ")}`);
}

function vacated({ from_broker: id }) {
  return shown.quorum === null ? ` /controller is gone: it was broker ${id}'s` : ` no controller: it was node ${id}`;
}

function found({ controller, elected_at: electedAt }) {
  if (controller < 0) return "";
  const when = electedAt === null || electedAt === undefined ? "" : ` since ${clock(electedAt)}`;
  return `: ${node(controller, shown)} was the controller${when}`;
}

function strip() {
  if (shown === null) return;
  setChildren($("controller-facts"), facts(shown));
  const until = now();
  const drawn = timeline(shown, until, Math.min(until, seenUntil ?? until));
  show($("timeline"), drawn !== null);
  if (drawn === null) return;
  const { span, elections: times, pieces } = drawn;
  $("timeline-strip").replaceChildren(draw(pieces, until - span, until));
  setText($("timeline-from"), clock(until - span));
  const [first, last] = [pieces[0], pieces.at(-1)];
  const parts = [
    `The last ${spanText(span)}: ${times === 0 ? "no election" : count(times, "election")}.`,
    first.id === undefined ? `Not seen before ${clock(first.to)}.` : "",
    last.id === undefined ? `Not seen since ${clock(last.from)}.` : "",
  ];
  setText($("timeline-caption"), parts.filter(Boolean).join(" "));
}

function spanText(ms) {
  return duration(ms).replace(" 0 s", "").replace(" 0 min", "").replace(" 0 h", "");
}

function draw(pieces, from, until) {
  const svg = svgEl("svg", {
    viewBox: "0 0 100 10",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
    focusable: "false",
  });
  const labels = el("div", { class: "strip-labels", "aria-hidden": "true" });
  for (const { id, from: begin, to } of pieces) {
    const isSeen = id !== undefined;
    const x = ((begin - from) / (until - from)) * 100;
    // A period too short to be seen is drawn as a hairline, so that it is not missed.
    const width = Math.max(isSeen ? 0.35 : 0, ((to - begin) / (until - from)) * 100);
    if (isSeen) {
      const kind = id === null ? "vacant" : `broker shade-${Math.abs(id) % 4}`;
      svg.append(svgEl("rect", { x, y: 0, width, height: 10, class: kind }));
    }
    if (id !== null && isSeen && begin > from)
      svg.append(
        svgEl("rect", { x: Math.max(0, x - 0.1), y: 0, width: 0.25, height: 10, class: "edge" }),
      );
    if (width < (isSeen ? LABEL_NEEDS : WORDS_NEED)) continue;
    const text = isSeen ? (id === null ? "nobody" : String(id)) : "not seen";
    const label = el("span", { title: `since ${full(begin)}`, class: isSeen ? null : "unseen" }, text);
    label.style.left = `${x}%`;
    label.style.width = `${width}%`;
    labels.append(label);
  }
  return el("div", {}, svg, labels);
}

function svgEl(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

setInterval(() => document.body.dataset.live === "yes" && strip(), 5000);
