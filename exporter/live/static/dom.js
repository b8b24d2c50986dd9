// Elements, and tables that change in place: only what differs is touched, so that the focus, the selection
// and a screen reader's position are kept. Text from the cluster is only ever set as text.

import { age, clock, full } from "./format.js";

export const $ = (id) => document.getElementById(id);

// el("a", { href: "x", class: "y", data: { severity: "none" } }, "text", child)
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "data") Object.assign(made.dataset, value);
    else if (name === "on")
      for (const [kind, run] of Object.entries(value)) made.addEventListener(kind, run);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

// Replaces the children only if the new ones differ.
export function setChildren(element, children) {
  const fresh = el("div", {}, ...children);
  if (element.innerHTML === fresh.innerHTML) return;
  if (element.contains(document.activeElement)) return refocus(element, fresh);
  element.replaceChildren(...fresh.childNodes);
}

// Keeps the focus at its position: on the third link of a list it stays on the third.
function refocus(element, fresh) {
  const at = [...element.querySelectorAll("a, button, [tabindex]")].indexOf(document.activeElement);
  element.replaceChildren(...fresh.childNodes);
  [...element.querySelectorAll("a, button, [tabindex]")][at]?.focus();
}

export function sign(kind) {
  return el("span", { class: "sign", "aria-hidden": "true", data: { sign: kind } }, SIGNS[kind]);
}

const SIGNS = { critical: "✖", warning: "▲", none: "✔", unknown: "?" };

// A moment: its clock time, with how long ago in a tooltip that `tick` updates.
export function at(ms) {
  return el("time", { datetime: iso(ms), title: full(ms) }, clock(ms));
}

// "for 3 s", updated by `tick`.
export function since(ms, before = "for ", after = "") {
  return el(
    "time",
    { datetime: iso(ms), title: `since ${full(ms)}`, data: { since: ms, before, after } },
    `${before}${age(ms)}${after}`,
  );
}

export function tick(root = document) {
  for (const each of root.querySelectorAll("time[data-since]")) {
    setText(each, `${each.dataset.before}${age(Number(each.dataset.since))}${each.dataset.after}`);
  }
}

function iso(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

// A table by columns: [{ head, cell(row) -> text or node, number, row }]; `row` is set for the cell that
// names the row. A cell may depend on its row only. On a phone each row becomes a card, so roles are set explicitly.
export class Table {
  constructor(place, caption, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.body = el("tbody", { role: "rowgroup" });
    const heads = columns.map((c) =>
      el("th", { scope: "col", role: "columnheader", class: c.number ? "number" : null }, c.head),
    );
    const head = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads));
    this.caption = el("caption", {}, caption);
    place.replaceChildren(el("table", { role: "table" }, this.caption, head, this.body));
  }

  // rows: [{ key, class, ... }] in order
  update(rows) {
    const kept = new Set(rows.map((row) => row.key));
    for (const [key, held] of this.rows) {
      if (!kept.has(key)) {
        held.remove();
        this.rows.delete(key);
      }
    }
    let before = null;
    for (const row of rows) {
      let held = this.rows.get(row.key);
      if (!held) {
        held = this.make();
        this.rows.set(row.key, held);
      }
      this.fill(held, row);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== held) this.body.insertBefore(held, next);
      before = held;
    }
  }

  make() {
    const cells = this.columns.map((column) => {
      const attributes = { class: column.number ? "number" : null, data: { head: column.head } };
      // One child, so that a card can put the column's head next to the cell's content.
      if (column.row)
        return el("th", { ...attributes, scope: "row", role: "rowheader" }, el("span"));
      return el("td", { ...attributes, role: "cell" }, el("span"));
    });
    return el("tr", { role: "row" }, ...cells);
  }

  // A change touches a few of hundreds of rows; the others are not made again.
  fill(held, row) {
    const state = JSON.stringify(row);
    if (held.state === state) return;
    held.state = state;
    held.className = row.class ?? "";
    this.columns.forEach((column, index) => {
      const content = column.cell(row);
      const cell = held.children[index].firstChild;
      if (typeof content === "string") setText(cell, content);
      else setChildren(cell, Array.isArray(content) ? content : [content]);
    });
  }
}
