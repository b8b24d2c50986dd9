// Questions to the API beside the stream, for what is too much to be told to everyone.

// Of one kind of question only one is under way; what was asked meanwhile is asked after it, and
// never so often that the exporter does nothing else: after an answer it rests for four times as long.
const REST = 4;
const LEAST_REST_MS = 500;

export class Asking {
  constructor(run) {
    this.run = run;
    this.busy = false;
    this.wanted = false;
    this.restUntil = 0;
    this.timer = 0;
  }

  // Soon, by itself; `now` when a person asked for it.
  want({ now = false } = {}) {
    this.wanted = true;
    if (this.busy) return;
    clearTimeout(this.timer);
    const wait = now ? 0 : Math.max(0, this.restUntil - performance.now());
    this.timer = setTimeout(() => this.go(), wait);
  }

  async go() {
    if (this.busy) return;
    this.busy = true;
    this.wanted = false;
    const began = performance.now();
    try {
      await this.run();
    } finally {
      const took = performance.now() - began;
      this.restUntil = performance.now() + Math.max(LEAST_REST_MS, took * REST);
      this.busy = false;
      if (this.wanted) this.want();
    }
  }
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
  throw new Error(problem?.detail ?? `the exporter answered ${answer.status}`);
}

export function clusterPath(name, rest = "") {
  return `api/v1/clusters/${encodeURIComponent(name)}${rest}`;
}
