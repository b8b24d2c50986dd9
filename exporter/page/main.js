// The live page: which cluster it shows, what came over the stream, and whether that still stands.

import { $, el, setChildren, setText, show, sign, tick } from "./dom.js";
import { clock, count, setClock } from "./format.js";
import { Stream } from "./stream.js";
import { showAdvice } from "./advice.js";
import { showBrokers } from "./brokers.js";
import { showController } from "./controller.js";
import { showEvents } from "./events.js";
import { showFleet } from "./fleet.js";
import { showIncidents } from "./incidents.js";
import { showPartitions } from "./partitions.js";
import { showPipeline, trustText } from "./pipeline.js";

const ANNOUNCE_EVERY_MS = 10_000; // a screen reader is told what is news, not every second of it

const asked = new URLSearchParams(location.search).get("cluster");
const seen = {
  fleet: null,
  brokers: [],
  cluster: undefined,
  beat: null,
  isLost: false,
  retryAt: null,
  announced: "",
  announcedAt: -Infinity,
};
let stream = null;

function start(name) {
  const url = name === null ? "live" : `live?cluster=${encodeURIComponent(name)}`;
  stream = new Stream(url, { beat, fleet, brokers, cluster, live, lost });
}

function fleet(told) {
  seen.fleet = told.clusters;
  render();
}

// The brokers come before their cluster, and only when they changed.
function brokers(told) {
  seen.brokers = told.brokers;
  if (seen.cluster) cluster(seen.cluster);
}

function cluster(told) {
  seen.cluster = told === null ? null : { ...told, brokers: seen.brokers };
  render();
}

function beat(told) {
  setClock(told.now);
  // The exporter was upgraded: this page is the old one.
  if (seen.beat !== null && seen.beat.page !== told.page) location.reload();
  seen.beat = told;
  render();
}

function live() {
  seen.isLost = false;
  document.body.dataset.live = "yes";
  show($("not-live"), false);
  $("link").dataset.state = "live";
  setChildren($("link"), [sign("none"), " live"]);
}

function lost({ since, retryAt, reason }) {
  seen.isLost = true;
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
  if (seen.cluster && seen.beat?.trust) {
    const then = trustText(seen.beat.trust, seen.cluster, seen.beat.reasons);
    setChildren($("trust"), [sign("unknown"), ` Not known now. What was known then: ${then}`]);
  }
  title();
}

// When it will be tried again is not part of the alert that is read aloud.
function countDown() {
  if (!seen.isLost) return;
  const left =
    seen.retryAt === null ? null : Math.max(0, Math.ceil((seen.retryAt - Date.now()) / 1000));
  const old = seen.fleet === null ? "" : "The figures below are what was true then. ";
  setText(
    $("not-live-more"),
    left === null ? old : `${old}Trying again${left > 0 ? ` in ${left} s` : ""}.`,
  );
}

function render() {
  if (seen.beat === null || seen.fleet === null) return;
  const reading = seen.beat.reasons;
  // Of one cluster alone there is nothing to choose: the stream tells it without being asked.
  const isFleet = asked === null && seen.fleet.length !== 1;
  show($("fleet"), isFleet && seen.fleet.length > 0);
  show($("cluster"), !isFleet && Boolean(seen.cluster));
  const isUnready = isFleet && (seen.fleet.length === 0 || reading.length > 0);
  show($("waiting"), isUnready || (!isFleet && !seen.cluster));
  setText($("waiting"), waitingText(reading));
  if (isFleet) showFleet(seen.fleet);
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

function showCluster(told, beat) {
  setText($("cluster-name"), told.name);
  showOthers(told.name);
  showProblems(told);
  const trust = beat.trust;
  if (trust) {
    // An exporter that cannot read on does not know yet that its figures grow old.
    const status = trust.status === "live" && beat.reasons.length > 0 ? "unready" : trust.status;
    $("trust").dataset.status = status;
    setChildren($("trust"), [
      sign(TRUST_SIGNS[status] ?? "critical"),
      " ",
      trustText(trust, told, beat.reasons),
    ]);
    showPipeline(told, trust);
  }
  showBrokers(told, beat.maintenance);
  if (told === showCluster.shown) return;
  showCluster.shown = told;
  showController(told);
  showPartitions(told);
  showAdvice(told);
  showIncidents(told);
  showEvents(told);
}

const TRUST_SIGNS = {
  live: "none",
  unready: "warning",
  incomplete: "warning",
  divergent: "warning",
};

function showProblems(told) {
  const worst = told.problems[0]?.severity ?? "none";
  $("verdict").dataset.severity = worst;
  const items = told.problems.map((problem) =>
    el(
      "li",
      { data: { severity: problem.severity } },
      sign(problem.severity),
      ` ${problem.severity === "critical" ? "Critical" : "Warning"}: `,
      problemText(problem),
    ),
  );
  const well = el(
    "li",
    { data: { severity: "none" } },
    sign("none"),
    ` Nothing is wrong: broker ${told.controller.id} is the controller, and every partition has its leader and its replicas.`,
  );
  setChildren($("problems"), items.length ? items : [well]);
}

function problemText(problem) {
  const ago = problem.since === null ? "" : ` (since ${clock(problem.since)})`;
  const text = `${problem.text}${ago}`;
  if (problem.filter === null) return text;
  return el("a", { href: "#figures", data: { filter: problem.filter } }, text);
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

function headline() {
  if (asked === null && seen.fleet.length !== 1) return fleetHeadline();
  if (!seen.cluster) return `${asked ?? "the cluster"}: not known`;
  const [first] = seen.cluster.problems;
  const doubt =
    seen.beat.trust && seen.beat.trust.status !== "live"
      ? `figures are ${seen.beat.trust.status}`
      : "";
  return `${seen.cluster.name}: ${[first?.text, doubt].filter(Boolean).join("; ") || "nothing is wrong"}`;
}

function fleetHeadline() {
  const critical = seen.fleet.filter((row) => row.severity === "critical").length;
  const warned = seen.fleet.filter((row) => row.severity === "warning").length;
  if (critical + warned === 0) return `${count(seen.fleet.length, "cluster")}, nothing is wrong`;
  return `${critical} critical, ${warned} with warnings, of ${count(seen.fleet.length, "cluster")}`;
}

function title() {
  const mark = document.body.dataset.live === "no" ? "Not live · " : "";
  const told = seen.fleet === null || seen.beat === null ? "Kafka Controller Monitor" : headline();
  const text = `${mark}${told}`;
  if (document.title !== text) document.title = text;
}

function announce() {
  const told = headline();
  if (told === seen.announced || performance.now() - seen.announcedAt < ANNOUNCE_EVERY_MS) return;
  // The first one is what the page says anyway.
  if (seen.announced !== "") setText($("announcement"), told);
  seen.announced = told;
  seen.announcedAt = performance.now();
}

$("try-now").addEventListener("click", () => stream.open());
setInterval(() => {
  countDown();
  // Ages of figures that are not live do not count on.
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
