// Numbers, times and names as people read them. Times are given in milliseconds since 1970.

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const DAY_MS = 86_400_000;

// The exporter's clock minus this browser's: every age is by the exporter's clock.
let offset = 0;

export function setClock(now) {
  offset = now - Date.now();
}

export function now() {
  return Date.now() + offset;
}

// null: not known, which is shown as such and never as 0.
export function number(value) {
  return value === null ? "not known" : NUMBER.format(value);
}

export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

export function percent(ratio) {
  const value = ratio * 100;
  // 0.4 % is not 0 %, and 99.7 % is not 100 %.
  if (value > 0 && value < 1) return "< 1 %";
  return `${value > 99 && value < 100 ? 99 : Math.round(value)} %`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 10) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// How long something has lasted: in seconds only while they matter, so that little on the page flickers.
export function age(since) {
  const s = Math.max(0, Math.floor((now() - since) / 1000));
  if (s < 60) return `${s} s`;
  return s < 600 || s >= 3600 ? duration(s * 1000) : `${Math.floor(s / 60)} min`;
}

export function clock(at) {
  const text = CLOCK.format(at);
  return now() - at < DAY_MS && now() - at > -DAY_MS && sameDay(at)
    ? text
    : `${DAY.format(at)} ${text}`;
}

export function full(at) {
  return FULL.format(at);
}

function sameDay(at) {
  return DAY.format(at) === DAY.format(now());
}

export function words(name) {
  return name.replaceAll("_", " ").replaceAll("-", " ");
}

// IncidentOpened -> Incident opened
export function kindWords(kind) {
  const text = kind.replace(
    /([a-z])([A-Z])/g,
    (_, before, after) => `${before} ${after.toLowerCase()}`,
  );
  return text.replace(/\bisr\b/i, "ISR");
}

export function list(values, most = 8) {
  const shown = values.slice(0, most).join(", ");
  return values.length > most ? `${shown} and ${values.length - most} more` : shown;
}
