// Numbers as bars, in their order.
import { html } from "./vendor/htm-preact.js";

/**
 * A list of numbers as bars from zero. items: [{name, value, note, added}]; added: whether the name has a frame.
 * low, high: range of all bars. wide: whether names are long and stand above their bars.
 */
export function Bars({ label, items, low = 0, high, digits = 3, wide }) {
  const left = Math.min(0, low), span = Math.max(0, high) - left || 1;
  const share = (part) => `${100 * Math.min(Math.max(part / span, 0), 1)}%`;
  return html`<ol class=${`bars ${wide ? "wide" : items.some(({ note }) => note) ? "noted" : ""}`} aria-label=${label}>${items.map(({ name, value, note, added }) => html`<li>
    <span dir="auto" class=${added ? "name added" : "name"}>${name}</span>
    <b>${value.toFixed(digits)}</b>
    ${note && html`<small>${note}</small>`}
    <span class="track"><span class=${value < 0 ? "bar negative" : "bar"} style=${{ marginLeft: share(Math.min(value, 0) - left), width: share(Math.abs(value)) }} /></span>
  </li>`)}</ol>`;
}
