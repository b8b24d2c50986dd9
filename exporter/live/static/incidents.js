// The incidents: the open one first, then those that are over.

import { $, at, el, setChildren, setText, sign, since } from "./dom.js";
import { ask, Asking, clusterPath } from "./ask.js";
import { count, duration } from "./format.js";

const LISTED = 10;

let cluster = null;

const asking = new Asking(
  async () => {
    const answer = await ask(clusterPath(cluster.name, "/incidents"), { limit: LISTED });
    list(answer);
    return answer.as_of;
  },
  (message) => setText($("incidents-lead"), `Not known now: ${message}.`),
);

export function showIncidents(picture) {
  cluster = picture;
  const { incidents } = picture;
  // An open incident changes with its cluster; closed ones do not change.
  const changes = incidents?.open === null ? null : picture.as_of;
  asking.follow([picture.name, incidents, changes], picture.as_of);
}

function list(answer) {
  const open = answer.incidents.find((each) => each.closed_at === null);
  const ever = `${count(answer.total, "incident")} since this pipeline began`;
  const state = open ? "One is open" : "None is open";
  setText(
    $("incidents-lead"),
    `${cluster.incidents === null ? "Whether one is open is not known" : state}; ${ever}.`,
  );
  setChildren($("incidents-list"), answer.incidents.map(item));
}

function item(incident) {
  const isOpen = incident.closed_at === null;
  const lasted = incident.last_abnormal_at - incident.started_at;
  return el(
    "li",
    { class: isOpen ? "is-critical" : null },
    isOpen ? sign("critical") : "",
    el("strong", {}, isOpen ? " Open" : `Incident ${incident.number}`),
    " ",
    at(incident.started_at),
    isOpen ? since(incident.started_at, ", for ") : `, ${duration(lasted)}`,
    `: ${incident.summary}`,
  );
}
