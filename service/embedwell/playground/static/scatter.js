// A scatter plot of texts: points, labels, neighbours, marked texts, and downloads.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { coloring } from "./columns.js";
import { clipped, useWidth } from "./parts.js";
import { nextTo, nearestPlace, onCanvas, placeLabels, shapePath, shapePoints, within } from "./plot_geometry.js";
import { cosine, ranking } from "./vector_math.js";

const NEIGHBORS = 8, LISTED = 50; // texts
const FONT = "12px system-ui, sans-serif", FADED = 0.15; // FADED: opacity of points that are not marked, if others are
const DRAG = 4; // pixels from which a press is not a click

export function Scatter({ table, view, color, theme, method }) {
  const canvas = useRef(), frame = useRef(), [hovered, setHovered] = useState(null), [selected, setSelected] = useState(null);
  const [find, setFind] = useState(""), [group, setGroup] = useState(null); // group: texts around which a line was drawn
  const [byFinger, setByFinger] = useState(false), [line, setLine] = useState([]), wasDrawn = useRef(false);
  const width = useWidth(frame, 800), height = Math.round(Math.min(Math.max(width * 0.8, 300), 600));
  const { colorOf, shapeOf, legend } = useMemo(() => coloring(table.rows, color), [table, color]);
  const places = useMemo(() => onCanvas(view.points, width, height), [view, width, height]);
  const marked = useMemo(() => (find.trim() ? withText(table.texts, find) : group), [table, find, group]);
  const neighbors = useMemo(() => (selected === null ? [] : nearest(table.vectors, selected)), [table, selected]);
  const labels = useMemo(() => {
    const first = selected === null ? [] : [selected, ...neighbors.map(([i]) => i)];
    return placeLabels(places, table.texts, new Set([...first, ...(marked || places.keys())]), width, height, textWidth);
  }, [places, marked, selected]);
  const shown = hovered ?? selected;
  useEffect(() => {
    fitToScreen(canvas.current, width, height);
    draw(canvas.current.getContext("2d"), { places, colorOf, shapeOf, labels, marked, line, selected, neighbors, shown, ink: getComputedStyle(canvas.current).color });
  }, [places, colorOf, labels, marked, line, selected, shown, theme]);
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const mark = (text, texts) => { setFind(text); setGroup(texts); };
  const press = (event) => {
    wasDrawn.current = false;
    if (event.button !== 0 || (event.pointerType === "touch" && !byFinger)) return; // a finger scrolls the page
    canvas.current.setPointerCapture(event.pointerId);
    setLine([at(event)]);
  };
  const move = (event) => {
    setHovered(line.length > 1 ? null : nearestPlace(places, ...at(event)));
    if (line.length > 0) setLine((points) => [...points, at(event)]);
  };
  const release = () => {
    wasDrawn.current = line.some(([x, y]) => Math.hypot(x - line[0][0], y - line[0][1]) > DRAG);
    if (wasDrawn.current) { mark("", within(places, line)); setByFinger(false); }
    setLine([]);
  };
  const click = (event) => !wasDrawn.current && setSelected(nearestPlace(places, ...at(event)));
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const caption = method === "pca" ? `PCA: the axes show ${percent(view.explained[0])} and ${percent(view.explained[1] ?? 0)} of the variance` : `UMAP of the first ${view.components} principal components; distances between distant groups mean little`;
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    setSelected(((selected ?? -1) + by + places.length) % places.length);
  };
  const count = marked && `${marked.length} of ${table.texts.length} texts`;
  return html`<figure><figcaption>${table.texts.length} texts · ${caption}</figcaption>
    <p class="find"><input type="search" aria-label="Find texts" placeholder="Find texts" value=${find} onInput=${(event) => mark(event.target.value, null)} />
      <button type="button" class="touch" aria-pressed=${byFinger} onClick=${() => setByFinger(!byFinger)}>Draw a line around texts</button>
      <span role="status">${count}</span> ${marked && html`<button type="button" onClick=${() => mark("", null)}>Show all</button>`}</p>
    <div class="plot" ref=${frame}><canvas ref=${canvas} tabindex="0" role="img" style=${{ height: `${height}px`, touchAction: byFinger ? "none" : "" }}
      aria-label=${`Map of ${table.texts.length} texts. ${caption}. Arrow keys move from text to text.`}
      onPointerDown=${press} onPointerMove=${move} onPointerUp=${release} onPointerCancel=${() => setLine([])} onPointerLeave=${() => setHovered(null)} onClick=${click} onKeyDown=${step} />
      <p class="tip" dir="auto" role="status" hidden=${shown === null} style=${shown === null ? {} : nextTo(places[shown], width, height)}>${shown === null ? "" : clipped(table.texts[shown], 240)}</p></div>
    ${legend.length > 0 && html`<ul class="legend">${legend.map(([text, fill, shape]) => html`<li><${Swatch} fill=${fill} shape=${shape} /><bdi>${text}</bdi></li>`)}</ul>`}
    <p class="help">Point at a text to read it; click it to see its neighbours in all dimensions of the model. Draw a line around texts to list them.</p>
    ${selected !== null && html`<h2>Nearest to “${clipped(table.texts[selected])}”</h2><ol>${neighbors.map(([i, score]) => html`<li>
      <button type="button" dir="auto" onClick=${() => setSelected(i)}>${clipped(table.texts[i], 160)}</button> <span class="model">cosine ${score.toFixed(3)}</span></li>`)}</ol>`}
    ${marked && html`<h2>${count} ${find.trim() ? `with “${find.trim()}”` : "within the line"}</h2><ul class="marked">${marked.slice(0, LISTED).map((i) => html`<li>
      <button type="button" dir="auto" onClick=${() => setSelected(i)}>${clipped(table.texts[i], 160)}</button></li>`)}</ul>
      ${marked.length > LISTED && html`<p class="hint">and ${marked.length - LISTED} more</p>`}`}
    <p class="copy"><button type="button" onClick=${() => save("map.csv", csvOf(table, view, marked))}>${marked ? `Save ${marked.length} as CSV` : "Save as CSV"}</button>
      <button type="button" onClick=${() => canvas.current.toBlob((blob) => save("map.png", blob))}>Save as PNG</button></p>
  </figure>`;
}

