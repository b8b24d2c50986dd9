// The controller, since when, and its predecessors: as text and as a timeline.

import { $, at, el, setChildren, setText, show, since } from "./dom.js";
import { clock, count, duration, full, now, number, words } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const SPANS_MS = [10, 30, 70, 180, 360, 720, 1440, 4320, 10080].map((minutes) => minutes * 60_000);
const CHANGES_IN_STRIP = 8; // the timeline shows the shortest span that holds so many, so that flapping changes can be told apart
const CHANGES_LISTED = 20;
const LABEL_NEEDS = 3; // percent of the timeline that a broker's id needs

let shown = null;

export function showController(picture) {
  shown = picture;
  const controller = picture.controller;
  $("controller-who").dataset.severity = controller.id < 0 ? "critical" : "none";
  setChildren($("controller-who"), who(controller, picture.brokers));
  setChildren($("controller-facts"), facts(picture));
  const changes = picture.elections;
  setText(
    $("elections-summary"),
    `Changes of the controller: ${count(controller.elections, "election")} counted`,
  );
  setChildren($("elections-list"), changes.slice(0, CHANGES_LISTED).map(change));
  show($("elections"), changes.length > 0);
  strip();
}

function who(controller, brokers) {
  if (controller.id < 0) {
    return [
      "Nobody",
      controller.vacant_since === null
        ? ""
        : el("small", {}, since(controller.vacant_since, " for ")),
    ];
  }
  const host = brokers.find((broker) => broker.id === controller.id)?.host;
  return [
    `Broker ${controller.id}`,
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
  const { controller, pending_writes: pending } = picture;
  const failover = FAILOVER[controller.failover] ?? controller.failover;
  const took =
    controller.failover_last_ms === null
      ? ""
      : `, the last took ${duration(controller.failover_last_ms)}`;
  return [
    fact("Epoch", controller.epoch === null ? "not known" : number(controller.epoch)),
    fact("Work", WORK[pending.health]),
    fact("Failover work", `${failover}${took}`),
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
    controller.migrating_to_kraft ? fact("Migration", "to KRaft, under way") : null,
  ].filter(Boolean);
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
  if (event.kind === "ControllerVacated")
    return el("li", {}, at(event.at), ` /controller is gone: it was broker ${event.from_broker}'s`);
  const from = event.from_broker < 0 ? "nobody" : event.from_broker;
  const parts = [`broker ${from} → ${event.to_broker}`];
  if (event.epoch !== null && event.epoch !== undefined) parts.push(`epoch ${event.epoch}`);
  if (event.vacancy_max_ms !== undefined && event.vacancy_max_ms !== null)
    parts.push(`nobody for ${vacancy(event.vacancy_min_ms ?? null, event.vacancy_max_ms)}`);
  if (event.cause && event.cause !== "unknown") parts.push(words(event.cause));
  if (event.missed_elections) parts.push(`${count(event.missed_elections, "election")} not seen`);
  return el("li", {}, at(event.at), ` ${parts.join(", ")}`);
}

// Who held /controller from when to when, oldest first; null: nobody.
function periods(changes, controller, until) {
  const found = [];
  for (const event of [...changes].reverse()) {
    const last = found.at(-1);
    if (last && last.to === null) last.to = event.at;
    if (event.kind === "ControllerVacated") {
      if (!last) found.push({ id: event.from_broker, from: null, to: event.at });
      found.push({ id: null, from: event.at, to: null });
    } else {
      if (!last && event.from_broker >= 0)
        found.push({ id: event.from_broker, from: null, to: event.at - (event.vacancy_ms ?? 0) });
      found.push({ id: event.to_broker, from: event.at, to: null });
    }
  }
  if (found.length === 0 && controller.id >= 0)
    found.push({ id: controller.id, from: controller.elected_at, to: null });
  if (found.length > 0 && found.at(-1).to === null) found.at(-1).to = until;
  return found;
}

function strip() {
  if (shown === null) return;
  const until = now();
  const changes = shown.elections;
  const held = periods(changes, shown.controller, until);
  show($("timeline"), held.length > 0);
  if (held.length === 0) return;
  const inSight =
    changes.slice(0, CHANGES_IN_STRIP).at(-1)?.at ?? shown.controller.elected_at ?? until;
  const span = SPANS_MS.find((each) => until - inSight < each * 0.95) ?? SPANS_MS.at(-1);
  const from = until - span;
  const drawn = draw(held, from, until);
  const place = $("timeline-strip");
  place.replaceChildren(drawn);
  setText($("timeline-from"), clock(from));
  const elections = changes.filter(
    (event) => event.kind === "ControllerElected" && event.at >= from,
  ).length;
  setText(
    $("timeline-caption"),
    `The last ${duration(span).replace(" 0 s", "").replace(" 0 min", "")}: ${elections === 0 ? "no election" : count(elections, "election")}`,
  );
}

function draw(held, from, until) {
  const svg = svgEl("svg", {
    viewBox: "0 0 100 10",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
    focusable: "false",
  });
  const labels = el("div", { class: "strip-labels", "aria-hidden": "true" });
  for (const period of held) {
    const begin = Math.max(from, period.from ?? from);
    const end = Math.min(until, period.to);
    if (end < from) continue;
    const x = ((begin - from) / (until - from)) * 100;
    // A period too short to be seen is drawn as a hairline, so that it is not missed.
    const width = Math.max(0.35, ((end - begin) / (until - from)) * 100);
    const kind = period.id === null ? "vacant" : `broker shade-${Math.abs(period.id) % 4}`;
    svg.append(svgEl("rect", { x, y: 0, width, height: 10, class: kind }));
    if (period.id !== null && (period.from ?? 0) >= from)
      svg.append(
        svgEl("rect", { x: Math.max(0, x - 0.1), y: 0, width: 0.25, height: 10, class: "edge" }),
      );
    if (width < LABEL_NEEDS) continue;
    const label = el(
      "span",
      { title: period.from === null ? "" : `since ${full(period.from)}` },
      period.id === null ? "nobody" : String(period.id),
    );
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
