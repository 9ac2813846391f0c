// Components that several views share.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { asCurl, asPython } from "./snippets.js";
import { colorScale, css } from "./colors.js";

/** A labelled control. */
export const Field = ({ label, children }) => html`<label class="field"><span>${label}</span>${children}</label>`;

export const TextArea = ({ label, value, onInput, rows = 3 }) => html`
  <${Field} label=${label}><textarea rows=${rows} value=${value} onInput=${(event) => onInput(event.target.value)} /><//>`;

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

export const NumberField = ({ label, value, min, max, step = 1, onInput }) => html`
  <${Field} label=${label}>
    <input type="number" min=${min} max=${max} step=${step} value=${value}
      onChange=${(event) => event.target.value !== "" && onInput(Number(event.target.value))} />
  <//>`;

/** An error, or that the result is on its way. The place is there always, so that it is read out. */
export const Status = ({ error, loading }) => html`
  <p class=${error ? "status error" : "status"} role="status">${error ? error.message : loading ? "Computing …" : ""}</p>`;

/** Buttons that copy requests; more than one request come one below the other. */
export function CopyButtons({ requests }) {
  const [done, setDone] = useState("");
  const copy = async (format, name) => {
    await copyText(requests.map(format).join("\n\n"));
    setDone(`Copied as ${name}`);
  };
  return html`<p class="copy">
    <button type="button" onClick=${() => copy(asCurl, "curl")}>Copy as curl</button>
    <button type="button" onClick=${() => copy(asPython, "Python")}>Copy as Python</button>
    <button type="button" onClick=${async () => { await copyText(location.href); setDone("Copied the link"); }}>Copy link to this view</button>
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

/** The colour scale of a heat map with its ends. */
export function ColorBar({ low, high, signed, clipped, unit = "" }) {
  const ends = signed ? [-Math.max(Math.abs(low), Math.abs(high)), Math.max(Math.abs(low), Math.abs(high))] : [low, high];
  const color = colorScale(low, high, signed);
  const stops = Array.from({ length: 13 }, (_, i) => css(color(ends[0] + ((ends[1] - ends[0]) * i) / 12)));
  return html`<div class="colorbar" aria-hidden="true">
    <span>${clipped && "≤ "}${short(ends[0])}</span>
    <span class="bar" style=${{ background: `linear-gradient(to right, ${stops.join(",")})` }} />
    <span>${clipped && "≥ "}${short(ends[1])} ${unit}</span>
  </div>`;
}

export const short = (value) =>
  value === null || !Number.isFinite(value) ? "masked" : Number.isInteger(value) ? String(value) : Number(value.toPrecision(3)).toString();

/**
 * Heat map of rows of numbers (null: masked), drawn by a canvas. The pointer, or the arrow keys
 * when it has the focus, choose a cell, whose value is said below.
 */
export function Heatmap({ rows, title, rowName = "row", columnName = "column", signed = false, height, rowLabel = (i) => i, columnLabel = (j) => j, theme }) {
  const canvas = useRef();
  const [cell, setCell] = useState(null);
  const columns = rows[0]?.length || 0;
  const { low, high, clipped } = useMemo(() => bounds(rows, signed), [rows, signed]);
  useEffect(() => drawCells(canvas.current, rows, colorScale(low, high, signed)), [rows, signed, theme]);
  const choose = (i, j) => setCell([clamp(i, rows.length), clamp(j, columns)]);
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    choose(Math.floor(((event.clientY - box.top) / box.height) * rows.length), Math.floor(((event.clientX - box.left) / box.width) * columns));
  };
  const key = (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, j] = cell || [0, 0];
    choose(i + step[0], j + step[1]);
  };
  const [i, j] = cell && cell[0] < rows.length && cell[1] < columns ? cell : [];
  return html`<figure class="heatmap">
    <figcaption>${title}</figcaption>
    <canvas ref=${canvas} tabindex="0" role="img" style=${{ height: `${height || Math.min(Math.max(rows.length * 6, 60), 360)}px` }}
      aria-label=${`${title}: heat map of ${rows.length} ${rowName}s by ${columns} ${columnName}s, from ${short(low)} to ${short(high)}. Arrow keys read out cells.`}
      onPointerMove=${point} onPointerLeave=${() => setCell(null)} onKeyDown=${key} />
    <div class="caption-row">
      <span class="readout" role="status">${i === undefined ? `${rowName} ↓, ${columnName} →` : `${rowName} ${rowLabel(i)}, ${columnName} ${columnLabel(j)}: ${short(rows[i][j])}`}</span>
      <${ColorBar} low=${low} high=${high} signed=${signed} clipped=${clipped} />
    </div>
  </figure>`;
}

const clamp = (index, length) => Math.min(Math.max(index, 0), length - 1);

const OUTLIER = 2; // a value this many times the 99.5th percentile would leave all others pale

/** Ends of the colour scale of a heat map. Signed ones are clipped where there are outliers. */
function bounds(rows, signed) {
  let low = Infinity, high = -Infinity;
  for (const row of rows) for (const value of row) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return { low: 0, high: 0, clipped: false };
  if (signed) {
    const sizes = Float64Array.from(rows.flatMap((row) => Array.from(row)), Math.abs).sort();
    const common = sizes[Math.floor(0.995 * (sizes.length - 1))];
    if (Math.max(-low, high) > OUTLIER * common) return { low: -common, high: common, clipped: true };
  }
  return { low, high, clipped: false };
}

function drawCells(canvas, rows, color) {
  const columns = rows[0]?.length || 1;
  canvas.width = columns;
  canvas.height = rows.length || 1;
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  rows.forEach((row, i) => row.forEach((value, j) => {
    if (value === null) return; // transparent
    image.data.set([...color(value), 255], 4 * (i * columns + j));
  }));
  context.putImageData(image, 0, 0);
}

/** Lines {name, values} over one axis, as SVG with a legend; values may be null. */
export function LineChart({ lines, title, xName, xLabel = (i) => i, low, high, unit = "" }) {
  const values = lines.flatMap((line) => line.values).filter((value) => value !== null && Number.isFinite(value));
  const bottom = low ?? Math.min(...values), top = high ?? Math.max(...values);
  const [width, height, left, base] = [480, 180, 46, 158];
  const count = Math.max(...lines.map((line) => line.values.length));
  const x = (i) => left + (i / Math.max(count - 1, 1)) * (width - left - 8);
  const y = (value) => base - ((value - bottom) / (top - bottom || 1)) * (base - 10);
  const path = (line) => line.values.map((value, i) => [value, i]).filter(([value]) => value !== null && Number.isFinite(value))
    .map(([value, i], order) => `${order ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const ticks = [bottom, (bottom + top) / 2, top];
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-label=${`${title}. ${lines.map((line) => `${line.name}: from ${short(line.values[0])} to ${short(line.values.at(-1))}`).join("; ")}`}>
      ${ticks.map((tick) => html`<line x1=${left} x2=${width - 8} y1=${y(tick)} y2=${y(tick)} class="grid" />
        <text x=${left - 6} y=${y(tick) + 4} text-anchor="end">${short(tick)}${unit}</text>`)}
      ${lines.map((line, k) => html`<path d=${path(line)} class="line line-${k % 8}" />`)}
      <text x=${left} y=${height - 6}>${xLabel(0)}</text>
      <text x=${width - 8} y=${height - 6} text-anchor="end">${xLabel(count - 1)}</text>
      <text x=${(left + width) / 2} y=${height - 6} text-anchor="middle">${xName}</text>
    </svg>
    ${lines.length > 1 && html`<ul class="legend">${lines.map((line, k) => html`<li><i class="swatch line-${k % 8}" />${line.name}</li>`)}</ul>`}
  </figure>`;
}
