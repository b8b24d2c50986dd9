// Questions to the API beside the stream, for what is too much to be sent to everyone.

const REST = 4; // times what an answer took: the exporter is there for others too
const LEAST_REST_MS = 2_000;
const LONGEST_RETRY_MS = 30_000;
const VIEWER_MS = 100; // two hundred pages see a change in one moment, and must not all ask in it

let viewers = 1;

export function setViewers(number) {
  viewers = number;
}

// Of one kind of question only one is under way. What a person asks for is asked at once. What the
// page wants to know by itself is asked when what matters of the picture has changed, and again until
// the answer is as new as that picture: another replica may lag, a result may stand for a while.
export class Asking {
  // run: asks and shows; returns up to which place in the log its answer holds, or null if that does
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

  // A picture has come; `relevant` is what matters of it.
  follow(relevant, place) {
    const state = JSON.stringify(relevant);
    if (state === this.relevant) return;
    this.relevant = state;
    this.needed = place;
    this.isWanted = true;
    this.plan();
  }

  // A person waits for it.
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
    // An exporter that does not answer is tried by the stream alone.
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

// Whether a place in the log lies before another. Of two lineages that is not known: so yes.
function isBefore(place, other) {
  if (place.lineage !== other.lineage) return true;
  const [generation, since] = [BigInt(place.generation), BigInt(other.generation)];
  return generation === since ? place.seq < other.seq : generation < since;
}

// What is another whenever a znode is; the counts also when what is assumed of the cluster is.
export function stateOf(picture) {
  return [picture.name, picture.log.digest, picture.counts, picture.brokers_live];
}

// The answer's body; throws an Error with the exporter's own words.
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
  // The question was wrong: to ask the same again would not help.
  error.isRefusal = answer.status >= 400 && answer.status < 500;
  throw error;
}

export function clusterPath(name, rest = "") {
  return `api/v1/clusters/${encodeURIComponent(name)}${rest}`;
}
