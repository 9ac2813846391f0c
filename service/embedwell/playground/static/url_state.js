// The state of a view in the address, with the model if one was chosen: #tokens?first=…&layer=3&model=…
import { useState } from "./vendor/htm-preact.js";

/** Split the address's fragment: the view's name, its parameters, and the model ("" if it is not chosen). */
export function readAddress() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  const { model = "", ...parameters } = Object.fromEntries(new URLSearchParams(query));
  return { view, model, parameters };
}

/** The fragment of an address. */
export function fragment(view, parameters, model) {
  const query = new URLSearchParams({ ...parameters, ...(model ? { model } : {}) }).toString();
  return `#${view}${query && "?"}${query}`;
}

const likeDefault = (text, value) =>
  typeof value === "number" ? (Number.isFinite(Number(text)) ? Number(text) : value)
  : typeof value === "boolean" ? text === "true"
  : text;

/**
 * State of a view that is stored in the address: [state, update], where update merges changes.
 * defaults: every field with its value; an address has only the fields that differ.
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
    history.replaceState(null, "", fragment(view, Object.fromEntries(changed), readAddress().model));
    return next;
  });
  return [state, update];
}
