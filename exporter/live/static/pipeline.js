// How far the figures can be trusted: the status, the last sign of life of each part, what happened to the log.

import { $, at, el, setChildren, since } from "./dom.js";
import { age, clock, count, duration, list, number } from "./format.js";

const MEANS = {
  clocks_disagree: (stage, trust) =>
    `Clocks disagree, ${stage === "zookeeper" ? "ZooKeeper" : `the ${stage}`}'s clock differs (${skewText(trust.clock_skew_ms)}): the figures follow the cluster, but the times in them may be wrong`,
  behind: (stage) =>
    `Behind: no sign of life of the ${stage}. The figures show the state before that`,
  incomplete: (stage, trust, picture) =>
    picture.unreadable_controller
      ? "Incomplete: the controller's znode cannot be read, so its last good value is shown"
      : stage === "watcher"
      ? "Incomplete: the watcher may not read some of the znodes that the figures need"
      : "Incomplete: changes may be missing until a resync has ended",
  divergent: () => "Divergent: a reconciliation proved that the figures differ from what the cluster holds",
  kraft: () =>
    "A KRaft controller runs the cluster, and ZooKeeper does not show all of it any more",
  blind: (stage, trust, picture) =>
    hasZookeeper(picture)
      ? "Blind: the watcher has no ZooKeeper session, so changes there are not seen"
      : "Blind: no controller answers the watcher, so changes are not seen",
};

function hasZookeeper({ log }) {
  return !log.absent.includes("session");
}

export function trustText(trust, picture, reasons) {
  const proven =
    trust.verified_at === null ? "not proven yet" : `verified as of ${clock(trust.verified_at)}`;
  const doubts = reasons.length ? ` The exporter is not ready: ${reasons.join("; ")}.` : "";
  const delay =
    picture.delay_ms === null
      ? ""
      : `, and the newest change took ${duration(picture.delay_ms)} to get to the exporter`;
  const source = hasZookeeper(picture) ? "ZooKeeper" : "the metadata log";
  if (trust.status === "live") return `The figures follow ${source}, ${proven}${delay}.${doubts}`;
  const meaning = (MEANS[trust.status] ?? (() => trust.status))(trust.stage, trust, picture);
  const why =
    picture.log.incomplete_reason && trust.status === "incomplete" && trust.stage !== "watcher"
      ? ` (${picture.log.incomplete_reason})`
      : "";
  const from = trust.since === null ? "" : ` since ${clock(trust.since)}`;
  return `${meaning}${why}${from}; ${proven}.${doubts}`;
}

function skewText(skew) {
  return Object.entries(skew)
    .map(([stage, ms]) => `${stage} ${duration(Math.abs(ms))} ${ms > 0 ? "ahead of" : "behind"} the exporter`)
    .join(", ");
}

export function showPipeline(picture, trust) {
  const { log, quorum } = picture;
  const heard = trust.heard_at;
  const isZookeeper = hasZookeeper(picture);
  setChildren($("pipeline-facts"), [
    fact(
      "Verified",
      trust.verified_at === null ? "never yet" : since(trust.verified_at, "", " ago"),
    ),
    isZookeeper
      ? fact(
          "ZooKeeper",
          `${log.session === null ? "not known" : log.session.toLowerCase()}${log.zookeeper ? `, ${log.zookeeper}` : ""}`,
        )
      : fact("Metadata log", `held up to offset ${number(quorum.end)} of epoch ${quorum.epoch ?? "not known"}`),
    fact("Watcher's last sign of life", ago(heard.watcher)),
    fact("Fold's last sign of life", ago(heard.fold)),
    fact("Exporter read", ago(heard.exporter)),
    fact("Last change", lastChange(log)),
    fact(
      "Delay",
      picture.delay_ms === null
        ? "not measured yet"
        : `${duration(picture.delay_ms)} from the watcher to the exporter`,
    ),
    isZookeeper
      ? fact(
          "Held",
          `${count(log.znodes, "znode")}, up to change ${picture.as_of.generation}:${picture.as_of.seq}`,
        )
      : null,
    fact(
      isZookeeper ? "Resyncs, reconciliations" : "Snapshots read, reconciliations",
      `${number(log.resyncs)}, ${number(log.reconciliations)}`,
    ),
  ].filter(Boolean));
  setChildren(
    $("pipeline-notes"),
    notes(picture).map((text) => el("li", {}, text)),
  );
}

function ago(ms) {
  return ms === null ? "never" : `${age(ms)} ago`;
}

function lastChange(log) {
  if (log.last_change_at === null) return "none yet";
  const took = log.last_change_mtime === null ? null : log.last_change_at - log.last_change_mtime;
  // ZooKeeper's clock and the watcher's differ: a negative value is their difference, not a delay.
  const seen =
    took !== null && took >= 0 && took < 60_000
      ? `, seen ${duration(took)} after it was written`
      : "";
  return [at(log.last_change_at), seen];
}

function notes({ log, unreadable, unreadable_count, counters_since }) {
  const lines = [];
  if (unreadable_count)
    lines.push(
      `${count(unreadable_count, "znode")} of no topic cannot be read, so the last good value is shown: ${list(unreadable)}.`,
    );
  if (log.resync_under_way) lines.push("A resync is under way.");
  if (log.denied.length) {
    const within = log.denied_more ? ` (${count(log.denied_more, "further znode")} within them)` : "";
    lines.push(`ZooKeeper denies the watcher ${list(log.denied)}${within}: not known.`);
  }
  const counted = [
    [log.holes, "hole in the log", "holes in the log"],
    [log.dropped_by_watcher, "change dropped by the watcher", "changes dropped by the watcher"],
    [
      log.missed_updates,
      "update merged before it could be read",
      "updates merged before they could be read",
    ],
    [log.unreadable, "payload that cannot be read", "payloads that cannot be read"],
    [log.anomalies, "anomaly", "anomalies"],
    [log.errors, "error of the monitor", "errors of the monitor"],
  ].filter(([value]) => value > 0);
  if (counted.length)
    lines.push(
      `Since counting began, ${clock(counters_since)}: ${counted.map(([value, one, many]) => count(value, one, many)).join(", ")}.`,
    );
  return lines;
}

function fact(name, text) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, ...(Array.isArray(text) ? text : [text])));
}