const Swatch = ({ fill, shape }) => html`<svg class="shape" width="12" height="12" aria-hidden="true" fill=${fill}>
  ${shapePoints(shape) ? html`<polygon points=${shapePoints(shape)} />` : html`<circle cx="6" cy="6" r="4" />`}</svg>`;

/** Indices of the texts that contain another text, in any case. */
function withText(texts, part) {
  const sought = part.trim().toLowerCase();
  return [...texts.keys()].filter((i) => texts[i].toLowerCase().includes(sought));
}

/** The nearest texts by cosine of the whole vectors: [index, cosine]. */
function nearest(vectors, index) {
  const scores = vectors.map((vector) => cosine(vector, vectors[index]));
  return ranking(scores).filter((i) => i !== index).slice(0, NEIGHBORS).map((i) => [i, scores[i]]);
}

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  ruler.font = FONT;
  return ruler.measureText(text).width;
}

/** Give a canvas the resolution of the screen. */
function fitToScreen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

function draw(context, { places, colorOf, shapeOf, labels, marked, line, selected, neighbors, shown, ink }) {
  const radius = places.length > 1500 ? 2.5 : 5, bright = marked && new Set(marked);
  places.forEach((place, i) => {
    context.globalAlpha = !bright || bright.has(i) ? 0.85 : FADED;
    context.fillStyle = colorOf(i);
    shapePath(context, shapeOf(i), place, radius);
    context.fill();
  });
  context.globalAlpha = 1;
  context.font = FONT;
  context.fillStyle = context.strokeStyle = ink;
  for (const label of labels) context.fillText(...label);
  for (const [i] of neighbors) ring(context, places[i], radius + 2, 1, places[selected]);
  for (const i of new Set([selected, shown])) if (i !== null) ring(context, places[i], radius + 3, 2.5);
  context.lineWidth = 1.5;
  context.setLineDash([5, 4]);
  context.beginPath();
  for (const place of line) context.lineTo(...place);
  context.closePath();
  context.stroke();
  context.setLineDash([]);
}

function ring(context, [x, y], radius, width, from) {
  context.lineWidth = width;
  context.beginPath();
  if (from) { context.moveTo(...from); context.lineTo(x, y); context.moveTo(x + radius, y); }
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
}

const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;

/** The rows with their places, or the marked ones of them. */
function csvOf({ rows, names }, { points }, marked) {
  const lines = (marked || [...rows.keys()]).map((i) => [...points[i], ...names.map((name) => quoted(rows[i][name]))].join(","));
  return new Blob([["x,y", ...names.map(quoted)].join(","), "\n", lines.join("\n"), "\n"], { type: "text/csv" });
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
