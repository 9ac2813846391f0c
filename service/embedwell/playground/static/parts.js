// Components that several views share.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { isLoaded } from "./api.js";
import { asCurl, asPython } from "./snippets.js";

/** A labelled control. */
export const Field = ({ label, children }) => html`<label class="field"><span>${label}</span>${children}</label>`;

export const TextArea = ({ label, value, onInput, rows = 3 }) => html`
  <${Field} label=${label}><textarea dir="auto" rows=${rows} value=${value} onInput=${(event) => onInput(event.target.value)} /><//>`;

export const Select = ({ label, value, options, onChange }) => html`
  <${Field} label=${label}>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map((option) => {
        const [name, text] = Array.isArray(option) ? option : [option, option];
        return html`<option value=${name} selected=${name === value}>${text}</option>`;
      })}
    </select>
  <//>`;

export const Slider = ({ label, value, min = 0, max, step = 1, onInput }) => html`
  <${Field} label=${html`${label} <span class="value">${value}</span>`}>
    <input type="range" min=${min} max=${max} step=${step} value=${value}
      onInput=${(event) => onInput(Number(event.target.value))} />
  <//>`;

const PAUSE = 600; // ms after the last change of a number

/** A number with its limits. A valid number is applied after a pause in typing, or when the field loses focus. */
export function NumberField({ label, value, min, max, step = 1, onInput }) {
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const apply = (delay) => ({ target }) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => target.value !== "" && target.checkValidity() && onInput(target.valueAsNumber), delay);
  };
  return html`<${Field} label=${html`${label} <small>${min}–${max.toLocaleString("en")}${step === 2 ? ", even" : ""}</small>`}>
    <input type="number" required min=${min} max=${max} step=${step} value=${value} onInput=${apply(PAUSE)} onChange=${apply(0)} />
  <//>`;
}

/** Status line: an error, or progress. It is always in the page, so that screen readers announce changes. */
export const Status = ({ error, loading, retry, children }) => html`
  <p class=${error ? "status error" : "status"} role="status">${error ? error.message : children || (loading ? (isLoaded() ? "Computing …" : "Loading the model …") : "")}
    ${error?.retriable && retry && html`<button type="button" onClick=${retry}>Retry</button>`}</p>`;

/** Region of results; dimmed if they do not belong to the current inputs. */
export const Results = ({ stale, children }) => html`<div class=${stale ? "results stale" : "results"}>${children}</div>`;

const SHOWN = 5000; // ms for which a button shows that it has copied

/** Buttons that copy requests; several requests are joined by line breaks. note: what the link lacks. */
export function CopyButtons({ requests, note }) {
  const [done, setDone] = useState("");
  const content = JSON.stringify(requests);
  useEffect(() => setDone(""), [content]);
  useEffect(() => {
    const timer = setTimeout(() => setDone(""), SHOWN);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async (format, name) => {
    await copyText(requests.map(format).join("\n\n"));
    setDone(`Copied as ${name}`);
  };
  return html`<p class="copy">
    <button type="button" onClick=${() => copy(asCurl, "curl")}>Copy as curl</button>
    <button type="button" onClick=${() => copy(asPython, "Python")}>Copy as Python</button>
    <button type="button" onClick=${async () => { await copyText(location.href); setDone("Copied the link"); }}>Copy link to this view</button>
    ${note && html`<span>${note}</span>`}
    <span role="status">${done}</span>
  </p>`;
}

async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // the clipboard object needs HTTPS or localhost
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** A number with three digits. */
export const short = (value) =>
  value === null || !Number.isFinite(value) ? "masked" : Number.isInteger(value) ? String(value) : Number(value.toPrecision(3)).toString();

/** A text of at most `length` characters, for a heading or a caption. */
export const clipped = (text, length = 80) => (text.length > length ? `${text.slice(0, length - 1).trimEnd()}…` : text);

/** The lines of a text that are not empty. */
export const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** Note that a model reads only the start of some texts; empty if there are none. */
export const Truncated = ({ count, texts = "text", end = "the rest is not read" }) => count > 0 && html`
  <p class="cut" role="note">✂ The model reads only the start of ${count === 1 ? `one ${texts}` : `${count} ${texts}s`}: ${end}.</p>`;

/** Width of an element in CSS pixels, also after the window changes. */
export function useWidth(element, first) {
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}
