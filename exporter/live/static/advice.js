// Which preferred elections to run now, with the command that runs them.

import { $, el, setChildren, setText, show, Table } from "./dom.js";
import { ask, Asking, clusterPath, stateOf } from "./ask.js";
import { electedBy } from "./events.js";
import { clock, count, duration, list, number, percent } from "./format.js";

let cluster = null;
let after = null; // the `next` of the chunk before the one that is shown; null: the first chunk is shown
let latest = null;
let table = null;

const COLUMNS = [
  { head: "Broker", row: true, cell: (row) => String(row.broker) },
  {
    head: "Not led now",
    number: true,
    cell: (row) => `${number(row.not_led_before)} of ${number(row.preferred)}`,
  },
  { head: "Imbalance now", number: true, cell: (row) => percent(row.ratio_before) },
  { head: "After", number: true, cell: (row) => percent(row.ratio_after) },
];

const BLOCKED = {
  not_live: "whose preferred replica is not registered",
  not_in_isr: "whose preferred replica is not in sync",
};

const asking = new Asking(
  async () => {
    if (isWell()) return null;
    const answer = await chunk();
    if (isWell()) return null;
    put(answer);
    return answer.as_of;
  },
  (message) => {
    const old = $("advice-body").hidden ? "" : " What is shown is the last answer.";
    setText($("advice-lead"), `Not known now: ${message}.${old}`);
  },
);

// The chunk to show; the first one again if the list has changed since, or has become shorter.
async function chunk() {
  const path = clusterPath(cluster.name, "/recommendations");
  if (after !== null) {
    try {
      const answer = await ask(path, { limit: 1, after });
      if (answer.chunks.length > 0) return answer;
    } catch (error) {
      if (!error.isRefusal) throw error;
    }
    after = null;
  }
  return ask(path, { limit: 1 });
}

function isWell() {
  return cluster.rebalance === null || cluster.counts.preferred_imbalance === 0;
}

export function showAdvice(picture) {
  cluster = picture;
  const isKnown = picture.rebalance !== null;
  if (!isKnown || isWell()) {
    after = null;
    setText(
      $("advice-lead"),
      isKnown
        ? "Every partition is led by its preferred replica: there is nothing to elect."
        : "Which elections would help is not known.",
    );
    show($("advice-body"), false);
    setChildren($("advice-notes"), []);
    return;
  }
  const { controller, rebalance } = picture;
  asking.follow([stateOf(picture), controller?.elected_at, rebalance], picture.as_of);
}

function put(answer) {
  latest = answer;
  const elections = answer.partition_count;
  const lead =
    elections === 0
      ? `${count(answer.imbalance_before, "partition is", "partitions are")} not led by the preferred replica, and no election can fix that now.`
      : `${count(elections, "partition")} can be given back: ${number(answer.imbalance_before)} not led by the preferred replica now, ${number(answer.imbalance_after)} after it.`;
  setText($("advice-lead"), lead);
  const [shown] = answer.chunks;
  show($("advice-body"), Boolean(shown));
  if (shown) {
    table ??= new Table($("advice-brokers"), "What the elections do for each broker", COLUMNS);
    const changed = answer.brokers.filter((row) => row.not_led_before > 0);
    table.update(changed.map((row) => ({ ...row, key: row.broker })));
    setText($("advice-command"), paste());
    setText($("advice-kcm"), withKcm());
    show($("advice-next"), answer.chunk_count > 1);
    setText($("advice-next"), `Chunk ${shown.number} of ${answer.chunk_count}: show the next`);
  }
  setChildren($("advice-notes"), notes(answer));
}

function notes(answer) {
  const lines = answer.blocked
    .filter((each) => each.partition_count > 0)
    .map(
      (each) =>
        `${count(each.partition_count, "partition")} ${BLOCKED[each.reason] ?? each.reason}: no election can help.`,
    );
  const plan = answer.next_rebalance;
  const assumed = plan.assumed;
  const when = plan.at_earliest === null ? "" : ` at ${clock(plan.at_earliest)} at the earliest`;
  const limit = assumed.leader_imbalance_per_broker_percentage;
  const rule = limit === null
    ? "a KRaft controller has no threshold; at most 1,000 in a round, after its check interval"
    : `assumed: above ${limit} %, every ${assumed.leader_imbalance_check_interval_seconds} s`;
  if (assumed.auto_leader_rebalance_enable) {
    lines.push(
      plan.elects > 0
        ? `The controller's own check${when} would elect ${count(plan.elects, "partition")} (${rule}).`
        : `The controller's own check${when} would elect nothing (${rule}).`,
    );
  }
  const items = lines.map((text) => el("li", {}, text));
  return [...triggered(answer.triggered), ...items];
}

// The recommendation that the monitor made by itself, and the grade of the last one.
function triggered(own) {
  if (!own) return [];
  const items = [];
  const { standing, graded } = own;
  if (standing) {
    const elected =
      standing.elected_at === null
        ? "no election was seen since"
        : `an election was seen at ${clock(standing.elected_at)}`;
    const which = standing.brokers.length === 1 ? "broker" : "brokers";
    items.push(
      el(
        "li",
        {},
        `Recommended since ${clock(standing.made_at)}, for ${which} ${list(standing.brokers)}; ${elected}.`,
      ),
    );
  }
  if (graded.length > 0) items.push(el("li", {}, grade(graded[0])));
  return items;
}

function grade(last) {
  const took = last.regained_after_ms === null ? "" : ` after ${duration(last.regained_after_ms)}`;
  const lost = last.lost_again ? `, ${number(last.lost_again)} lost again` : "";
  const result =
    last.outcome === "withdrawn"
      ? ""
      : `, ${number(last.regained)} of ${count(last.watched, "leader")} regained${took}${lost}`;
  return `The previous one, graded at ${clock(last.graded_at)}: ${last.outcome}${result}${electedBy(last)}.`;
}

function json() {
  return JSON.stringify(latest.chunks[0].election);
}

// A quoted here-document expands nothing, and JSON has no line break that could end it.
function paste() {
  const file = latest.command.split(" ").at(-1);
  return `cat > ${file} <<'END_OF_ELECTION'\n${json()}\nEND_OF_ELECTION\n${latest.command}\n`;
}

// Runs all chunks and watches each through this exporter; it elects nothing without --confirm.
function withKcm() {
  const server = latest.command.match(/--bootstrap-server ('[^']*'|\S+)/)?.[1] ?? "HOST:PORT";
  const exporter = new URL(".", location.href).href.replace(/\/$/, "");
  return `kcm elect --bootstrap-servers ${server} --exporter ${quoted(exporter)} --cluster ${quoted(cluster.name)}`;
}

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers allow the clipboard on https and localhost only.
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

async function copied(button, text) {
  const done = await copy(text);
  button.focus();
  setText(
    $("advice-copied"),
    done ? "Copied." : "The browser does not allow copying: select the command and copy it.",
  );
  setTimeout(() => setText($("advice-copied"), ""), 5000);
}

$("advice-copy").addEventListener("click", (event) => copied(event.target, paste()));
$("advice-copy-kcm").addEventListener("click", (event) => copied(event.target, withKcm()));
$("advice-copy-json").addEventListener("click", (event) => copied(event.target, json()));
$("advice-next").addEventListener("click", () => {
  after = latest.next;
  asking.now();
});
