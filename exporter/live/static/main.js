// The live page: which cluster it shows, what arrived over the stream, and whether that is still true.

import { $, el, setChildren, setText, show, sign, tick } from "./dom.js";
import { setViewers } from "./ask.js";
import { clock, count, setClock } from "./format.js";
import { Stream } from "./stream.js";
import { showAdvice } from "./advice.js";
import { showBrokers } from "./brokers.js";
import { showController } from "./controller.js";
import { showPendingWrites } from "./pending.js";
import { showEvents } from "./events.js";
import { showFlapping } from "./flapping.js";
import { showFleet } from "./fleet.js";
import { showIncidents } from "./incidents.js";
import { showPartitions } from "./partitions.js";
import { showPipeline, trustText } from "./pipeline.js";
import { doubtAbout, headline, showProblems, wellText } from "./problems.js";

const ANNOUNCE_INTERVAL_MS = 10_000; // so that a screen reader reads what is new and does not speak every second

const asked = new URLSearchParams(location.search).get("cluster");
const seen = {
  fleet: null,
  brokers: [],
  cluster: undefined,
  shown: null,
  beat: null,
  isLost: false,
  lostSince: null,
  retryAt: null,
  announced: "",
  announcedAt: -Infinity,
};
let stream = null;

function start(name) {
  const url = name === null ? "live" : `live?cluster=${encodeURIComponent(name)}`;
  stream = new Stream(url, { beat, fleet, brokers, cluster, live, lost });
}

function fleet(message) {
  seen.fleet = message.clusters;
  render();
}

// The brokers arrive before their cluster, and only when they have changed.
function brokers(message) {
  seen.brokers = message.brokers;
  if (seen.cluster) cluster(seen.cluster);
}

function cluster(message) {
  seen.cluster = message === null ? null : { ...message, brokers: seen.brokers };
  render();
}

function beat(message) {
  setClock(message.now);
  setViewers(message.viewers);
  // The exporter was upgraded: this page is out of date.
  if (seen.beat !== null && seen.beat.page !== message.page) location.reload();
  seen.beat = message;
  render();
}

function live() {
  seen.isLost = false;
  seen.lostSince = null;
  document.body.dataset.live = "yes";
  show($("not-live"), false);
  $("link").dataset.state = "live";
  setChildren($("link"), [sign("none"), " live"]);
}

function lost({ since, retryAt, reason }) {
  seen.isLost = true;
  seen.lostSince = since;
  seen.retryAt = retryAt;
  document.body.dataset.live = "no";
  $("link").dataset.state = "lost";
  setChildren($("link"), [sign("critical"), " not live"]);
  setText(
    $("not-live-text"),
    `${since === null ? "Not connected" : `Not live since ${clock(since)}`}: ${reason}.`,
  );
  countDown();
  show($("not-live"), true);
  render();
  title();
}

// The time of the next try is not part of the alert that a screen reader speaks.
function countDown() {
  if (!seen.isLost) return;
  const left =
    seen.retryAt === null ? null : Math.max(0, Math.ceil((seen.retryAt - Date.now()) / 1000));
  const old = seen.fleet === null ? "" : "The figures below show the state of that time. ";
  setText(
    $("not-live-more"),
    left === null ? old : `${old}Trying again${left > 0 ? ` in ${left} s` : ""}.`,
  );
}

function render() {
  if (seen.beat === null || seen.fleet === null) return;
  const reading = seen.beat.reasons;
  // With a single cluster there is nothing to choose: the stream sends it without being asked.
  const isFleet = asked === null && seen.fleet.length !== 1;
  show($("fleet"), isFleet && seen.fleet.length > 0);
  show($("cluster"), !isFleet && Boolean(seen.cluster));
  const isUnready = isFleet && (seen.fleet.length === 0 || reading.length > 0);
  show($("waiting"), isUnready || (!isFleet && !seen.cluster));
  setText($("waiting"), waitingText(reading));
  if (isFleet) showFleet(seen.fleet, doubt());
  else if (seen.cluster) showCluster(seen.cluster, seen.beat);
  title();
  announce();
}

