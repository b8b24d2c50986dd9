// The live page: which cluster it shows, what the exporter last answered, and whether that is still true.

import { $, el, setChildren, setText, show, sign, tick } from "./dom.js";
import { setViewers } from "./ask.js";
import { clock, count, duration, setClock } from "./format.js";
import { Poll } from "./poll.js";
import { showAdvice } from "./advice.js";
import { showBrokers } from "./brokers.js";
import { showController, showUntil } from "./controller.js";
import { showPendingWrites } from "./pending.js";
import { showEvents } from "./events.js";
import { showFlapping } from "./flapping.js";
import { showFleet } from "./fleet.js";
import { showIncidents } from "./incidents.js";
import { showPartitions } from "./partitions.js";
import { showPipeline, trustText } from "./pipeline.js";
import { doubtAbout, headline, seenUntil, showProblems, wellText } from "./problems.js";
import { showQuorum } from "./quorum.js";

const ANNOUNCE_INTERVAL_MS = 10_000; // so that a screen reader reads what is new and does not speak every second

const asked = new URLSearchParams(location.search).get("cluster");
const seen = {
  answer: null, // the newest: { page, reasons, trust, clusters, cluster }
  shown: null,
  isLost: false,
  lostSince: null,
  retryAt: null,
  announced: "",
  announcedAt: -Infinity,
};
let poll = null;

function start(name) {
  const url = name === null ? "api/v1/page" : `api/v1/page?cluster=${encodeURIComponent(name)}`;
  poll = new Poll(url, { answer, lost });
}

function answer(data, times) {
  setClock(times.now);
  setViewers(times.viewers);
  // The exporter was upgraded: this page is out of date.
  if (data !== null && seen.answer !== null && seen.answer.page !== data.page) location.reload();
  seen.answer = data ?? seen.answer;
  if (seen.answer.trust) seen.answer.trust.heard_at = times.heard_at;
  if (document.body.dataset.live !== "yes") live();
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
    `${since === null ? "No answer yet" : `No answer since ${clock(since)}`}: ${reason}.`,
  );
  countUp();
  show($("not-live"), true);
  render();
  title();
}

// What counts is not part of the alert that a screen reader speaks.
function countUp() {
  if (!seen.isLost) return;
  const left =
    seen.retryAt === null ? null : Math.max(0, Math.ceil((seen.retryAt - Date.now()) / 1000));
  const s = Math.floor(poll.silence() / 1000);
  const silent = s < 60 ? `${s} s` : duration(s * 1000);
  const parts = [
    seen.lostSince === null ? `Waiting for ${silent}.` : `That was ${silent} ago.`,
    seen.answer === null ? "" : "The figures below show the state of that time.",
    left === null ? "" : `Trying again${left > 0 ? ` in ${left} s` : ""}.`,
  ];
  setText($("not-live-more"), parts.filter(Boolean).join(" "));
}

function render() {
  if (seen.answer === null) return;
  const { reasons, clusters, cluster } = seen.answer;
  // With a single cluster there is nothing to choose: it is answered without being asked for.
  const isFleet = asked === null && clusters.length !== 1;
  show($("fleet"), isFleet && clusters.length > 0);
  show($("cluster"), !isFleet && cluster !== null);
  const isUnready = isFleet && (clusters.length === 0 || reasons.length > 0);
  show($("waiting"), isUnready || (!isFleet && cluster === null));
  setText($("waiting"), waitingText(seen.answer));
  if (isFleet) showFleet(clusters, doubt());
  else if (cluster !== null) showCluster(cluster, seen.answer);
  title();
  announce();
}

function waitingText({ reasons, clusters }) {
  if (reasons.length > 0) return `The exporter is not ready: ${reasons.join("; ")}.`;
  if (asked === null) return "No cluster is watched yet: start a watcher (kcm watch).";
  const known = clusters.map((row) => row.name).join(", ") || "none yet";
  return `No cluster is called ${asked}. Known: ${known}.`;
}

function doubt() {
  return doubtAbout(seen.answer, seen.lostSince);
}

function showCluster(picture, { trust, reasons }) {
  setText($("cluster-name"), picture.name);
  showOthers(picture.name);
  showProblems(picture, doubt());
  showTrust(picture, trust, reasons);
  showPipeline(picture, trust);
  showBrokers(picture, doubt());
  showUntil(seenUntil(trust, picture));
  if (picture === seen.shown) return;
  seen.shown = picture;
  showController(picture);
  showPendingWrites(picture);
  showQuorum(picture);
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

function showTrust(picture, trust, reasons) {
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
  const others = seen.answer.clusters.filter((row) => row.name !== name);
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
    `All ${count(others.length + 1, "cluster")}${bad.length ? `, ${bad.length} of the others with trouble` : ""}`,
  );
  return setChildren($("other-clusters"), [...links, all]);
}

function summary() {
  const { clusters, cluster } = seen.answer;
  if (asked === null && clusters.length !== 1) return fleetSummary(clusters);
  return cluster === null ? `${asked}: not known` : headline(cluster, doubt());
}

function fleetSummary(rows) {
  const clusters = count(rows.length, "cluster");
  const critical = rows.filter((row) => row.severity === "critical").length;
  const warned = rows.filter((row) => row.severity === "warning").length;
  if (critical + warned === 0) return `${clusters}, ${wellText(doubt())}`;
  return `${critical} critical, ${warned} with warnings, of ${clusters}`;
}

function title() {
  const prefix = document.body.dataset.live === "no" ? "Not live · " : "";
  const text = `${prefix}${seen.answer === null ? "Kafka Controller Monitor" : summary()}`;
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

$("try-now").addEventListener("click", () => poll.open());
setInterval(() => {
  countUp();
  // Ages stop counting while the figures are not live.
  if (document.body.dataset.live !== "yes") return;
  tick();
  if (seen.answer !== null) announce();
}, 1000);

const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
setText($("zone"), `Times are in ${timeZone}, by the exporter's clock.`);
start(asked);
