// The problems, the worst first, and up to when that is true: figures that nothing confirms now must not
// say that all is well.

import { $, el, setChildren, sign } from "./dom.js";
import { clock } from "./format.js";

const FROZEN = new Set(["behind", "blind"]);

// Why the figures may not be true now: { said, head }, a short text and one before a list of problems.
// null: they follow ZooKeeper.
export function doubtAbout(answer, lostSince) {
  const doubt = doubtOfExporter(answer);
  if (lostSince === null || doubt !== null) return doubt;
  return frozen("", lostSince); // the title says it already
}

function doubtOfExporter({ trust, reasons }) {
  if (reasons.length > 0 && (!trust || trust.status === "live"))
    return frozen("the exporter is not ready", trust ? trust.heard_at.exporter : null);
  if (!trust || trust.status === "live") return null;
  if (trust.status === "clocks_disagree") return null; // the figures follow; the line above says it
  const said = `figures are ${trust.status}`;
  if (FROZEN.has(trust.status)) return frozen(said, trust.since);
  // A reconciliation finds wrong figures late: they may be wrong since the last one that proved them.
  const since = trust.status === "divergent" ? trust.verified_at : trust.since;
  if (trust.verified_at === null) return { said, head: "Not proven yet:" };
  return { said, head: since === null ? "In doubt:" : `In doubt since ${clock(since)}:` };
}

// Up to when the figures follow ZooKeeper, in milliseconds; null: now.
export function seenUntil(trust, picture) {
  return FROZEN.has(trust.status) ? (trust.since ?? picture.log.heartbeat_at ?? 0) : null;
}

function frozen(said, at) {
  return { said, head: at === null ? "Not known now:" : `As of ${clock(at)}, not now:` };
}

export function showProblems(picture, doubt) {
  const worst = picture.problems[0]?.severity;
  const items = picture.problems.map((problem) =>
    el(
      "li",
      { data: { severity: problem.severity } },
      sign(problem.severity),
      ` ${problem.severity === "critical" ? "Critical" : "Warning"}${problem.state === "pending" ? ", pending" : ""}: `,
      problemText(problem),
      ...(problem.alert === null ? [] : [" ", runbook(problem.alert)]),
    ),
  );
  if (doubt !== null) items.unshift(doubtful(doubt, items.length));
  $("health").dataset.severity = worst ?? (doubt === null ? "none" : "unknown");
  setChildren($("problems"), items.length ? items : [well(picture)]);
}

function doubtful(doubt, problems) {
  const rest = problems ? "" : ` ${wellText(doubt)}.`;
  return el("li", { data: { severity: "unknown" } }, sign("unknown"), ` ${doubt.head}${rest}`);
}

function well(picture) {
  return el(
    "li",
    { data: { severity: "none" } },
    sign("none"),
    picture.controller === null || picture.counts.offline === null
      ? " Nothing is known to be wrong, and not all is known."
      : ` Nothing is wrong: broker ${picture.controller.id} is the controller, and every partition has its leader and its replicas.`,
  );
}

// The name of the problem's alert, as a link to its runbook.
function runbook(alert) {
  return el("a", { href: `runbooks/${alert}`, class: "runbook", title: "What to do" }, alert);
}

function problemText(problem) {
  const ago = problem.since === null ? "" : ` (since ${clock(problem.since)})`;
  const text = `${problem.text}${ago}`;
  if (problem.alert === "KafkaIsrFlapping") return el("a", { href: "#flapping" }, text);
  if (problem.filter === null) return text;
  return el("a", { href: "#figures", data: { filter: problem.filter } }, text);
}

// One line for the title and for screen readers.
export function headline(picture, doubt) {
  const parts = [picture.problems[0]?.text, doubt?.said].filter(Boolean);
  return `${picture.name}: ${parts.join("; ") || wellText(doubt)}`;
}

// The text for one cluster or for all, where no problem is known.
export function wellText(doubt) {
  return doubt === null ? "nothing is wrong" : "nothing was known to be wrong";
}