function waitingText(reasons) {
  if (reasons.length > 0) return `The exporter is not ready: ${reasons.join("; ")}.`;
  if (asked === null) return "No cluster is watched yet: start a watcher (kcm watch).";
  const known = seen.fleet.map((row) => row.name).join(", ") || "none yet";
  return seen.cluster === null
    ? `No cluster is called ${asked}. Known: ${known}.`
    : "Waiting for the figures.";
}

function doubt() {
  return doubtAbout(seen.beat, seen.lostSince);
}

function showCluster(picture, beat) {
  setText($("cluster-name"), picture.name);
  showOthers(picture.name);
  showProblems(picture, doubt());
  if (beat.trust) {
    showTrust(picture, beat);
    showPipeline(picture, beat.trust);
  }
  showBrokers(picture, doubt());
  if (picture === seen.shown) return;
  seen.shown = picture;
  showController(picture);
  showPendingWrites(picture);
  showPartitions(picture);
  showFlapping(picture);
  showAdvice(picture);
  showIncidents(picture);
  showEvents(picture);
}

const TRUST_SIGNS = {
  live: "none",
  unready: "warning",
  clocks_disagree: "warning",
  incomplete: "warning",
  divergent: "warning",
};

function showTrust(picture, { trust, reasons }) {
  // An exporter that has stopped reading does not know yet that its figures become stale.
  const status = trust.status === "live" && reasons.length > 0 ? "unready" : trust.status;
  $("trust").dataset.status = status;
  const text = trustText(trust, picture, reasons);
  setChildren(
    $("trust"),
    seen.isLost
      ? [sign("unknown"), ` Not known now. What was known then: ${text}`]
      : [sign(TRUST_SIGNS[status] ?? "critical"), ` ${text}`],
  );
}

function showOthers(name) {
  const others = seen.fleet.filter((row) => row.name !== name);
  const bad = others.filter((row) => row.severity !== "none");
  if (others.length === 0) return setChildren($("other-clusters"), []);
  const links = bad
    .slice(0, 3)
    .map((row) =>
      el(
        "a",
        { href: `?cluster=${encodeURIComponent(row.name)}` },
        sign(row.severity),
        ` ${row.name}`,
      ),
    );
  const all = el(
    "a",
    { href: "./" },
    `All ${count(seen.fleet.length, "cluster")}${bad.length ? `, ${bad.length} of the others with trouble` : ""}`,
  );
  return setChildren($("other-clusters"), [...links, all]);
}

function summary() {
  if (asked === null && seen.fleet.length !== 1) return fleetSummary();
  if (!seen.cluster) return `${asked ?? "the cluster"}: not known`;
  return headline(seen.cluster, doubt());
}

function fleetSummary() {
  const clusters = count(seen.fleet.length, "cluster");
  const critical = seen.fleet.filter((row) => row.severity === "critical").length;
  const warned = seen.fleet.filter((row) => row.severity === "warning").length;
  if (critical + warned === 0) return `${clusters}, ${wellText(doubt())}`;
  return `${critical} critical, ${warned} with warnings, of ${clusters}`;
}

function title() {
  const prefix = document.body.dataset.live === "no" ? "Not live · " : "";
  const name = seen.fleet === null || seen.beat === null ? "Kafka Controller Monitor" : summary();
  const text = `${prefix}${name}`;
  if (document.title !== text) document.title = text;
}

function announce() {
  if (seen.isLost) return; // announced by a separate alert
  const text = summary();
  if (text === seen.announced || performance.now() - seen.announcedAt < ANNOUNCE_INTERVAL_MS) return;
  // The first one only repeats what the page shows.
  if (seen.announced !== "") setText($("announcement"), text);
  seen.announced = text;
  seen.announcedAt = performance.now();
}

$("try-now").addEventListener("click", () => stream.open());
setInterval(() => {
  countDown();
  // Ages stop counting while the figures are not live.
  if (document.body.dataset.live === "yes") {
    tick();
    announceLate();
  }
}, 1000);

function announceLate() {
  if (seen.beat !== null && seen.fleet !== null) announce();
}

const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
setText($("zone"), `Times are in ${timeZone}, by the exporter's clock.`);
start(asked);
