// A table of scores, each in the colour of its number.
import { html } from "./vendor/htm-preact.js";
import { colorScale, css, textOn } from "./colors.js";
import { ColorBar } from "./heatmap.js";

/** Scores of every row with every column. head(column, j): the header of a column; by default its text. */
export function ScoreTable({ title, rows, columns, scores, low, high, signed, head = (text) => html`<span dir="auto" title=${text}>${text}</span>` }) {
  const color = colorScale(low, high, signed);
  return html`<section><h2>${title}</h2><div class="scroll" tabindex="0" role="region" aria-label=${title}><table class="matrix">
    <thead><tr><td></td>${columns.map((column, j) => html`<th scope="col">${head(column, j)}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr><th scope="row"><span dir="auto" title=${row}>${row}</span></th>
      ${scores[i].map((score) => html`<td class="number" style=${{ background: css(color(score)), color: textOn(color(score)) }}>${score.toFixed(3)}</td>`)}</tr>`)}</tbody>
  </table></div><${ColorBar} low=${low} high=${high} signed=${signed} /></section>`;
}
