// Requests to the API in addition to the polls, for what is too much to be sent to every page.

const REST = 4; // pause after an answer, as a multiple of its time: the exporter has other clients
const LEAST_REST_MS = 2_000;
const LONGEST_RETRY_MS = 30_000;
const VIEWER_MS = 100; // two hundred pages see a change at the same moment: this spreads their requests

let viewers = 1;

export function setViewers(number) {
  viewers = number;
}

// Only one question of a kind is under way at a time. A question of a person is asked at once. A question of the
// page itself is asked when the relevant part of the picture has changed, and again until the answer is as new
// as that picture: another replica of the exporter may lag, and the exporter may keep a result for a while.
export class Asking {
  // run: asks, shows the answer, and returns up to which place in the log the answer holds, or null if that does
  // not matter. failed(message): shows that there is no answer.
  constructor(run, failed) {
    this.run = run;
    this.failed = failed;
    this.relevant = null;
    this.needed = null;
    this.busy = false;
    this.isWanted = false;
    this.isUrgent = false;
    this.misses = 0;
    this.restUntil = 0;
    this.timer = 0;
  }

  // A new picture has arrived; `relevant` is the part of it that the answer depends on.
  follow(relevant, place) {
    const state = JSON.stringify(relevant);
    if (state === this.relevant) return;
    this.relevant = state;
    this.needed = place;
    this.isWanted = true;
    this.plan();
  }

  // A person waits for the answer.
  now() {
    this.isUrgent = true;
    this.plan();
  }

  plan() {
    if (this.busy || (this.timer && !this.isUrgent)) return;
    clearTimeout(this.timer);
    const rest = Math.max(0, this.restUntil - performance.now());
    const turn = Math.random() * (viewers - 1) * VIEWER_MS;
    this.timer = setTimeout(() => this.go(), this.isUrgent ? 0 : rest + turn);
  }

  async go() {
    this.timer = 0;
    const began = performance.now();
    // While the exporter does not answer, only the polls try to reach it.
    if (!this.isUrgent && document.body.dataset.live !== "yes") {
      this.restUntil = began + LEAST_REST_MS;
      return this.plan();
    }
    this.busy = true;
    this.isUrgent = this.isWanted = false;
    let isNew = false;
    try {
      const place = await this.run();
      isNew = place === null || !isBefore(place, this.needed);
    } catch (error) {
      this.failed(error.message);
    }
    this.misses = isNew ? 0 : this.misses + 1;
    const ended = performance.now();
    const retry = Math.min(LONGEST_RETRY_MS, LEAST_REST_MS * 2 ** Math.max(0, this.misses - 1));
    this.restUntil = ended + Math.max(retry, (ended - began) * REST);
    this.busy = false;
    if (this.isUrgent || this.isWanted || !isNew) this.plan();
  }
}

// Whether a place in the log is before another. Between two lineages that is not known: then true.
function isBefore(place, other) {
  if (place.lineage !== other.lineage) return true;
  const [generation, since] = [BigInt(place.generation), BigInt(other.generation)];
  return generation === since ? place.seq < other.seq : generation < since;
}

// A value that changes whenever a znode does; the counts also change with the settings assumed for the cluster.
export function stateOf(picture) {
  return [picture.name, picture.log.digest, picture.counts, picture.brokers_live];
}

// The answer's body; throws an Error with the exporter's own text.
export async function ask(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, value);
  }
  const text = query.toString();
  const answer = await fetch(text ? `${path}?${text}` : path);
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => null);
  const error = new Error(problem?.detail ?? `the exporter answered ${answer.status}`);
  // A refused request would be refused again.
  error.isRefusal = answer.status >= 400 && answer.status < 500;
  throw error;
}

export function clusterPath(name, rest = "") {
  return `api/v1/clusters/${encodeURIComponent(name)}${rest}`;
}
