// The stream from the exporter: opened, watched, opened again. While it is silent the page is not live and
// says so: stale figures that seem fresh are worse than none.

import { now } from "./format.js";

const SILENT_MS = 4_000; // beats arrive every second
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

export class Stream {
  // on: { beat(data), fleet(data), brokers(data), cluster(data), live(), lost({ since, retryAt, reason }) }
  constructor(url, on) {
    this.url = url;
    this.on = on;
    this.source = null;
    this.heardAt = 0; // by the steady clock, which nobody sets
    this.heardOn = 0; // by the wall clock, which keeps running while the computer sleeps
    this.since = null; // the same, to be shown
    this.tries = 0;
    this.retry = 0;
    this.retryAt = null;
    this.isLive = false;
    setInterval(() => this.watch(), 1000);
    // A tab in the background holds no connection: browsers allow six for a host.
    document.addEventListener("visibilitychange", () =>
      document.hidden ? this.pause() : this.open(),
    );
    window.addEventListener("online", () => this.open());
    if (!document.hidden) this.open();
  }

  open() {
    this.close();
    clearTimeout(this.retry);
    this.hear();
    this.source = new EventSource(this.url);
    for (const kind of ["beat", "fleet", "brokers", "cluster"]) {
      this.source.addEventListener(kind, (event) => this.take(kind, event.data));
    }
    this.source.addEventListener("error", () => this.fail());
  }

  take(kind, text) {
    this.hear();
    this.since = now();
    this.tries = 0;
    if (!this.isLive) {
      this.isLive = true;
      this.on.live();
    }
    this.on[kind](JSON.parse(text));
  }

  // An EventSource does not say why it failed: repeating the request does.
  async fail() {
    this.lose("the exporter does not answer");
    const tries = this.tries;
    const reason = await refusal(this.url);
    if (reason !== null && this.tries === tries && !this.isLive)
      this.on.lost({ since: this.since, retryAt: this.retryAt, reason });
  }

  hear() {
    this.heardAt = performance.now();
    this.heardOn = Date.now();
  }

  watch() {
    const silent = Math.max(performance.now() - this.heardAt, Date.now() - this.heardOn);
    if (this.source && silent > SILENT_MS) this.lose("the exporter is silent");
  }

  pause() {
    this.close();
    clearTimeout(this.retry);
    this.isLive = false;
    this.on.lost({ since: this.since, retryAt: null, reason: "this page was hidden" });
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  lose(reason) {
    this.close();
    this.isLive = false;
    const wait = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.tries);
    // Two hundred pages must not all reconnect at the same moment.
    const retryIn = wait * (0.75 + Math.random() / 2);
    this.tries += 1;
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.open(), retryIn);
    this.retryAt = Date.now() + retryIn;
    this.on.lost({ since: this.since, retryAt: this.retryAt, reason });
  }
}

// Why the stream is refused, in the exporter's words; null when it is not refused, or there is no answer.
async function refusal(url) {
  const asking = new AbortController();
  try {
    const answer = await fetch(url, { signal: asking.signal });
    if (answer.ok) return null;
    return (await answer.json()).detail ?? null;
  } catch {
    return null;
  } finally {
    asking.abort();
  }
}
