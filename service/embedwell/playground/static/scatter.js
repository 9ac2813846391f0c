// A scatter plot of texts: points, labels, neighbours, and downloads.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { CATEGORIES, css, colorScale } from "./colors.js";
import { clipped, useWidth } from "./parts.js";
import { cosine, ranking } from "./vector_math.js";

const NEIGHBORS = 8, LABELED = 40; // texts; with more than these, labels would hide each other
const OTHER = "#8a8a8a", MARGIN = 24;

export function Scatter({ table, view, color, theme, method }) {
  const canvas = useRef(), frame = useRef(), [hovered, setHovered] = useState(null), [selected, setSelected] = useState(null);
  const width = useWidth(frame, 900), height = Math.round(Math.min(Math.max(width * 0.6, 320), 560));
  const { colorOf, legend } = useMemo(() => coloring(table.rows, color), [table, color]);
  const places = useMemo(() => onCanvas(view.points, width, height), [view, width, height]);
  const neighbors = useMemo(() => (selected === null ? [] : nearest(table.vectors, selected)), [table, selected]);
  const shown = hovered ?? selected;
  useEffect(() => {
    fitToScreen(canvas.current, width, height);
    const labels = places.length <= LABELED && width > 600 ? table.texts : [];
    draw(canvas.current.getContext("2d"), { places, colorOf, labels, selected, neighbors, shown, width, height, ink: getComputedStyle(canvas.current).color });
  }, [places, colorOf, selected, shown, theme]);
  const closest = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return nearestPlace(places, event.clientX - box.left, event.clientY - box.top);
  };
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const caption = method === "pca" ? `PCA: the axes show ${percent(view.explained[0])} and ${percent(view.explained[1] ?? 0)} of the variance` : `UMAP of the first ${view.components} principal components; distances between distant groups mean little`;
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    setSelected(((selected ?? -1) + by + places.length) % places.length);
  };
  return html`<figure><figcaption>${table.texts.length} texts · ${caption}</figcaption>
    <div class="plot" ref=${frame}><canvas ref=${canvas} tabindex="0" role="img" style=${{ height: `${height}px` }}
      aria-label=${`Map of ${table.texts.length} texts. ${caption}. Arrow keys move from text to text.`}
      onPointerMove=${(event) => setHovered(closest(event))} onPointerLeave=${() => setHovered(null)} onClick=${(event) => setSelected(closest(event))} onKeyDown=${step} />
      <p class="tip" role="status" hidden=${shown === null} style=${shown === null ? {} : beside(places[shown], width, height)}>${shown === null ? "" : clipped(table.texts[shown], 240)}</p></div>
    ${legend.length > 0 && html`<ul class="legend">${legend.map(([text, fill]) => html`<li><i class="swatch" style=${{ background: fill }} />${text}</li>`)}</ul>`}
    <p class="help">Point at a text to read it; click it to see its neighbours.</p>
    ${selected !== null && html`<h2>Nearest to “${clipped(table.texts[selected])}”</h2><ol>${neighbors.map(([i, score]) => html`<li>
      <button type="button" onClick=${() => setSelected(i)}>${clipped(table.texts[i], 160)}</button> <span class="model">cosine ${score.toFixed(3)}</span></li>`)}</ol>`}
    <p class="copy"><button type="button" onClick=${() => save("map.csv", csvOf(table, view))}>Save as CSV</button>
      <button type="button" onClick=${() => canvas.current.toBlob((blob) => save("map.png", blob))}>Save as PNG</button></p>
  </figure>`;
}

