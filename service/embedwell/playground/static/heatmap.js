// Heat maps: rows of numbers as colours.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { colorScale, css } from "./colors.js";
import { short } from "./parts.js";

/** Legend of a heat map: its colour scale with the limits. */
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

/**
 * Heat map of rows of numbers (null: masked), drawn on a canvas. range: limits of the colours. help: how to
 * read it. axes: {rows, columns, framed}: a name for each row and column, and the framed column of each row. The pointer, or the arrow keys when the map has the focus, select a cell, whose value is shown below.
 */
export function Heatmap({ rows, title, help, range, rowName = "row", columnName = "column", signed = false, height, rowLabel = (i) => i, columnLabel = (j) => j, axes, theme }) {
  const canvas = useRef();
  const [cell, setCell] = useState(null);
  const columns = rows[0]?.length || 0;
  const { low, high, clipped } = useMemo(() => (range ? { low: range[0], high: range[1] } : bounds(rows, signed)), [rows, signed]);
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
  const drawing = html`<canvas ref=${canvas} tabindex="0" role="img" style=${{ height: `${height || Math.min(Math.max(rows.length * 6, 60), 360)}px` }}
      aria-label=${`${title}: heat map of ${rows.length} ${rowName}s by ${columns} ${columnName}s, from ${short(low)} to ${short(high)}. Arrow keys read out cells.`}
      onPointerMove=${point} onPointerDown=${point} onPointerLeave=${(event) => event.pointerType === "mouse" && setCell(null)} onKeyDown=${key} />`;
  return html`<figure class="heatmap">
    <figcaption>${title}</figcaption>
    ${axes ? html`<${Axes} ...${axes}>${drawing}<//>` : drawing}
    <div class="caption-row">
      <span class="readout" role="status">${i === undefined ? `${rowName} ↓, ${columnName} →` : `${rowName} ${rowLabel(i)}, ${columnName} ${columnLabel(j)}: ${short(rows[i][j])}`}</span>
      <${ColorBar} low=${low} high=${high} signed=${signed} clipped=${clipped} />
    </div>
    ${help && html`<p class="help">${help}</p>`}
  </figure>`;
}

const CELL = 18; // CSS pixels, in which a name fits

/** A drawing of cells between the names of its rows and columns; it scrolls if it is wider than the page. */
function Axes({ rows, columns, framed, children }) {
  const share = (i, count) => `${(100 * i) / count}%`, width = share(1, columns.length), height = share(1, rows.length);
  return html`<div class="scroll"><div class="axes">
    <div class="columns-axis" aria-hidden="true">${columns.map((name) => html`<span>${name}</span>`)}</div>
    <div class="rows-axis" aria-hidden="true">${rows.map((name) => html`<span>${name}</span>`)}</div>
    <div class="cells" style=${{ minWidth: `${CELL * columns.length}px` }}>${children}
      ${framed.map((j, i) => html`<i class="frame" style=${{ left: share(j, columns.length), top: share(i, rows.length), width, height }} />`)}</div>
  </div></div>`;
}

const clamp = (index, length) => Math.min(Math.max(index, 0), length - 1);

const OUTLIER = 2; // a value this many times the 99.5th percentile would make all others pale

/** Limits of a heat map's colour scale. Signed numbers are clipped if there are outliers. */
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
