// Who held /controller when, and how often one was elected. Nothing is drawn that was not seen: between the last time
// at which a controller was known and the next, and before the first one that was found, it is not known who it was.

const MINUTE_MS = 60_000;
const SPANS_MS = [10, 30, 70, 180, 360, 720, 1440, 4320, 10080].map((each) => each * MINUTE_MS);
const CHANGES_IN_SPAN = 8; // the shortest span that holds so many is shown, so that changes can be told apart

// As kafka_controller_recent_elections counts them; null: not known.
export function electionsWithin(picture, ms, until) {
  if (picture.controller === null) return null;
  return picture.controller.recent_elections
    .filter(([at]) => at > until - ms)
    .reduce((sum, [, times]) => sum + times, 0);
}

// What is drawn: { span, elections, pieces }. The pieces fill the span, oldest first: { id, from, to }, where the id is a
// broker's, null where nobody held /controller, and absent where it was not seen. null: nothing is known.
// `until` is now; `seenUntil` is up to when the figures follow ZooKeeper.
export function timeline(picture, until, seenUntil) {
  const held = periods(picture, seenUntil);
  if (held.length === 0) return null;
  const oldest = picture.elections[CHANGES_IN_SPAN - 1]?.at ?? held[0].from;
  const span = SPANS_MS.find((each) => until - oldest < each * 0.95) ?? SPANS_MS.at(-1);
  return {
    span,
    elections: electionsWithin(picture, span, until),
    pieces: fill(held, until - span, until),
  };
}

function fill(held, from, until) {
  const pieces = [];
  let end = from;
  for (const { id, from: began, to } of held) {
    if (to < from || began > until) continue;
    if (began > end) pieces.push({ from: end, to: began });
    end = Math.min(to, until);
    pieces.push({ id, from: Math.max(began, from), to: end });
  }
  if (end < until) pieces.push({ from: end, to: until });
  return pieces;
}

// The periods in which it is known who held /controller (null: nobody), oldest first; there may be time between them.
function periods({ elections, elections_from: seenFrom, controller }, until) {
  if (controller === null) return [];
  let held = [];
  const end = (at) => {
    const last = held.at(-1);
    if (last && last.to === null) last.to = Math.max(last.from, at);
  };
  // The holder before the oldest change is known by it, and held /controller as long as no change can be missing.
  const before = (id, to) => {
    if (held.length === 0 && id >= 0 && seenFrom !== null && seenFrom < to)
      held.push({ id, from: seenFrom, to });
  };
  for (const event of [...elections].reverse()) {
    const { at, from_broker: former } = event;
    if (event.kind === "Baseline") {
      held = []; // of an older lineage, whose end was not seen
      if (event.controller >= 0) held.push({ id: event.controller, from: began(event), to: null });
    } else if (event.kind === "ControllerVacated") {
      before(former, event.held_until ?? at);
      end(event.held_until ?? at);
      held.push({ id: null, from: at, to: null });
    } else {
      const last = held.at(-1);
      const isVacant = last?.id === null;
      const vacantFrom = at - (event.vacancy_min_ms ?? 0);
      const knownTo = at - (event.vacancy_max_ms ?? 0);
      before(former, knownTo);
      if (isVacant && vacantFrom <= last.from) last.to = at;
      else {
        end(isVacant ? last.from : knownTo);
        if (vacantFrom < at) held.push({ id: null, from: vacantFrom, to: at });
      }
      const from = Math.min(at, Math.max(began(event), held.at(-1)?.to ?? began(event)));
      held.push({ id: event.to_broker, from, to: null });
    }
  }
  const current = controller.id >= 0 ? controller.id : null;
  const since = current === null ? controller.vacant_since : controller.elected_at;
  const isLater = current === null && held.at(-1)?.from < since; // somebody was it in between
  if (held.at(-1)?.id !== current || isLater) {
    end(0); // of what came between there is no event, and so it is not known until when the one before was it
    if (since !== null && since !== undefined) held.push({ id: current, from: since, to: null });
  }
  end(until);
  return held;
}

// When the controller of an event was elected; ZooKeeper's clock may be ahead of the watcher's.
function began({ at, elected_at: electedAt }) {
  return Math.min(at, electedAt ?? at);
}
