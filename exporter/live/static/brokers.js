// The brokers: how much each leads, which lead too little, and which may be stopped.

import { $, el, setText, since, Table } from "./dom.js";
import { count, number, percent } from "./format.js";
import { rehearseButton, showRehearsal } from "./rehearsal.js";

let table = null;

const COLUMNS = [
  { head: "Broker", row: true, cell: name },
  { head: "State", cell: state },
  { head: "Rack", cell: (b) => b.rack ?? "–" },
  { head: "Leaders", number: true, cell: leaders },
  { head: "Replicas", number: true, cell: (b) => number(b.replicas) },
  {
    head: "In sync",
    number: true,
    cell: (b) =>
      b.in_isr !== null && b.in_isr < b.replicas ? strong(number(b.in_isr)) : number(b.in_isr),
  },
  { head: "Imbalance", number: true, cell: imbalance },
  { head: "Safe to stop", cell: safety },
  { head: "Rehearsal", cell: (b) => (b.canRehearse ? rehearseButton(b.id) : "–") },
];

function name(broker) {
  const parts = [String(broker.id)];
  if (broker.host) parts.push(el("small", {}, ` ${broker.host}`));
  if (broker.isController) parts.push(el("span", { class: "tag" }, "controller"));
  return parts;
}

function state(broker) {
  if (broker.live === null) return [el("span", { class: "muted" }, "not known")];
  if (broker.live) return [broker.since === null ? "registered" : since(broker.since, "up ")];
  const what = broker.fenced ? "fenced" : "gone";
  if (broker.replicas === 0) return [el("span", { class: "muted" }, `${what}, and holds nothing`)];
  return [
    el("strong", {}, `✖ ${what}`),
    broker.since === null ? "" : since(broker.since, " for "),
  ];
}

function leaders(broker) {
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, el("span", {}));
  bar.firstChild.style.width = `${broker.share}%`;
  return el("span", { class: "leaders" }, bar, number(broker.leaders));
}

function imbalance(broker) {
  if (broker.imbalance_ratio === null) return "not known";
  if (!broker.preferred) return "–";
  const text = percent(broker.imbalance_ratio);
  if (!broker.preferred_not_led) return text;
  const detail = `${number(broker.preferred_not_led)} of ${number(broker.preferred)} not led`;
  const shown = broker.isAbove ? el("strong", { class: "warning" }, `▲ ${text}`) : text;
  return [shown, el("small", {}, ` ${detail}`)];
}

function safety(broker) {
  const safe = broker.safe_to_stop;
  if (broker.live === false) return "–";
  if (safe.safe) return "✔ yes";
  if (safe.safe === null)
    return [strong("? not known now"), el("small", {}, safe.why ? `: ${safe.why}` : "")];
  const parts = [];
  if (safe.offline) parts.push(`${number(safe.offline)} would be offline`);
  if (safe.stranded) parts.push(`${number(safe.stranded)} could not come back`);
  if (safe.unclean) parts.push(`${number(safe.unclean)} would get an unclean leader`);
  if (safe.under_min_isr) parts.push(`${number(safe.under_min_isr)} would be under min ISR`);
  if (safe.why) parts.push(safe.why);
  const why = parts.join(", ") || "partitions would break";
  return [el("strong", { class: "warning" }, "✖ no"), el("small", {}, `: ${why}`)];
}

// A yes from figures in doubt is shown as not known; what would break according to them is shown all the same.
function doubted(safe) {
  return safe.safe
    ? { ...safe, safe: null, why: "yes by these figures, which are in doubt" }
    : safe;
}

function stoppable(live) {
  const unsafe = live.filter((broker) => broker.safe_to_stop.safe === false).length;
  const unknown = live.filter((broker) => broker.safe_to_stop.safe === null).length;
  if (live.length === 0) return "";
  if (unsafe + unknown === 0) return "; any one of them may be stopped";
  const stuck = unsafe ? `; ${unsafe} may not be stopped now` : "";
  const whose = unknown === live.length ? "they" : `${unknown} of them`;
  return unknown ? `${stuck}; whether ${whose} may be stopped is not known now` : stuck;
}

function strong(text) {
  return el("strong", { class: "warning" }, text);
}

export function showBrokers(picture, doubt) {
  showRehearsal(picture);
  table ??= new Table(
    $("broker-table"),
    "Brokers: who leads how much, and who may be stopped",
    COLUMNS,
  );
  const brokers =
    doubt === null
      ? picture.brokers
      : picture.brokers.map((each) => ({ ...each, safe_to_stop: doubted(each.safe_to_stop) }));
  const most = Math.max(1, ...brokers.map((broker) => broker.leaders));
  const { rebalance } = picture;
  // A KRaft controller has no threshold: it balances each partition.
  const threshold = rebalance ? (rebalance.threshold_percentage ?? 0) / 100 : 1;
  const live = brokers.filter((broker) => broker.live);
  const gone = brokers.filter((broker) => broker.live === false && broker.replicas).length;
  const isZookeeper = !picture.log.absent.includes("session");
  const [are, others] = isZookeeper ? ["registered", "gone"] : ["active", "fenced or gone"];
  setText(
    $("brokers-lead"),
    picture.brokers_live === null
      ? `Which brokers are ${are} is not known.`
      : `${count(live.length, "broker")} ${are}${gone ? `, ${gone} ${others}` : ""}${stoppable(live)}.`,
  );
  table.update(
    brokers.map((broker) => ({
      ...broker,
      key: broker.id,
      canRehearse: broker.live && isZookeeper,
      share: Math.round((broker.leaders / most) * 100),
      isController: broker.id === picture.controller?.id,
      isAbove: broker.imbalance_ratio !== null && broker.imbalance_ratio > threshold,
      class: broker.live === false && broker.replicas ? "is-critical" : "",
    })),
  );
}
