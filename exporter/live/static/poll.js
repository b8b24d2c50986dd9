// Polls the exporter: once a second, with the ETag of the answer before. Without an answer the page is not live and
// says since when: stale figures that seem fresh are worse than none.

const INTERVAL_MS = 1_000;
const HIDDEN_INTERVAL_MS = 10_000; // nobody looks at a tab in the background
const SILENT_MS = 4_000;
const GIVE_UP_MS = 10_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

export class Poll {
  // on: { answer(data, times), lost({ since, retryAt, reason }) }; `data` is null where nothing has changed.
  constructor(url, on) {
    this.url = url;
    this.on = on;
    this.etag = null;
    this.answeredAt = performance.now(); // by the steady clock, which nobody sets
    this.answeredOn = Date.now(); // by the wall clock, which keeps running while the computer sleeps
    this.since = null; // the same by the exporter's clock, to be shown; null: there was no answer yet
    this.failures = 0;
    this.timer = 0;
    this.request = null;
    this.isLive = false;
    setInterval(() => this.watch(), 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      this.watch();
      this.open();
    });
    window.addEventListener("online", () => this.open());
    this.open();
  }

  // Ask now.
  async open() {
    clearTimeout(this.timer);
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    const began = performance.now();
    const giveUp = setTimeout(() => request.abort(), GIVE_UP_MS);
    try {
      await this.ask(request.signal);
      if (this.request !== request) return;
      const took = performance.now() - began;
      // An exporter that answers slowly is asked less often.
      this.plan(Math.max((document.hidden ? HIDDEN_INTERVAL_MS : INTERVAL_MS) - took, took));
    } catch (error) {
      if (this.request === request) this.fail(error.reason ?? "the exporter does not answer");
    } finally {
      clearTimeout(giveUp);
    }
  }

  async ask(signal) {
    const headers = this.etag === null ? {} : { "if-none-match": this.etag };
    const answer = await fetch(this.url, { signal, headers, cache: "no-store" });
    const isSame = answer.status === 304 && this.etag !== null;
    if (!answer.ok && !isSame) {
      const problem = await answer.json().catch(() => null);
      const reason = problem?.detail ?? `the exporter answered ${answer.status}`;
      throw Object.assign(new Error(reason), { reason });
    }
    const data = isSame ? null : await answer.json();
    signal.throwIfAborted();
    const times = JSON.parse(answer.headers.get("kcm-now"));
    this.etag = answer.headers.get("etag");
    this.answeredAt = performance.now();
    this.answeredOn = Date.now();
    this.since = times.now;
    this.failures = 0;
    this.isLive = true;
    this.on.answer(data, times);
  }

  plan(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), wait);
    return Date.now() + wait;
  }

  // How long there has been no answer, in milliseconds.
  silence() {
    return Math.max(performance.now() - this.answeredAt, Date.now() - this.answeredOn);
  }

  watch() {
    if (this.isLive && !document.hidden && this.silence() > SILENT_MS) {
      this.lose("the exporter is silent", null);
    }
  }

  fail(reason) {
    const wait = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures);
    this.failures += 1;
    // Two hundred pages must not all ask again at the same moment.
    this.lose(reason, this.plan(wait * (0.75 + Math.random() / 2)));
  }

  lose(reason, retryAt) {
    this.isLive = false;
    this.on.lost({ since: this.since, retryAt, reason });
  }
}
