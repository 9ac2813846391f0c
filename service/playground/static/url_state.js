// The state of a view in the address: #tokens?first=…&layer=3
import { useState } from "./vendor/htm-preact.js";

/** Split the address's fragment: the view's name and its parameters. */
export function readAddress() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  return { view, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

const likeDefault = (text, value) =>
  typeof value === "number" ? (Number.isFinite(Number(text)) ? Number(text) : value)
  : typeof value === "boolean" ? text === "true"
  : text;

/**
 * State of a view that the address restores: [state, update], where update merges changes.
 * defaults: every field and its value; an address has only those that differ.
 */
export function useUrlState(view, defaults) {
  const [state, setState] = useState(() => {
    const { parameters } = readAddress();
    const entries = Object.entries(defaults).map(([name, value]) =>
      [name, name in parameters ? likeDefault(parameters[name], value) : value]);
    return Object.fromEntries(entries);
  });
  const update = (changes) => setState((last) => {
    const next = { ...last, ...changes };
    const changed = Object.entries(next).filter(([name, value]) => value !== defaults[name]);
    const query = new URLSearchParams(changed).toString();
    history.replaceState(null, "", `#${view}${query && "?"}${query}`);
    return next;
  });
  return [state, update];
}