/** Colours of the values of a column: a scale for numbers, a palette for anything else. */
function coloring(rows, name) {
  if (!name) return { colorOf: () => CATEGORIES[0], legend: [] };
  const values = rows.map((row) => row[name]), numbers = values.map(Number);
  if (new Set(values).size > CATEGORIES.length && numbers.every(Number.isFinite)) {
    const [low, high] = ends(numbers), scale = colorScale(low, high, false);
    return { colorOf: (i) => css(scale(numbers[i])), legend: [low, high].map((end) => [String(end), css(scale(end))]) };
  }
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, CATEGORIES.length).map(([value]) => value);
  const palette = new Map(common.map((value, k) => [value, CATEGORIES[k]]));
  if (common.every((value) => value !== "" && Number.isFinite(Number(value)))) common.sort((a, b) => a - b);
  const legend = common.map((value) => [String(value), palette.get(value)]);
  if (counts.size > common.length) legend.push(["other", OTHER]);
  return { colorOf: (i) => palette.get(values[i]) || OTHER, legend };
}

/** The nearest texts by cosine of the whole vectors: [index, cosine]. */
function nearest(vectors, index) {
  const scores = vectors.map((vector) => cosine(vector, vectors[index]));
  return ranking(scores).filter((i) => i !== index).slice(0, NEIGHBORS).map((i) => [i, scores[i]]);
}

const ends = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

/** Position of a point's text: the side of the point with more room. */
const beside = ([x, y], width, height) => ({
  left: x < width / 2 ? `${x + 12}px` : "auto", right: x < width / 2 ? "auto" : `${width - x + 12}px`,
  top: y < height / 2 ? `${y + 8}px` : "auto", bottom: y < height / 2 ? "auto" : `${height - y + 8}px`,
});

/** Points in pixels, with one scale for both axes. */
function onCanvas(points, width, height) {
  const [left, right] = ends(points.map(([x]) => x)), [bottom, top] = ends(points.map(([, y]) => y));
  const scale = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (top - bottom || 1));
  return points.map(([x, y]) => [width / 2 + (x - (left + right) / 2) * scale, height / 2 - (y - (bottom + top) / 2) * scale]);
}

function nearestPlace(places, x, y) {
  let best = null, least = 24 ** 2;
  places.forEach(([px, py], i) => {
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [i, distance];
  });
  return best;
}

/** Give a canvas the resolution of the screen. */
function fitToScreen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

function draw(context, { places, colorOf, labels, selected, neighbors, shown, width, ink }) {
  const radius = places.length > 1500 ? 2.5 : 5;
  context.globalAlpha = 0.85;
  places.forEach(([x, y], i) => {
    context.fillStyle = colorOf(i);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  });
  context.globalAlpha = 1;
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = context.strokeStyle = ink;
  writeLabels(context, places, labels, width);
  for (const [i] of neighbors) ring(context, places[i], radius + 2, 1, places[selected]);
  for (const i of new Set([selected, shown])) if (i !== null) ring(context, places[i], radius + 3, 2.5);
}

/** Write each label beside its point, except those that would cover a point or an earlier label. */
function writeLabels(context, places, labels, width) {
  const boxes = places.map(([x, y]) => [x - 6, x + 6, y]); // boxes of the points, then also of labels
  labels.forEach((text, i) => {
    const short = text.length > 32 ? `${text.slice(0, 31)}…` : text;
    const [x, y] = places[i], size = context.measureText(short).width;
    const left = x + 9 + size < width ? x + 9 : x - 9 - size;
    if (boxes.some(([otherLeft, otherRight, otherY]) => Math.abs(otherY - y) < 13 && left < otherRight && otherLeft < left + size)) return;
    boxes.push([left, left + size, y]);
    context.fillText(short, left, y + 4);
  });
}

function ring(context, [x, y], radius, width, from) {
  context.lineWidth = width;
  context.beginPath();
  if (from) { context.moveTo(...from); context.lineTo(x, y); context.moveTo(x + radius, y); }
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
}

const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;

function csvOf({ rows, names }, { points }) {
  const lines = rows.map((row, i) => [...points[i], ...names.map((name) => quoted(row[name]))].join(","));
  return new Blob([["x,y", ...names.map(quoted)].join(","), "\n", lines.join("\n"), "\n"], { type: "text/csv" });
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
